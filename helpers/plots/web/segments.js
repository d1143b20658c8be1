import { choice, draw, key, make, slider } from "./dom.js";

// A chain's schedule: time to the right, a row for each x, a bar while it is held; below, how many are held.
export function start(root, data) {
  const WIDTH = 900, LEFT = 60, RIGHT = 12, TOP = 12, ROWS = 300, MEMORY = 96, GAP = 60, n = data.steps;
  const { held, forward, backward } = data.colours;
  root.textContent = "";
  const bar = make("div", { class: "bar" }, root);
  const way = choice(bar, "segments-way", "what is kept", Object.keys(data.ways));
  if (way.options.length < 2) way.style.display = "none";
  const many = slider(bar, "segments-count", "how many");
  const said = make("div", { class: "status", "data-testid": "segments-said", "aria-live": "polite" }, root);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${TOP + ROWS + GAP + MEMORY + 40}`, role: "img" }, root);
  way.addEventListener("change", () => choose(many.value()));
  many.input.addEventListener("input", paint);
  choose(data.first);

  function choose(wanted) {
    many.load(Object.keys(data.ways[way.value]).map(Number), (counts) => Math.max(0, counts.findIndex((c) => c >= wanted)));
    paint();
  }

  // Follow the schedule: when is which x held, and how many at a time?
  function follow(actions) {
    const since = new Map([[0, 0]]), bars = [], marks = [], counts = [[0, 1]];
    let time = 0, forwards = 0, most = 1;
    for (const [kind, i] of actions) {
      if (kind === 2) {
        bars.push([i, since.get(i), time]);
        since.delete(i);
      } else {
        marks.push([kind, i, time]);
        time += 1;
        if (kind === 0) { forwards += 1; since.set(i, time - 0.5); }
      }
      most = Math.max(most, since.size);
      counts.push([time, since.size]);
    }
    for (const [i, from] of since) bars.push([i, from, time]);
    return { bars, marks, counts, time, forwards, most };
  }

  function paint() {
    const count = many.value(), f = follow(data.ways[way.value][count]);
    const x = (t) => LEFT + (WIDTH - LEFT - RIGHT) * t / f.time, row = ROWS / n, y = (i) => TOP + ROWS - row * (i + 0.5);
    const floor = TOP + ROWS + GAP + MEMORY, high = (units) => floor - MEMORY * units / n;
    many.output.textContent = count;
    many.input.setAttribute("aria-valuetext", count);
    const passes = (f.forwards / n).toFixed(2);
    said.textContent = `${way.value}: ${count}. At most ${f.most} of ${n} results are held at a time; ${f.forwards} steps forward, ${passes} passes.`;
    svg.textContent = "";
    svg.setAttribute("aria-label", said.textContent);
    for (const [i, from, to] of f.bars) draw("rect", { x: x(from), y: y(i) - row * 0.36, width: Math.max(x(to) - x(from), 1), height: row * 0.72, fill: held }, svg);
    const w = Math.max(x(1) - x(0), 1.2);
    for (const [kind, i, t] of f.marks) {
      // forward: a bright square that makes x_i; back: a dark wedge at x_(i-1), which it reads
      if (kind === 0) draw("rect", { x: x(t), y: y(i) - row * 0.45, width: w, height: row * 0.9, fill: forward }, svg);
      else draw("path", { d: `M${x(t)} ${y(i - 1) - row / 2}h${w}L${x(t) + w / 2} ${y(i - 1) + row / 2}z`, fill: backward, stroke: "#111", "stroke-width": 0.4 }, svg);
    }
    for (const i of [0, Math.round(n / 2), n - 1]) draw("text", { x: LEFT - 8, y: y(i) + 5, "text-anchor": "end" }, svg, "x" + String(i).replace(/\d/g, (d) => "₀₁₂₃₄₅₆₇₈₉"[d]));
    key(svg, LEFT, TOP + ROWS + 18, [[{ fill: held }, "held"], [{ fill: forward }, "a step forward"], [{ fill: backward, "clip-path": "polygon(0 0, 100% 0, 50% 100%) fill-box" }, "a step back"]]);
    draw("path", { d: f.counts.map(([t, units], k) => (k ? `H${x(t)}` : `M${x(t)}`) + ` ${k ? "V" : ""}${high(units)}`).join(""), fill: "none", stroke: held, "stroke-width": 2.4 }, svg);
    draw("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: high(f.most), y2: high(f.most), stroke: "#111", "stroke-dasharray": "6 4" }, svg);
    draw("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: floor, y2: floor, stroke: "#111" }, svg);
    draw("text", { x: LEFT - 8, y: Math.min(high(f.most), floor - 16) + 5, "text-anchor": "end" }, svg, f.most); // clear of the 0
    draw("text", { x: LEFT - 8, y: floor + 5, "text-anchor": "end" }, svg, 0);
    draw("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: high(n), y2: high(n), stroke: "#8a8a8a", "stroke-dasharray": "2 4" }, svg);
    draw("text", { x: LEFT - 8, y: high(n) + 5, "text-anchor": "end" }, svg, f.most < 0.8 * n ? n : "");
    draw("text", { x: LEFT + 4, y: floor - MEMORY - 6 }, svg, `results held, of ${n}`);
    draw("text", { x: WIDTH - RIGHT, y: floor + 20, "text-anchor": "end" }, svg, `time: ${f.time} steps forward and back`);
  }
}
