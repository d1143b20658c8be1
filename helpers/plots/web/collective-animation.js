import { draw, make, slider } from "./dom.js";
import { player } from "./player.js";

// The player of a collective's schedules: a menu of collectives, sliders for ranks and pieces, a card for each rank.
// Sets of ranks are bits of an integer. What each rank holds after a step comes from Schedule.states, in Python.
export function start(root, data) {
  const MARK = { stroke: "#111", "stroke-width": 2.5, "stroke-dasharray": "5 3" }; // in no rank's colour
  const WIDEST = 900, LEFT = 60, NARROWEST = 34, TOP = 30, DATA_HEIGHT = 264, BAR = 40;
  let shown; // the schedule, what each rank holds and has sent in each frame, and where it stands
  root.textContent = "";

  const top = make("div", { class: "bar" }, root);
  const names = [...new Set(data.schedules.map((s) => s.name))];
  const select = make("select", { "data-testid": "animation-collective", "aria-label": "collective" }, top);
  for (const name of names) make("option", { value: name }, select, data.titles[name]);
  if (names.length === 1) {
    select.style.display = "none";
    make("strong", {}, top, data.titles[names[0]]);
  }
  const [ranks, pieces] = [["ranks", "ranks"], ["chunks", "pieces"]].map(([text, id]) => slider(top, "animation-" + id, text, { style: "width:110px" }));
  const origin = make("span", { class: "origin", "data-testid": "animation-origin" }, top);
  for (const [node, event] of [[select, "change"], [ranks.input, "input"], [pieces.input, "input"]]) node.addEventListener(event, pick);

  const stage = make("div", { class: "stage" }), svg = draw("svg", { role: "img" }, stage);
  choose(data.schedules[0]);
  const control = player(root, { steps: shown.steps.length, draw: paint, label: told, seconds: 1.25, moving: 0.9, id: "animation", name: "steps of the collective" });
  root.append(stage);
  new ResizeObserver(() => { if (stage.clientWidth) { fit(); paint(control.frame, 0); } }).observe(stage);

  function set(slider, values, value) {
    slider.load(values, (all) => all.indexOf(value));
    slider.output.textContent = " " + value;
    slider.label.style.display = slider.values.length > 1 ? "" : "none";
  }

  // The schedule for what the controls say, or the nearest that there is.
  function pick() {
    const of = data.schedules.filter((s) => s.name === select.value);
    const wanted = ranks.value(), cut = pieces.value();
    const distance = (s) => 100 * Math.abs(s.ranks - wanted) + Math.abs(s.pieces - cut);
    choose(of.reduce((best, s) => (distance(s) < distance(best) ? s : best)));
    control.load({ steps: shown.steps.length });
  }

  function choose(s) {
    shown = { ...s, ...history(s) };
    fit();
    const of = data.schedules.filter((other) => other.name === s.name);
    select.value = s.name;
    set(ranks, of.map((o) => o.ranks), s.ranks);
    set(pieces, of.filter((o) => o.ranks === s.ranks).map((o) => o.pieces), s.pieces);
    pieces.output.textContent = " " + s.chunks;
    pieces.input.setAttribute("aria-valuetext", s.chunks + " chunks");
    origin.textContent = s.origin === "trace" ? "recorded: " + s.ranks + " real ranks" : "model: " + s.ranks + " ranks";
    origin.className = "origin " + s.origin;
  }

  // A unit is a pixel, so that text can be read on a telephone. Too many ranks for its width can be scrolled.
  function fit() {
    const room = Math.min(WIDEST, stage.clientWidth || WIDEST), width = Math.max(room, LEFT + NARROWEST * shown.ranks);
    Object.assign(shown, layout(shown, width));
    svg.setAttribute("viewBox", "0 0 " + width + " " + (shown.bottom + BAR + 24));
    svg.style.minWidth = width > room ? width + "px" : "";
    if (width > room) stage.setAttribute("tabindex", 0); // keys can scroll it
    else stage.removeAttribute("tabindex");
  }

  // states[frame][rank][chunk], and sent[frame][rank] in arrays: `after` says what each message leaves at its receiver.
  function history(s) {
    const states = [s.held], sent = [new Array(s.ranks).fill(0)], size = 1 / s.chunks;
    s.steps.forEach((step, k) => {
      const after = states[k].map((row) => row.slice()), total = sent[k].slice();
      step.forEach(([source, dest, chunk], m) => {
        after[dest][chunk] = s.after[k][m];
        total[source] += size;
      });
      states.push(after);
      sent.push(total);
    });
    return { states, sent, goal: goals(states) };
  }

  // goal[chunk]: whose contributions are in it when it is complete. A broadcast's chunk has one, a sum's all.
  function goals(states) {
    const last = states[states.length - 1];
    return last[0].map((_, chunk) => last.reduce((all, row) => all | row[chunk], 0));
  }

  function layout({ ranks, chunks }, width) {
    const pitch = (width - LEFT) / ranks, row = Math.min(34, DATA_HEIGHT / chunks);
    return { pitch, row, card: Math.min(pitch * 0.8, 150), cell: row * (chunks > 16 ? 0.8 : 0.86), bottom: TOP + row * chunks };
  }

  function colour(rank) { return data.palette[rank % data.palette.length]; }
  function left(rank) { return LEFT + shown.pitch * rank + (shown.pitch - shown.card) / 2; }
  function upper(chunk) { return TOP + shown.row * chunk; }

  // One copy of a chunk: a stripe for each rank whose contribution is in it.
  function copy(bits, chunk, x, y, attributes) {
    const { ranks, card, cell, goal } = shown, held = [];
    const wanted = [...Array(ranks).keys()].filter((r) => goal[chunk] & (1 << r)), stripe = card / wanted.length;
    const group = draw("g", { transform: "translate(" + x + "," + y + ")", ...attributes }, svg);
    draw("rect", { width: card, height: cell, fill: "#f1f1f1" }, group);
    wanted.forEach((r, place) => {
      if (!(bits & (1 << r))) return;
      held.push(r);
      draw("rect", { x: place * stripe, width: stripe + 0.3, height: cell, fill: colour(r) }, group);
    });
    const full = bits === goal[chunk] && ranks > 1;
    draw("rect", { width: card, height: cell, fill: "none", stroke: full ? "#111" : "#888", "stroke-width": full ? 2 : 0.8 }, group);
    draw("title", {}, group, held.length ? "from ranks " + held.join(", ") : "nothing");
    return group;
  }

  // Draw frame `frame`; with `part` in 0..1, the messages of the next step are that far on their way.
  function paint(frame, part) {
    const { ranks, chunks, steps, states, sent, card, cell, row, bottom, pitch } = shown;
    const small = pitch < 80 ? 12 : 15;
    svg.textContent = "";
    svg.setAttribute("aria-label", data.titles[shown.name] + ", " + ranks + " ranks, after step " + frame + " of " + steps.length);
    const arrived = new Set((frame > 0 ? steps[frame - 1] : []).map(([, dest, chunk]) => dest + "," + chunk));
    if (row >= 13) {
      for (let c = 0; c < chunks; c++) {
        draw("text", { x: 4, y: upper(c) + cell / 2 + 5, "font-size": Math.min(14, row) }, svg, "chunk " + c);
      }
    }
    const most = Math.max(...sent[sent.length - 1], 1e-9);
    for (let r = 0; r < ranks; r++) {
      const x = left(r);
      draw("rect", { x, y: 8, width: pitch < 60 ? 10 : 12, height: 12, fill: colour(r) }, svg);
      draw("text", { x: x + (pitch < 60 ? 13 : 17), y: 19, "font-size": small, "font-weight": 600 }, svg, (pitch < 60 ? "" : "rank ") + r);
      for (let c = 0; c < chunks; c++) {
        copy(states[frame][r][c], c, x, upper(c));
        if (arrived.has(r + "," + c) && !part) {
          draw("rect", { x: x - 3, y: upper(c) - 2, width: card + 6, height: cell + 4, fill: "none", ...MARK, rx: 3 }, svg);
        }
      }
      const much = sent[frame][r];
      draw("rect", { x, y: bottom + 8, width: card, height: 8, fill: "#eee" }, svg);
      draw("rect", { x, y: bottom + 8, width: (card * much) / most, height: 8, fill: "#555" }, svg);
      const under = { y: bottom + 34, "font-size": small };
      if (pitch < 95) draw("text", { ...under, x: x + card / 2, "text-anchor": "middle" }, svg, short(much, 2));
      else draw("text", { ...under, x }, svg, short(much, 2) + " K sent");
    }
    if (pitch < 95) draw("text", { x: 4, y: bottom + 34, "font-size": 12 }, svg, "sent ÷ K");
    if (!part) return;
    for (const [source, dest, chunk] of steps[frame]) {
      const from = left(source), to = left(dest), eased = part * part * (3 - 2 * part);
      const lift = Math.min(26, 8 + 4 * Math.abs(dest - source)) * 4 * eased * (1 - eased);
      draw("rect", { x: from - 3, y: upper(chunk) - 2, width: card + 6, height: cell + 4, fill: "none", ...MARK, opacity: 0.5 }, svg); // where it is sent from
      const moving = copy(states[frame][source][chunk], chunk, from + (to - from) * eased, upper(chunk) - lift, { opacity: 0.92, class: "moving" });
      draw("rect", { x: -1.5, y: -1.5, width: card + 3, height: cell + 3, fill: "none", ...MARK }, moving);
    }
  }

  // One sentence for a step in which every rank does the same, as on a ring; nothing for others.
  function regular(step, adds) {
    const { ranks, chunks } = shown, back = (a, b) => (a - b + ranks) % ranks;
    if (step.length !== ranks || ranks < 3 || chunks !== ranks) return "";
    const [source, dest, chunk] = step[0], hop = back(dest, source), behind = back(source, chunk);
    if (!step.every(([s, d, c], k) => back(d, s) === hop && back(s, c) === behind && adds[k] === adds[0])) return "";
    const minus = behind ? " − " + behind : "";
    return "every rank r sends chunk r" + minus + " to rank r + " + hop + ", which " + (adds[0] ? "adds it" : "keeps it") + " (counted modulo " + ranks + ")";
  }

  function short(value, digits) { return value.toFixed(digits).replace(/\.?0+$/, ""); }

  // What happened in the step that led to `frame`.
  function told(frame) {
    const { steps, ranks, chunks, states, sent } = shown;
    if (ranks === 1) return "One rank has nothing to send.";
    if (frame === 0) {
      const copied = shown.goal.every((bits) => !(bits & (bits - 1))); // nothing is added up
      return "Before the first step. A " + (copied ? "filled box has the data" : "stripe is the contribution") + " of the rank of that colour.";
    }
    const step = steps[frame - 1], before = states[frame - 1];
    const adds = step.map(([source, dest, chunk]) => { const there = before[dest][chunk]; return there !== 0 && !(there & before[source][chunk]); });
    const phase = adds.every(Boolean) ? "summing" : adds.some(Boolean) ? "" : "handing on";
    const rule = regular(step, adds);
    const sentences = rule ? [rule] : step.slice(0, 3).map(([source, dest, chunk]) => {
      const there = before[dest][chunk], how = there && !(there & before[source][chunk]) ? "adds it" : "keeps it";
      return "rank " + source + " sends " + (chunks > 1 ? "chunk " + chunk : "all") + " to rank " + dest + ", which " + how;
    });
    if (!rule && step.length > 3) sentences.push("and " + (step.length - 3) + " more");
    const half = shown.name === "ring" && phase ? (phase === "summing" ? "reduce-scatter" : "allgather") : phase;
    const text = "Step " + frame + (half ? ", " + half : "") + ": " + sentences.join("; ") + ".";
    if (frame < steps.length) return text;
    const most = Math.max(...sent[frame]), even = sent[frame].every((v) => Math.abs(v - most) < 1e-9);
    return "Done in " + frame + " steps; " + (even ? "every rank" : "the busiest rank") + " sent " + short(most, 3) + " K. " + text;
  }
}
