import { make, press, rove, speak } from "./dom.js";

// A graph to look around in: zoom by buttons or Ctrl and the wheel (the wheel alone scrolls the page), move by dragging,
// walk from node to node with the arrow keys. The view stays within the whole picture, and names keep their size, so that
// coming closer parts them. The picture itself is there before the script.
const CLOSEST = 12; // times the whole picture's size

export function start(root) {
  const svg = root.querySelector("svg"), box = svg.viewBox.baseVal;
  const whole = [box.x, box.y, box.width, box.height];
  const bar = make("div", { class: "bar", role: "group", "aria-label": "view" });
  const closer = press(bar, "neighbourhood-closer", "+", "closer", () => zoom(1 / 1.3));
  const farther = press(bar, "neighbourhood-farther", "−", "farther away", () => zoom(1.3));
  const all = press(bar, "neighbourhood-all", "all", "the whole picture", () => zoom(CLOSEST));
  make("small", {}, bar, "Ctrl and the wheel: zoom. Drag: move. Point at a circle, or Tab to it and press an arrow key: its rank.");
  const said = make("div", { "data-testid": "neighbourhood-said", "aria-live": "polite", style: "min-height:1.4em" });
  svg.before(bar, said);

  const scale = () => box.width / svg.clientWidth, size = parseFloat(svg.getAttribute("font-size"));
  function look(x, y, width) {
    const share = Math.min(1, Math.max(1 / CLOSEST, width / whole[2]));
    [box.width, box.height] = [whole[2] * share, whole[3] * share];
    box.x = Math.min(Math.max(x, whole[0]), whole[0] + whole[2] - box.width);
    box.y = Math.min(Math.max(y, whole[1]), whole[1] + whole[3] - box.height);
    svg.setAttribute("font-size", size * share);
    closer.setAttribute("aria-disabled", share <= 1 / CLOSEST);
    for (const one of [farther, all]) one.setAttribute("aria-disabled", share >= 1);
  }
  function zoom(factor, x = box.x + box.width / 2, y = box.y + box.height / 2) {
    const to = Math.min(whole[2], Math.max(whole[2] / CLOSEST, box.width * factor)), real = to / box.width;
    look(x + (box.x - x) * real, y + (box.y - y) * real, to);
  }
  look(...whole);
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
    look(box.x - (event.clientX - from[0]) * scale(), box.y - (event.clientY - from[1]) * scale(), box.width);
    from = [event.clientX, event.clientY];
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { from = null; });

  svg.querySelectorAll("circle").forEach(speak);
  rove(svg, "circle");
  root.addEventListener("focusin", ({ target }) => {
    if (!target.matches("circle")) return;
    const x = target.cx.baseVal.value, y = target.cy.baseVal.value;
    said.textContent = target.textContent;
    const out = (at, from, long) => at < from || at > from + long; // what has the focus is in sight
    look(out(x, box.x, box.width) ? x - box.width / 2 : box.x, out(y, box.y, box.height) ? y - box.height / 2 : box.y, box.width);
  });
}
