import { draw, make, rove } from "./dom.js";
import { player } from "./player.js";

// Two arrays as grids, and the threads that touched them. Mode "threads": a click on an element
// tells who wrote or read it. Mode "tile": steps play how a block fills its tile.
export function start(root, data) {
  const WIDTH = 900, GAP = 56, TOP = 30, PALE = .5, STRONG = .3;
  const clickable = data.mode === "threads", flat = data.blockDim[1] === 1;
  root.textContent = "";
  const said = make("div", { class: "status", "data-testid": "accesses-text", "aria-live": "polite" });
  const legend = make("div");
  const { svg, cells, size } = grids();
  if (clickable) threads();
  else tile();
  root.append(said, svg, legend);

  // A colour, mixed with white until its luminance is that of all blocks: in a dark theme, too, they are equally light.
  function tone(hex, luminance) {
    const parts = [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16) / 255);
    const mixed = (share) => parts.map((part) => 1 - share * (1 - part));
    const light = (colour) => colour.reduce((sum, v, k) => sum + [.2126, .7152, .0722][k] * (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4), 0);
    let low = 0, high = 1;
    for (let k = 0; k < 12; k++) {
      const middle = (low + high) / 2;
      if (light(mixed(middle)) > luminance) low = middle;
      else high = middle;
    }
    return `rgb(${mixed(low).map((v) => Math.round(255 * v)).join(",")})`;
  }
  function triple(numbers) { return `(${numbers.join(", ")})`; }
  function place(array, k) {
    const columns = array.shape[1];
    return array.shape[0] === 1 ? `${array.name}[${k}]` : `${array.name}[${Math.floor(k / columns)}][${k % columns}]`;
  }
  function blockColour(b) { return data.palette[(b[0] + data.gridDim[0] * (b[1] + data.gridDim[1] * b[2])) % data.palette.length]; }

  function grids() {
    const [a, b] = data.arrays.map((array) => array.shape);
    const stacked = a[0] === 1 && b[0] === 1;
    const columns = stacked ? Math.max(a[1], b[1]) : a[1] + b[1];
    const rows = stacked ? 2 : Math.max(a[0], b[0]);
    const size = Math.min(44, (WIDTH - (stacked ? 0 : GAP)) / columns);
    const height = TOP + rows * size + (stacked ? TOP + 10 : 6);
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: clickable ? "group" : "img", "aria-label": `${data.arrays[0].name} and ${data.arrays[1].name}` });
    const cells = data.arrays.map((array, which) => {
      const left = stacked || !which ? 2 : a[1] * size + GAP;
      const top = stacked && which ? TOP + size + TOP : TOP;
      const title = array.shape[0] === 1 ? `${array.name} (${array.shape[1]})` : `${array.name} (${array.shape[0]} × ${array.shape[1]})`;
      draw("text", { x: left, y: top - 10, "font-size": 16, "font-weight": 600 }, svg, title);
      const group = draw("g", { role: "group", "aria-label": title }, svg);
      const made = [];
      for (let k = 0; k < array.shape[0] * array.shape[1]; k++) {
        const x = left + (k % array.shape[1]) * size, y = top + Math.floor(k / array.shape[1]) * size;
        const box = draw("rect", { x, y, width: size, height: size, stroke: "#8a8a8a", "stroke-width": .7, "data-testid": `accesses-cell-${array.name}-${k}` }, group);
        const label = draw("text", { x: x + size / 2, y: y + size / 2 + size * .14, "text-anchor": "middle", "font-size": Math.min(16, size * .42) }, group, "");
        if (clickable) {
          box.setAttribute("role", "button");
          box.setAttribute("aria-label", place(array, k));
          box.addEventListener("click", () => { if (which) writers(k); else readers(k); });
        }
        made.push({ box, label, x, y });
      }
      if (clickable) rove(group, "rect", array.shape[1]);
      return made;
    });
    return { svg, cells, size };
  }

  function paint(which, k, fill, text, bold) {
    const cell = cells[which][k];
    if (!cell) return;
    cell.box.setAttribute("fill", fill);
    cell.box.setAttribute("stroke", bold ? "#000" : "#8a8a8a");
    cell.box.setAttribute("stroke-width", bold ? 2.5 : .7);
    const inset = bold ? 1.6 : 0; // or the neighbours to the right and below would cover half of the frame
    for (const [name, value] of [["x", cell.x + inset], ["y", cell.y + inset], ["width", size - 2 * inset], ["height", size - 2 * inset]]) {
      cell.box.setAttribute(name, value);
    }
    if (text !== undefined) cell.label.textContent = text;
  }

  function clear() {
    cells.forEach((array, which) => array.forEach((_, k) => paint(which, k, "#f6f6f6", "", false)));
  }

  // Who computes what. At the start one element is chosen: the last of its block, which reads pixels of others, too.
  function threads() {
    const [input, output] = data.arrays;
    const number = flat ? "its threads are numbered" : "each pair of numbers is a thread (x, y) of it";
    legend.textContent = `Each colour is a block; ${number}. Click an element of ${output.name}, or of ${input.name}.`;
    outline();
    writers(Math.max(...data.threads.filter((t) => !Math.max(...t[0])).flatMap((t) => t[3])));
  }

  // Lines between elements that two blocks wrote: colours alone are alike.
  function outline() {
    const columns = data.arrays[1].shape[1], owner = [];
    for (const [block, , , writes] of data.threads) for (const k of writes) owner[k] = block.join();
    cells[1].forEach(({ x, y }, k) => {
      if (k % columns && owner[k] !== owner[k - 1]) draw("line", { x1: x, x2: x, y1: y, y2: y + size, stroke: "#111", "stroke-width": 2.5 }, svg);
      if (k >= columns && owner[k] !== owner[k - columns]) draw("line", { x1: x, x2: x + size, y1: y, y2: y, stroke: "#111", "stroke-width": 2.5 }, svg);
    });
  }

  function blocks() {
    clear();
    for (const [block, thread, , writes] of data.threads)
      for (const k of writes) paint(1, k, tone(blockColour(block), PALE), size > 26 ? (flat ? thread[0] : `${thread[0]},${thread[1]}`) : "");
  }

  function writers(k) {
    const [input, output] = data.arrays, found = data.threads.filter((t) => t[3].includes(k));
    blocks();
    paint(1, k, tone(blockColour((found[0] || [[0, 0, 0]])[0]), STRONG), undefined, true);
    if (!found.length) { said.textContent = `No thread wrote ${place(output, k)}.`; return; }
    const [block, thread, reads, , count] = found[0];
    for (const r of reads) paint(0, r, tone(blockColour(block), STRONG), "", true);
    const x = block[0] * data.blockDim[0] + thread[0], y = block[1] * data.blockDim[1] + thread[1];
    const rows = output.shape[0] === 1 ? "" : `, y = ${block[1]} · ${data.blockDim[1]} + ${thread[1]} = ${y}`;
    said.textContent = `${place(output, k)}: thread ${triple(thread)} of block ${triple(block)}; ` +
      `${flat ? "i" : "x"} = ${block[0]} · ${data.blockDim[0]} + ${thread[0]} = ${x}${rows}. It read ${count === reads.length ? `${count} element${count === 1 ? "" : "s"} of ${input.name}` : `${input.name} ${count} times, ${reads.length} different elements`}.`;
  }

  function readers(k) {
    const found = data.threads.filter((t) => t[2].includes(k)), count = new Set(found.map((t) => t[0].join())).size;
    blocks();
    paint(0, k, "#F0E442", undefined, true);
    for (const [block, , , writes] of found) for (const w of writes) paint(1, w, tone(blockColour(block), STRONG), undefined, true);
    said.textContent = `${place(data.arrays[0], k)} was read by ${found.length} thread${found.length === 1 ? "" : "s"} of ${count} block${count === 1 ? "" : "s"}.`;
  }

  // How a block fills its tile: a frame for each pass, then one for what a thread reads after the barrier.
  function tile() {
    const shape = data.arrays[1].shape, steps = data.passes.length + 1, threads = data.blockDim[0] * data.blockDim[1];
    const warp = (thread) => data.palette[Math.floor(thread / 32) % data.palette.length];
    const [reader, used] = data.used[Math.floor(data.used.length / 2)] || [0, []];
    const [across, down] = data.blockDim, [column, row] = data.block;
    const made = `[${row * down + Math.floor(reader / across)}][${column * across + reader % across}]`;
    const label = (frame) => {
      if (frame === 0) return `Block ${triple(data.block)} has ${threads} threads and a tile of ${shape[0]} × ${shape[1]} = ${shape[0] * shape[1]} elements to fill. Press ▶|.`;
      if (frame === steps) return `After the barrier: thread ${reader}, which makes the output at ${made}, reads ${used.length} elements of the tile, most of them loaded by other threads.`;
      const pass = data.passes[frame - 1], outside = pass.filter((r) => r[1] < 0).length;
      return `Iteration ${frame} of the loop: ${pass.length} of ${threads} threads fill one element each` +
        (outside ? `, ${outside} of them with 0 (grey), outside the image` : "") + `. The number is the thread${threads > 32 ? ", the colour its warp" : ""}.`;
    };
    const show = (frame) => {
      clear();
      data.passes.slice(0, frame).forEach((pass, number) => {
        const now = number === frame - 1 && frame < steps;
        for (const [thread, pixel, cell] of pass) {
          const fill = tone(pixel < 0 ? "#888888" : warp(thread), now ? .4 : .65);
          paint(1, cell, fill, now ? thread : "", now);
          if (pixel >= 0) paint(0, pixel, fill, now ? thread : "", now);
        }
      });
      if (frame === steps) for (const c of used) paint(1, c, warp(reader), "", true);
    };
    player(root, { steps, draw: show, label, seconds: 1.4, id: "accesses", status: said, name: "iterations of the block" }).go(1);  // not an empty grid
  }
}
