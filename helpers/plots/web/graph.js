import { draw, make, pale, rove } from "./dom.js";
import { player } from "./player.js";

// A graph that runs: the SVG is there already, this paints what exists after each step, whose memory it is in, and how
// much memory that is. What each step holds comes from the plan, in Python.
export function start(root, data) {
  const { variables, steps, live, peak } = data;
  const sides = root.querySelector(".sides"), sheet = root.querySelector(".sheet"), svg = sheet.querySelector("svg");
  const key = root.querySelector(".key") || make("div", { class: "key" }, root, "operators:");
  const boxes = variables.map((_, k) => svg.querySelector(`[data-variable="${k}"]`));
  const ovals = steps.map((_, i) => svg.querySelector(`g[data-step="${i + 1}"]`));
  const edges = [...svg.querySelectorAll("path[data-step]")];
  const colour = (owner) => data.palette[variables[owner].colour];
  const called = (k) => variables[k].name || variables[k].kind;
  const whose = (k) => variables[k].name || `the result of ${variables[k].kind}`;
  const amount = (n) => n >= 1e6 ? `${+(n / 1e6).toPrecision(3)} MB` : n >= 1e3 ? `${+(n / 1e3).toPrecision(3)} kB` : `${n} B`;

  const side = make("div", { class: "side" });
  const memory = draw("svg", { viewBox: "0 0 220 300", role: "img", "data-testid": "graph-memory" }, side);
  const bars = profile(draw("svg", { viewBox: "0 0 220 200", role: "img" }, side));
  sides.append(side);
  svg.classList.add("running");

  const control = player(root, { steps: steps.length, draw: paint, label: told, seconds: 0.9, id: "graph", name: "steps of the graph" });
  const said = make("div", { class: "said", "data-testid": "graph-said", "aria-live": "polite" }, root, "Point at a box (a variable) or an oval (an operator), or Tab to one and press an arrow key. A click goes to its step.");
  make("span", { class: "now" }, key, "this step");
  if (variables.some((v) => v.made && !variables[v.owner].made)) make("span", { class: "shares" }, key, "white: shares an input's bytes");
  root.append(key);
  root.append(sides);

  for (const node of svg.querySelectorAll("g")) {
    const text = node.querySelector("title").textContent;
    node.setAttribute("role", "button");
    node.setAttribute("aria-label", text);
    node.addEventListener("click", () => control.go(step(node)));
    for (const event of ["pointerenter", "focus"]) node.addEventListener(event, () => near(node, text));
  }
  rove(svg, "g");

  function step(node) { return node.dataset.step ? Number(node.dataset.step) : variables[node.dataset.variable].made; }

  // Show what a node reads and who reads it.
  function near(node, text) {
    const k = Number(node.dataset.variable), i = node.dataset.step ? Number(node.dataset.step) - 1 : variables[k].made - 1;
    said.textContent = text + ".";
    for (const edge of edges) edge.classList.toggle("near", Number(edge.dataset.step) === i || Number(edge.dataset.from) === k);
  }

  // After step `frame`, before what nobody needs any more is given back: as the plan counts it.
  function paint(frame) {
    const now = frame ? steps[frame - 1] : null, held = new Set(now ? now.buffers.map((b) => b[0]) : []);
    boxes.forEach((box, k) => {
      const v = variables[k], later = v.made > frame, overwritten = now && steps.slice(0, frame).some((s) => s.over === k);
      const gone = !later && v.made && (frame > v.last || overwritten);
      box.classList.toggle("later", later);
      box.classList.toggle("gone", Boolean(gone));
      const rect = box.querySelector("rect"), buffer = !later && !gone && held.has(v.owner);
      rect.style.fill = buffer ? pale(colour(v.owner), 0.6) : "";
      rect.style.stroke = buffer ? colour(v.owner) : "";
      rect.style.strokeWidth = buffer ? 3 : "";
    });
    ovals.forEach((oval, i) => {
      oval.classList.toggle("now", i === frame - 1);
      oval.classList.toggle("later", i >= frame);
    });
    bars.forEach((bar, i) => bar.classList.toggle("now", i === frame - 1));
    fill(now);
    if (now) follow(ovals[frame - 1]);
  }

  // Bytes in buffers while each step runs, as bars.
  function profile(svg) {
    const LEFT = 8, TOP = 44, HIGH = 130, each = (220 - 2 * LEFT) / live.length;
    svg.setAttribute("aria-label", `bytes in buffers step by step; the peak is ${peak} bytes`);
    draw("text", { x: LEFT, y: 18, "font-size": 14 }, svg, "memory, step by step");
    draw("text", { x: LEFT, y: 36 }, svg, `peak ${amount(peak)}`);
    draw("text", { x: LEFT, y: TOP + HIGH + 18 }, svg, "step 1");
    draw("text", { x: 220 - LEFT, y: TOP + HIGH + 18, "text-anchor": "end" }, svg, live.length);
    return live.map((bytes, i) => {
      const height = HIGH * bytes / Math.max(peak, 1);
      const bar = draw("rect", { class: "bytes", x: LEFT + i * each, y: TOP + HIGH - height, width: Math.max(each - 1, 0.8), height }, svg);
      draw("title", {}, bar, `step ${i + 1}: ${amount(bytes)}`);
      return bar;
    });
  }

  // The bar: one block for each buffer in use, as high as its bytes.
  function fill(now) {
    const LOW = 285, HIGH = 245, buffers = now ? now.buffers : [], total = buffers.reduce((sum, b) => sum + b[1], 0);
    memory.textContent = "";
    memory.setAttribute("aria-label", `memory: ${total} of at most ${peak} bytes, in ${buffers.length} buffers`);
    draw("text", { x: 8, y: 18, "font-size": 14 }, memory, `buffers: ${amount(total)}`);
    draw("rect", { x: 8, y: LOW - HIGH, width: 64, height: HIGH, fill: "#f6f6f6", stroke: "#777", "stroke-dasharray": "4 3" }, memory);
    let y = LOW, label = LOW + 14;
    for (const [owner, bytes] of buffers) {
      const high = HIGH * bytes / Math.max(peak, 1), freed = now.freed.includes(owner);
      y -= high;
      draw("rect", { x: 8, y, width: 64, height: high, fill: pale(colour(owner), 0.6), stroke: "#111", "stroke-width": 0.8 }, memory);
      label = Math.min(label - 16, y + high / 2 + 5);
      if (label > 30) draw("text", { x: 80, y: label }, memory, `${called(holder(owner))} ${amount(bytes)}${freed ? " ✕" : ""}`);
    }
  }

  // Who is in a buffer now: the last variable that was written into it, so far.
  function holder(owner) {
    const frame = control ? control.frame : 0;
    let found = owner;
    for (const s of steps.slice(0, frame)) if (s.over !== null && variables[s.makes].owner === owner) found = s.makes;
    return found;
  }

  // Keep the running operator in sight, within the sheet only.
  function follow(node) {
    const outer = sheet.getBoundingClientRect(), inner = node.getBoundingClientRect();
    if (inner.top < outer.top + 10 || inner.bottom > outer.bottom - 60) sheet.scrollTop += inner.top - outer.top - outer.height / 2;
    if (inner.left < outer.left + 30 || inner.right > outer.right - 30) sheet.scrollLeft += inner.left - outer.left - outer.width / 2;
  }

  function told(frame) {
    if (!frame) return `Before the first of ${steps.length} steps: only what is fed is there. Memory will peak at ${amount(peak)}.`;
    const s = steps[frame - 1], result = called(s.makes);
    const how = { new: "into new memory", view: "seen in its operand's memory, without a copy" }[s.how] || `over ${whose(s.over)}: nobody reads that again`;
    const freed = s.freed.length ? ` Then ${s.freed.map((owner) => whose(holder(owner))).join(", ")} can go (✕).` : "";
    return `Step ${frame}${s.backward ? ", backward" : ""}: ${s.operator}${result === s.operator ? "" : ` makes ${result}`}, ${how}; ${amount(live[frame - 1])} in buffers.${freed}`;
  }

  control.go(data.first);
}
