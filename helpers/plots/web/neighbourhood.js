import { make, rove } from "./dom.js";

// A graph to look around in: zoom by buttons or Ctrl and the wheel (the wheel alone scrolls the page), move by dragging,
// walk from node to node with the arrow keys. The picture itself is there before the script.
export function start(root) {
  const svg = root.querySelector("svg"), box = svg.viewBox.baseVal;
  const whole = [box.x, box.y, box.width, box.height];
  const bar = make("div", { class: "bar", role: "group", "aria-label": "view" });
  const button = (id, sign, label, action) => {
    make("button", { type: "button", "data-testid": `neighbourhood-${id}`, "aria-label": label, title: label }, bar, sign).addEventListener("click", action);
  };
  button("closer", "+", "closer", () => zoom(1 / 1.3));
  button("farther", "−", "farther away", () => zoom(1.3));
  button("all", "all", "the whole picture", () => [box.x, box.y, box.width, box.height] = whole);
  make("small", {}, bar, "Ctrl and the wheel: zoom. Drag: move. Point at a circle, or Tab to it and press an arrow key: its rank.");
  const said = make("div", { "data-testid": "neighbourhood-said", "aria-live": "polite", style: "min-height:1.4em" });
  svg.before(bar, said);

  const scale = () => box.width / svg.clientWidth;
  function zoom(factor, x = box.x + box.width / 2, y = box.y + box.height / 2) {
    box.x = x + (box.x - x) * factor;
    box.y = y + (box.y - y) * factor;
    box.width *= factor;
    box.height *= factor;
  }
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { left, top } = svg.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, box.x + (event.clientX - left) * scale(), box.y + (event.clientY - top) * scale());
  }, { passive: false });

  let from = null;
  svg.addEventListener("pointerdown", (event) => {
    from = [event.clientX, event.clientY];
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    box.x -= (event.clientX - from[0]) * scale();
    box.y -= (event.clientY - from[1]) * scale();
    from = [event.clientX, event.clientY];
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { from = null; });

  for (const mark of svg.querySelectorAll("circle")) {
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", mark.textContent);
  }
  rove(svg, "circle");
  root.addEventListener("focusin", ({ target }) => {
    if (!target.matches("circle")) return;
    const x = target.cx.baseVal.value, y = target.cy.baseVal.value;
    said.textContent = target.textContent;
    if (x < box.x || x > box.x + box.width) box.x = x - box.width / 2; // what has the focus is in sight
    if (y < box.y || y > box.y + box.height) box.y = y - box.height / 2;
  });
}
