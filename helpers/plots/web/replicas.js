import { choice, draw, make } from "./dom.js";
import { player } from "./player.js";

// Replicas on a plane through their paths: the loss as colour, a line and a mark for each replica, a cross for their mean.
export function start(root, data) {
  const WIDTH = 900, HEIGHT = 470, LEFT = 12, TOP = 8, W = 760, H = 440;
  root.textContent = "";
  const bar = make("div", { class: "bar" }, root);
  const menu = choice(make("label", {}, bar, "run "), "replicas-run", "which run", Object.keys(data.paths));
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const { x: xs, y: ys } = data, cols = xs.length, rows = ys.length;
  const sx = (v) => LEFT + (W * (v - xs[0])) / (xs[cols - 1] - xs[0]);
  const sy = (v) => TOP + H - (H * (v - ys[0])) / (ys[rows - 1] - ys[0]);
  const w = W / (cols - 1), h = H / (rows - 1);
  const clip = `replicas-${Math.random().toString(36).slice(2)}`;
  const defs = draw("clipPath", { id: clip }, draw("defs", {}, svg));
  draw("rect", { x: LEFT, y: TOP, width: W, height: H }, defs);
  const ground = draw("g", { "clip-path": `url(#${clip})` }, svg);
  const pixels = make("canvas", { width: cols, height: rows }), pen = pixels.getContext("2d");
  data.fill.forEach((line, j) => line.forEach((colour, i) => { pen.fillStyle = colour; pen.fillRect(i, rows - 1 - j, 1, 1); }));
  // one picture of few pixels, which the browser draws without edges between them
  draw("image", { href: pixels.toDataURL(), x: LEFT - w / 2, y: TOP - h / 2, width: w * cols, height: h * rows, preserveAspectRatio: "none" }, ground);
  const layer = draw("g", {}, svg);
  data.scale.forEach((colour, k) => draw("rect", { x: 800, y: TOP + 300 - k * 14, width: 22, height: 14.5, fill: colour }, svg));
  for (const frame of [{ x: LEFT, y: TOP, width: W, height: H }, { x: 800, y: TOP + 20, width: 22, height: 294.5 }]) draw("rect", { ...frame, fill: "none", stroke: "#777" }, svg);
  draw("text", { x: 828, y: TOP + 312 }, svg, data.low.toPrecision(2));
  draw("text", { x: 828, y: TOP + 34 }, svg, data.high.toPrecision(2));
  draw("text", { x: 790, y: TOP + 12 }, svg, "loss (log)");
  draw("text", { x: 790, y: TOP + 350 }, svg, "✕ their mean");
  const shapes = ["M-7 0a7 7 0 1 0 14 0a7 7 0 1 0 -14 0z", "M-6.5 -6.5h13v13h-13z", "M0 -8.5L8 6.5H-8z", "M0 -9L9 0L0 9L-9 0z"];
  data.paths[menu.value].forEach((path, r) => {
    draw("path", { d: shapes[r % 4], transform: `translate(800 ${TOP + 370 + 20 * r})`, fill: data.colours[r % 4], stroke: "#111", "stroke-width": 1.5 }, svg);
    draw("text", { x: 816, y: TOP + 375 + 20 * r }, svg, `replica ${r}`);
  });

  const run = () => data.paths[menu.value];
  const at = (path, step, part) => path[step].map((v, k) => v + part * ((path[Math.min(step + 1, path.length - 1)] || path[step])[k] - v));
  const mean = (now) => [0, 1].map((k) => now.reduce((sum, point) => sum + point[k], 0) / now.length);
  function paint(step, part) {
    layer.textContent = "";
    const now = run().map((path) => at(path, step, part));
    run().forEach((path, r) => {
      const points = [...path.slice(0, step + 1), now[r]].map(([a, b]) => `${sx(a).toFixed(1)},${sy(b).toFixed(1)}`).join(" ");
      draw("polyline", { points, fill: "none", stroke: "#fff", "stroke-width": 4.5 }, layer);
      draw("polyline", { points, fill: "none", stroke: data.colours[r % 4], "stroke-width": 2.5 }, layer);
    });
    now.forEach(([a, b], r) => draw("path", { d: shapes[r % 4], transform: `translate(${sx(a)} ${sy(b)})`, fill: data.colours[r % 4], stroke: "#111", "stroke-width": 1.5 }, layer));
    const [a, b] = mean(now), cross = { d: "M-7 -7L7 7M7 -7L-7 7", transform: `translate(${sx(a)} ${sy(b)})` };
    for (const [stroke, wide] of [["#fff", 5], ["#111", 2.4]]) draw("path", { ...cross, stroke, "stroke-width": wide }, layer);
    svg.setAttribute("aria-label", sentence(step));
  }
  function sentence(step) {
    const now = run().map((path) => path[step]), [a, b] = mean(now);
    const far = Math.max(...now.map((p) => Math.hypot(p[0] - a, p[1] - b)));
    const met = (data.met[menu.value] || []).includes(step) ? " All replicas have just been set to their mean." : "";
    return `${menu.value}, after ${step} steps: in this plane the farthest replica is ${far.toPrecision(2)} from the mean.${met}`;
  }
  const options = () => ({ steps: run()[0].length - 1, draw: paint, label: sentence, seconds: 0.15, moving: 0.14, name: "replicas on a loss surface", id: "replicas" });
  const control = player(root, options());
  root.append(svg);
  const half = run()[0].length / 2, meetings = data.met[menu.value] || [];
  const nearest = meetings.reduce((best, one) => (Math.abs(one - half) < Math.abs(best - half) ? one : best), Infinity);
  control.go(Number.isFinite(nearest) ? nearest - 1 : Math.round(half)); // where they are farthest apart
  menu.addEventListener("change", () => control.load(options()));
}
