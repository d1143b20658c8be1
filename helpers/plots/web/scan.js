import { choice, draw, make } from "./dom.js";
import { player } from "./player.js";

// Steps of a scan in shared memory, a row for each: who adds what to what. A menu chooses the scan.
export function start(root, data) {
  const LEFT = 130, CELL = Math.min(88, 760 / data.runs[0].rows[0].length), HIGH = 34, GAP = 34, TOP = 8;
  root.textContent = "";
  const bar = make("div", { class: "bar" }, root);
  const menu = choice(bar, "scan-choice", "scan", data.runs.map((run) => run.name));
  const svg = draw("svg", { role: "img", "aria-label": "the numbers after each step" });
  let run = data.runs[0];
  const middle = (place) => LEFT + (place + .5) * CELL;
  const top = (row) => TOP + row * (HIGH + GAP);

  function show(frame) {
    svg.textContent = "";
    svg.setAttribute("viewBox", `0 0 ${LEFT + CELL * run.rows[0].length + 8} ${top(run.rows.length) - GAP + 4}`);
    for (let row = 0; row <= frame; row++) {
      draw("text", { x: 0, y: top(row) + 22, "font-size": 16 }, svg, run.names[row]);
      const changed = new Map((run.moves[row] || []).map((move) => [move.to, move.thread]));
      for (const { thread, from, to } of run.moves[row] || [])
        for (const place of from) draw("line", { x1: middle(place), y1: top(row - 1) + HIGH, x2: middle(to), y2: top(row), stroke: data.palette[thread % data.palette.length], "stroke-width": row === frame ? 3 : 2 }, svg);
      run.rows[row].forEach((value, place) => {
        const thread = changed.get(place);
        draw("rect", { x: LEFT + place * CELL + 3, y: top(row), width: CELL - 6, height: HIGH, fill: row === 0 || thread !== undefined ? "#fff" : "#ececec", stroke: thread === undefined ? "#8a8a8a" : data.palette[thread % data.palette.length], "stroke-width": thread === undefined ? .8 : 3 }, svg);
        draw("text", { x: middle(place), y: top(row) + 23, "text-anchor": "middle", "font-size": 17, "font-weight": thread === undefined ? 400 : 700 }, svg, value);
        if (thread !== undefined) draw("text", { x: LEFT + place * CELL + 9, y: top(row) + 22, "font-size": 16 }, svg, `t${thread}`);
      });
    }
  }

  const options = () => ({ steps: run.rows.length - 1, draw: show, label: (frame) => run.labels[frame] });
  const control = player(root, { ...options(), seconds: 1.6, id: "scan", name: "steps of the scan" });
  menu.addEventListener("change", () => { run = data.runs[menu.selectedIndex]; control.load(options()); control.go(run.rows.length - 1); });
  root.append(svg);
  control.go(run.rows.length - 1);  // the whole scan; the buttons play it
}
