import { draw, make, pale, rove } from "./dom.js";
import { player } from "./player.js";

// A warp's request: memory as rows of 32 words, so that a bank is a column and a sector 8 words of a row. A frame shows
// one request; a click on a bank's number tells which lanes want it.
export function start(root, data) {
  const LEFT = 64, CELL = 26, HIGH = 16, TOP = 34, [BLUE, ORANGE] = data.palette;
  const rows = Math.max(...data.requests.flatMap((request) => request.words)) / 32 + 1 | 0;
  root.textContent = "";
  const said = make("div", { "data-testid": "lanes-text", "aria-live": "polite" });
  const svg = draw("svg", { viewBox: `0 0 ${LEFT + 32 * CELL + 4} ${TOP + rows * HIGH + 30}`, role: "group", "aria-label": "words of memory, a column for each bank" });
  draw("text", { x: 0, y: 18, "font-size": 14, "font-weight": 600 }, svg, "bank");
  draw("text", { x: 0, y: TOP + rows * HIGH + 20, "font-size": 14, "font-weight": 600 }, svg, "lanes");
  const banks = draw("g", { role: "group", "aria-label": "banks" }, svg);
  for (let bank = 0; bank < 32; bank++) {
    const x = LEFT + bank * CELL;
    const box = draw("rect", { x, y: 2, width: CELL, height: 24, fill: "#f6f6f6", stroke: "#8a8a8a", role: "button", "aria-label": `bank ${bank}`, "data-testid": `lanes-bank-${bank}` }, banks);
    box.addEventListener("click", () => tell(bank));
    draw("text", { x: x + CELL / 2, y: 19, "text-anchor": "middle", "font-size": 13 }, svg, bank);
  }
  rove(banks, "rect", 32);
  const body = draw("g", { "aria-hidden": "true" }, svg);
  let control = null;

  function show(frame) {
    const { words, sectors } = data.requests[frame], wanted = Array(32).fill(0);
    const lanes = new Map(words.map((word, lane) => [word, lane]));
    body.textContent = "";
    for (let word = 0; word < 32 * rows; word++) {
      const x = LEFT + (word % 32) * CELL, y = TOP + Math.floor(word / 32) * HIGH, lane = lanes.get(word);
      const fill = lane !== undefined ? BLUE : sectors.includes(Math.floor(word / 8)) ? pale(ORANGE, .55) : "#f6f6f6";
      draw("rect", { x, y, width: CELL, height: HIGH, fill, stroke: "#8a8a8a", "stroke-width": .5 }, body);
      if (lane === undefined) continue;
      wanted[word % 32] += 1;
      draw("text", { x: x + CELL / 2, y: y + 12.5, "text-anchor": "middle", "font-size": 12.5, class: "lane" }, body, lane);
    }
    for (let row = 0; row < rows; row++) {
      if (row % 4 === 0) draw("text", { x: LEFT - 6, y: TOP + row * HIGH + 12.5, "text-anchor": "end", "font-size": 13 }, body, row ? 32 * row : "word 0");
      for (let s = 0; s <= 4; s++) draw("line", { x1: LEFT + s * 8 * CELL, x2: LEFT + s * 8 * CELL, y1: TOP + row * HIGH, y2: TOP + (row + 1) * HIGH, stroke: "#555", "stroke-width": 1.2 }, body);
    }
    wanted.forEach((count, bank) => draw("text", { x: LEFT + (bank + .5) * CELL, y: TOP + rows * HIGH + 20, "text-anchor": "middle", "font-size": 14, "font-weight": count > 1 ? 700 : 400 }, body, count || "·"));
    said.textContent = "Blue: the word of a lane, with its number. Orange: the rest of the sectors that move. Click a bank.";
  }

  function tell(bank) {
    const words = data.requests[control.frame].words;
    const lanes = words.map((word, lane) => [word, lane]).filter(([word]) => word % 32 === bank).map(([, lane]) => lane);
    said.textContent = lanes.length ? `Bank ${bank}: lane${lanes.length > 1 ? "s" : ""} ${lanes.join(", ")}. It serves one word at a time: ${lanes.length} wavefront${lanes.length > 1 ? "s" : ""}.` : `Bank ${bank}: no lane.`;
  }

  control = player(root, { steps: data.requests.length - 1, draw: show, label: (frame) => data.requests[frame].label, seconds: 2.5, id: "lanes", name: "requests of a warp" });
  root.append(svg, said);
  control.go(data.requests.length - 1);  // the widest request; the buttons play them
}
