import { draw, make, rove, speak } from "./dom.js";

// The roofline: its marks tell about themselves, and a form adds kernels of the reader's own.
export function start(root, data) {
  const svg = root.querySelector("svg"), [W, H, L, B, R, T] = data.box;
  const form = make("form", {}, root);
  make("span", {}, form, "Your kernel:");
  const field = (id, text, attributes) => {
    const label = make("label", {}, form);
    const input = make("input", { "data-testid": `roofline-${id}`, "aria-label": text || id, ...attributes }, label);
    label.append(" " + text);
    return input;
  };
  const name = field("name", "", { value: "mine" });
  const numbers = ["flop", "bytes", "seconds"].map((text) => field(text, text, { inputmode: "decimal" }));
  make("button", { "data-testid": "roofline-add" }, form, "add");
  const said = make("div", { class: "status", "data-testid": "roofline-said", "aria-live": "polite" }, root);

  const tell = (mark) => { said.textContent = mark.textContent; };
  const marks = svg.querySelectorAll("circle");
  marks.forEach(speak);
  if (marks.length) rove(svg, "circle");
  for (const event of ["click", "focusin"]) root.addEventListener(event, (e) => { if (e.target.matches("circle")) tell(e.target); });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [flop, bytes, seconds] = numbers.map((input) => Number(input.value));
    if (!(flop > 0 && bytes > 0 && seconds > 0)) { said.textContent = "three numbers above 0, please"; return; }
    const i = flop / bytes, p = flop / seconds, roof = Math.min(data.top, data.memory * i);
    const inside = (value, low, high) => Math.min(high, Math.max(low, value));
    const across = L + (Math.log10(i) - data.x0) / (data.x1 - data.x0) * (W - L - R);
    const up = H - B - (Math.log10(p) - data.y0) / (data.y1 - data.y0) * (H - B - T);
    const x = inside(across, L, W - R), y = inside(up, T, H - B); // beyond the axes: at their edge
    const mark = draw("circle", { cx: x, cy: y, r: 7, fill: "#009E73" }, svg);
    draw("title", {}, mark, `${name.value}: ${i.toPrecision(3)} flop/byte, ${(p / 1e9).toPrecision(3)} Gflop/s, ` +
      `${(100 * p / roof).toFixed(0)} % of its roof` + (x !== across || y !== up ? ", beyond the picture" : ""));
    draw("text", { x: x + 10, y: y + 5, fill: "#111", "aria-hidden": true }, svg, name.value);
    speak(mark);
    mark.setAttribute("tabindex", -1);
    tell(mark);
  });
}
