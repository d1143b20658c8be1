import { draw, make, press, rove } from "./dom.js";

// Ranks that share one model: a card for each, the whole model drawn in it (a row for each block, a column for each part
// of the matrices) and what the rank keeps filled. A button chooses the layout, a click a rank; frames show its partners.
export function start(root, data) {
  const SIDE = 30, WIDE = 200, ACROSS = 225, DOWN = 230, [LEFT, TOP] = [14, 34], PER_ROW = 4;
  let { layout, rank } = data;
  root.textContent = "";
  const bar = make("div", { class: "bar", role: "group", "aria-label": "layout: replicas × pipeline stages × parts of a matrix" }, root);
  const buttons = Object.keys(data.layouts).map((name) => press(bar, `mesh-${name.replaceAll(" × ", "-")}`, name, name, () => { layout = name; paint(); }));
  const said = make("div", { class: "status", "data-testid": "mesh-said", "aria-live": "polite" }, root);
  const count = data.layouts[layout].length;
  const svg = draw("svg", { viewBox: `0 0 ${LEFT + ACROSS * PER_ROW} ${DOWN * Math.ceil(count / PER_ROW)}`, role: "group", "aria-label": "ranks" }, root);
  const body = draw("g", { "aria-hidden": "true" }, svg), front = draw("g", {}, svg);
  for (let r = 0; r < count; r++) {
    const [x, y] = corner(r);
    const card = draw("rect", { x: x - 8, y: y - 28, width: WIDE + 8, height: DOWN - 12, class: "card", role: "button", "aria-label": `rank ${r}`, "data-testid": `mesh-rank-${r}` }, front);
    card.addEventListener("click", () => { rank = r; paint(); });
  }
  rove(front, "rect", PER_ROW);
  paint();

  function corner(r) { return [LEFT + ACROSS * (r % PER_ROW), TOP + DOWN * Math.floor(r / PER_ROW)]; }

  function paint() {
    const ranks = data.layouts[layout], { partners } = ranks[rank];
    body.textContent = "";
    buttons.forEach((button) => button.setAttribute("aria-pressed", button.textContent === layout));
    ranks.forEach(({ rows, columns }, r) => {
      const [x, y] = corner(r), kind = r === rank ? "own" : partners[r], look = data.kinds[kind];
      draw("text", { x, y: y - 7, "font-weight": 700 }, body, `rank ${r}`);
      for (let i = 0; i < data.blocks; i++)
        for (let j = 0; j < data.parts; j++) {
          const kept = i >= rows[0] && i < rows[1] && j >= columns[0] && j < columns[1];
          draw("rect", { x: x + 48 * j, y: y + SIDE * i + 3, width: 46, height: SIDE - 2, fill: kept ? data.kept : "#eee" }, body);
        }
      if (!look) return;
      draw("rect", { x: x - 8, y: y - 28, width: WIDE + 8, height: DOWN - 12, rx: 6, fill: "none", stroke: look.colour, "stroke-width": 5, "stroke-dasharray": look.dash }, body);
      draw("text", { x, y: y + SIDE * data.blocks + 26 }, body, look.words[0]);
      draw("text", { x, y: y + SIDE * data.blocks + 48 }, body, look.words[1]);
    });
    said.textContent = ranks[rank].said;
  }
}
