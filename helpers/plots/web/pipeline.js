import { choice, draw, key, make, slider } from "./dom.js";
import { player } from "./player.js";

// Steps of pipelines: a menu of schedules, sliders for ranks, micro-batches and memory; a lane for each rank, and how
// many micro-batches it keeps at the moment that is shown.
export function start(root, data) {
  const WIDTH = 900, LEFT = 74, RIGHT = 190, TOP = 26, FRAMES = 40;
  const { colours, edges, inks, names, runs } = data;
  let run = null, held = []; // none yet while the controls are made
  root.textContent = "";
  const bar = make("div", { class: "bar" }, root);
  const menu = choice(bar, "pipeline-schedule", "schedule", new Set(runs.map((run) => run.name)));
  const [ranks, micro, memory] = [["ranks", "ranks"], ["micro", "micro-batches"], ["memory", "room for"]].map(([id, text]) => slider(bar, `pipeline-${id}`, text));
  const origin = make("div", { class: "origin", "data-testid": "pipeline-origin" }, root);
  const said = make("div", { class: "status", "data-testid": "pipeline-status", "aria-live": "polite" });
  const control = player(root, { steps: FRAMES, draw: paint, label: told, seconds: 0.22, id: "pipeline", name: "the step of training", status: said });
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} 300`, role: "img" }, root);
  menu.addEventListener("change", choose);
  for (const part of [ranks, micro]) part.input.addEventListener("input", choose);
  memory.input.addEventListener("input", () => { limits(); paint(control.frame); });
  ranks.load(runs.map((r) => r.ranks), nearest(data.ranks));
  choose();

  function nearest(wanted) {
    return (values) => values.reduce((best, value, k) => (Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? k : best), 0);
  }

  function choose() {
    const named = runs.filter((r) => r.name === menu.value);
    ranks.load(named.map((r) => r.ranks), nearest(ranks.value()));
    const sized = named.filter((r) => r.ranks === ranks.value());
    micro.load(sized.map((r) => r.micro), nearest(micro.value() || data.micro));
    run = sized.find((r) => r.micro === micro.value());
    held = Array.from({ length: run.ranks }, () => []);
    const changes = run.boxes.filter((b) => b[1] !== 2).map((b) => [b[5], b[0], (b[1] === 0 ? 1 : -1) / run.chunks]).sort((a, b) => a[0] - b[0]);
    for (const [t, r, change] of changes) held[r].push([t, (held[r].length ? held[r][held[r].length - 1][1] : 0) + change]);
    memory.load(Array.from({ length: run.micro }, (_, k) => k + 1), nearest(memory.value() || run.micro));
    limits();
    origin.textContent = run.recorded ? `recorded on ${run.ranks} ranks; ${run.note}` : `model of ${run.ranks} ranks, not recorded: all stages alike, messages take no time`;
    origin.style.color = run.recorded ? "#00664b" : "#555";
    control.load({ steps: FRAMES });
    control.go(FRAMES / 2); // in the middle of the step, where something is kept
  }

  function limits() {
    memory.output.textContent = memory.value();
    memory.input.setAttribute("aria-valuetext", `${memory.value()} micro-batches on a rank`);
  }

  function most(r) { return Math.max(0, ...held[r].map((h) => h[1])); }

  function now(r, t) {
    let count = 0;
    for (const [moment, n] of held[r]) if (moment <= t) count = n;
    return count;
  }

  function told() {
    if (!run) return "";
    const over = held.map((_, r) => r).filter((r) => most(r) > memory.value());
    const room = over.length ? `Too little room on rank${over.length > 1 ? "s" : ""} ${over.join(", ")}.` : "It fits on every rank.";
    return `${run.name}: ranks are idle ${(100 * run.idle).toFixed(0)} % of the time; rank 0 keeps ${+most(0).toFixed(2)} of ${run.micro} micro-batches at most. ${room}`;
  }

  function paint(frame) {
    if (!run) return;
    const lane = Math.min(44, 300 / run.ranks), height = TOP + lane * run.ranks, t = 1000 * frame / FRAMES;
    const x = (moment) => LEFT + (WIDTH - LEFT - RIGHT) * moment / 1000, unit = Math.min(16, (RIGHT - 70) / run.micro);
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height + 34}`);
    svg.textContent = "";
    said.textContent = told();
    svg.setAttribute("aria-label", said.textContent);
    draw("text", { x: WIDTH - RIGHT + 12, y: 16 }, svg, "kept (frame: at most)");
    for (let r = 0; r < run.ranks; r++) {
      const y = TOP + lane * r, peak = most(r), kept = now(r, t), over = peak > memory.value();
      draw("text", { x: LEFT - 8, y: y + lane / 2 + 5, "text-anchor": "end" }, svg, `rank ${r}`);
      draw("rect", { x: WIDTH - RIGHT + 12, y: y + lane * 0.2, width: unit * peak, height: lane * 0.6, fill: "none", stroke: over ? "#B84300" : "#111", "stroke-width": over ? 3 : 1, "stroke-dasharray": over ? "5 3" : "none" }, svg);
      draw("rect", { x: WIDTH - RIGHT + 12, y: y + lane * 0.2, width: unit * kept, height: lane * 0.6, fill: "#1C97FB" }, svg);
      draw("text", { x: WIDTH - RIGHT + 16 + unit * peak, y: y + lane / 2 + 5 }, svg, `${+kept.toFixed(2)}${over ? " !" : ""}`);
    }
    for (const [r, kind, i, chunk, begin, end] of run.boxes) {
      const y = TOP + lane * r + lane * 0.08, w = x(end) - x(begin), done = end <= t + 0.5, started = begin < t;
      const attributes = { x: x(begin), y, width: Math.max(w - 0.6, 0.5), height: lane * 0.84, fill: colours[kind], stroke: done ? edges[kind] : colours[kind], "stroke-width": 0.8, "fill-opacity": done ? 1 : started ? 0.6 : 0.13 };
      draw("rect", attributes, svg);
      if (chunk % 2) draw("rect", { x: x(begin), y: y + lane * 0.7, width: Math.max(w - 0.6, 0.5), height: lane * 0.14, fill: "#111", opacity: done ? 1 : 0.2 }, svg);
      if (w > 13 && lane > 17) draw("text", { x: x((begin + end) / 2), y: y + lane * 0.42 + 5, "text-anchor": "middle", style: `fill:${done ? inks[kind] : "#111"}` }, svg, i);
    }
    draw("line", { x1: x(t), x2: x(t), y1: TOP - 4, y2: height + 2, stroke: "#111", "stroke-width": 1.5 }, svg);
    const used = [...new Set(run.boxes.map((b) => b[1]))].sort(), entries = used.map((kind) => [{ fill: colours[kind], stroke: edges[kind], "stroke-width": 0.8 }, names[kind]]);
    if (run.chunks > 1) entries.push([{ y: height + 19, height: 4, fill: "#111" }, "through the rank's second chunk"]);
    key(svg, LEFT, height + 22, entries);
  }
}
