// A term's definition while the pointer or the keyboard is on it; Escape takes it away.
for (const link of document.querySelectorAll("a.term[data-definition]")) {
  let box = null;
  const hide = () => { if (box) { box.remove(); box = null; link.removeAttribute("aria-describedby"); } };
  const leave = (event) => { if (!box || !box.contains(event.relatedTarget)) hide(); };
  const show = () => {
    if (box) return;
    box = document.createElement("div");
    box.className = "definition";
    box.role = "tooltip";
    box.id = "definition";
    box.textContent = link.dataset.definition;
    document.body.append(box);
    const at = link.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - 8));
    box.style.left = `${left + scrollX}px`;
    box.style.top = `${at.bottom + scrollY}px`;
    link.setAttribute("aria-describedby", box.id);
    box.addEventListener("mouseleave", (event) => { if (event.relatedTarget !== link) hide(); });
  };
  link.addEventListener("mouseenter", show);
  link.addEventListener("focus", show);
  link.addEventListener("mouseleave", leave);
  link.addEventListener("blur", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
}

// What is wider than its place scrolls, so the keyboard must reach it.
const reach = () => {
  for (const box of document.querySelectorAll("pre, .table-wrapper, .cell_output, math[display=block]")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
addEventListener("load", reach);
addEventListener("resize", reach);
