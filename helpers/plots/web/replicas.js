import { choice, draw, make } from "./dom.js";
import { player } from "./player.js";

// Replicas on a plane through their paths: contours of the loss, a line and a mark for each replica, a cross for their mean.
export function start(root, data) {
  const WIDTH = 900, LEFT = 12, TOP = 8, KEY = 790, { x: xs, y: ys } = data;
  const scale = Math.min(760 / (xs[1] - xs[0]), 440 / (ys[1] - ys[0])); // one for both directions: distances are seen
  const W = scale * (xs[1] - xs[0]), H = scale * (ys[1] - ys[0]);
  root.textContent = "";
  const bar = make("div", { class: "bar" }, root);
  const menu = choice(make("label", {}, bar, "run "), "replicas-run", "which run", Object.keys(data.paths));
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${Math.max(H, 170) + 2 * TOP}`, role: "img" });
  const sx = (v) => LEFT + scale * (v - xs[0]), sy = (v) => TOP + H - scale * (v - ys[0]);
  const trace = (points) => "M" + points.map(([a, b]) => `${sx(a).toFixed(1)} ${sy(b).toFixed(1)}`).join("L");
  const written = (x, y, text) => draw("text", { x, y, "text-anchor": "middle", stroke: "#fff", "stroke-width": 5, "paint-order": "stroke" }, svg, text);
  for (const band of data.bands) draw("path", { d: band.parts.map((part) => `${trace(part)}Z`).join(""), fill: band.fill, "fill-rule": "evenodd" }, svg);
  for (const line of data.lines) draw("path", { d: line.parts.map(trace).join(""), fill: "none", stroke: "#777" }, svg);
  draw("rect", { x: LEFT, y: TOP, width: W, height: H, fill: "none", stroke: "#777" }, svg);
  const layer = draw("g", {}, svg);
  const labels = [];
  for (const { level, label: [a, b] } of data.lines) {
    const x = Math.min(Math.max(sx(a), LEFT + 18), LEFT + W - 18), y = Math.min(Math.max(sy(b) + 6, TOP + 18), TOP + H - 6);
    if (labels.some(([u, v]) => Math.abs(x - u) < 36 && Math.abs(y - v) < 22)) continue; // no room beside another line's
    labels.push([x, y]);
    written(x, y, level);
  }
  const room = (xs[1] - xs[0]) / 5, ten = 10 ** Math.floor(Math.log10(room)), long = ten * [5, 2, 1].find((k) => k * ten <= room);
  draw("path", { d: `M${LEFT + W - 20} ${TOP + H - 22}v10h${-scale * long}v-10`, fill: "none", stroke: "#111", "stroke-width": 2 }, svg);
  written(LEFT + W - 20 - (scale * long) / 2, TOP + H - 19, +long.toPrecision(1));
  draw("path", { d: `M${KEY} ${TOP + 20}h20`, stroke: "#777" }, svg);
  draw("text", { x: KEY + 26, y: TOP + 25 }, svg, "equal loss");
  draw("text", { x: KEY, y: TOP + 55 }, svg, "✕ their mean");
  const shapes = ["M-7 0a7 7 0 1 0 14 0a7 7 0 1 0 -14 0z", "M-6.5 -6.5h13v13h-13z", "M0 -8.5L8 6.5H-8z", "M0 -9L9 0L0 9L-9 0z"];
  data.paths[menu.value].forEach((path, r) => {
    draw("path", { d: shapes[r % 4], transform: `translate(${KEY + 10} ${TOP + 79 + 24 * r})`, fill: data.colours[r % 4], stroke: "#111", "stroke-width": 1.5 }, svg);
    draw("text", { x: KEY + 26, y: TOP + 85 + 24 * r }, svg, `replica ${r}`);
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
