import { draw, make, pale } from "./dom.js";
import { player } from "./player.js";

// Processes in a ring, and the ball that they pass on: a frame for each time that one of them got it.
export function start(root, data) {
  const { processes, stops, colours } = data, n = processes.length, X = 450, Y = 196, A = 310, B = 112, R = 64;
  root.textContent = "";
  const place = (turn) => { const angle = 2 * Math.PI * turn / n - Math.PI / 2; return [X + A * Math.cos(angle), Y + B * Math.sin(angle)]; };
  // the ball's way lies outside the discs, so that their text stays readable
  const outside = (turn) => { const [x, y] = place(turn), out = 1 + (R + 2) / Math.hypot(x - X, y - Y); return [X + (x - X) * out, Y + (y - Y) * out]; };
  const svg = draw("svg", { viewBox: "0 0 900 392", role: "img" });
  const way = Array.from({ length: 120 }, (_, k) => outside(n * k / 120).map((v) => v.toFixed(1)).join()).join(" ");
  draw("polygon", { points: way, fill: "none", stroke: "#777", "stroke-width": 3, "stroke-dasharray": "3 7" }, svg);
  const discs = processes.map((process, rank) => {
    const [x, y] = place(rank);
    const disc = draw("circle", { cx: x, cy: y, r: R, stroke: colours[rank], "stroke-width": 5 }, svg);
    draw("text", { x, y: y - 12, class: "rank" }, svg, `rank ${rank}`);
    ["process", process].forEach((text, k) => draw("text", { x, y: y + 12 + 20 * k }, svg, text));
    return disc;
  });
  const hub = [`${n} processes,`, `${data.cores} ${data.cores === 1 ? "core" : "cores"}`];
  hub.forEach((text, k) => draw("text", { x: X, y: Y - 4 + 28 * k, class: "hub" }, svg, text));
  const ball = draw("circle", { r: 15, fill: "#111", stroke: "#fff", "stroke-width": 3 }, svg);

  function paint(step, part) {
    const [cx, cy] = outside(step + part);
    ball.setAttribute("cx", cx);
    ball.setAttribute("cy", cy);
    discs.forEach((disc, rank) => disc.setAttribute("fill", pale(colours[rank], !part && stops[step][1] === rank ? 0.45 : 0.12)));
    svg.setAttribute("aria-label", sentence(step));
  }
  function sentence(step) {
    const [seconds, rank] = stops[step], after = (1e3 * seconds).toPrecision(3);
    if (step === 0) return `Rank 0 has the ball, and will send it to rank 1. It goes round ${(stops.length - 1) / n} times.`;
    return `Rank ${stops[step - 1][1]} sent the ball to rank ${rank}, which got it ${after} ms after the start. (Slowed down, as if all messages took equally long.)`;
  }
  player(root, { steps: stops.length - 1, draw: paint, label: sentence, seconds: 0.5, moving: 0.4, name: "a ball that ranks pass round", id: "ring" });
  root.append(svg);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) root.querySelector("[data-testid=ring-play]").click();
}
