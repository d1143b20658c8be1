// Two arrays as grids, and the threads that touched them. Mode "threads": a click on an element
// tells who wrote or read it. Mode "tile": steps play how a block fills its tile.
(function start(data) {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 900, GAP = 56, TOP = 30, STEP_MS = 1400;

  function make(tag, attributes, parent, text) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }
  function draw(tag, attributes, parent, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }
  const triple = (numbers) => `(${numbers.join(", ")})`;
  const place = (array, k) => {
    const columns = array.shape[1];
    return array.shape[0] === 1 ? `${array.name}[${k}]`
      : `${array.name}[${Math.floor(k / columns)}][${k % columns}]`;
  };
  const pale = (hex, share) => {
    const part = (i) => Math.round(255 - share * (255 - parseInt(hex.slice(i, i + 2), 16)));
    return `rgb(${part(1)},${part(3)},${part(5)})`;
  };
  const blockColour = (b) => data.palette[(b[0] + 2 * b[1] + 3 * b[2]) % data.palette.length];

  class Picture {
    constructor(root) {
      this.root = root;
      root.textContent = "";
      this.bar = make("div", { class: "bar" }, root);
      this.text = make("div", { class: "text", "data-testid": "accesses-text", "aria-live": "polite" }, root);
      this.grids();
      if (data.mode === "threads") this.threads(); else this.tile();
    }

    grids() {
      const [a, b] = data.arrays.map((array) => array.shape);
      const stacked = a[0] === 1 && b[0] === 1;
      const columns = stacked ? Math.max(a[1], b[1]) : a[1] + b[1];
      const rows = stacked ? 2 : Math.max(a[0], b[0]);
      const size = Math.min(44, (WIDTH - (stacked ? 0 : GAP)) / columns);
      const height = TOP + rows * size + (stacked ? TOP + 10 : 6);
      const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" }, this.root);
      this.size = size;
      this.cells = data.arrays.map((array, which) => {
        const left = stacked || !which ? 2 : a[1] * size + GAP;
        const top = stacked && which ? TOP + size + TOP : TOP;
        const title = array.shape[0] === 1 ? `${array.name} (${array.shape[1]})`
          : `${array.name} (${array.shape[0]} × ${array.shape[1]})`;
        draw("text", { x: left, y: top - 10, "font-size": 16, "font-weight": 600 }, svg, title);
        const cells = [];
        for (let k = 0; k < array.shape[0] * array.shape[1]; k++) {
          const x = left + (k % array.shape[1]) * size, y = top + Math.floor(k / array.shape[1]) * size;
          const box = draw("rect", { x, y, width: size, height: size, fill: "#fff", stroke: "#999",
            "stroke-width": .7, class: "cell", "data-testid": `accesses-cell-${array.name}-${k}` }, svg);
          const label = draw("text", { x: x + size / 2, y: y + size / 2 + size * .14, "text-anchor": "middle",
            "font-size": Math.min(13, size * .4) }, svg, "");
          box.addEventListener("click", () => this.clicked && this.clicked(which, k));
          cells.push({ box, label });
        }
        return cells;
      });
    }

    paint(which, k, fill, text, bold) {
      const cell = this.cells[which][k];
      if (!cell) return;
      cell.box.setAttribute("fill", fill);
      cell.box.setAttribute("stroke", bold ? "#000" : "#999");
      cell.box.setAttribute("stroke-width", bold ? 2.5 : .7);
      if (text !== undefined) cell.label.textContent = text;
    }

    clear(fill) {
      this.cells.forEach((cells, which) => cells.forEach((_, k) => this.paint(which, k, fill, "", false)));
    }

    // Who computes what.
    threads() {
      const [input, output] = data.arrays;
      const reset = () => {
        this.clear("#f6f6f6");
        for (const [block, thread, , writes] of data.threads)
          for (const k of writes)
            this.paint(1, k, pale(blockColour(block), .45), this.size > 26 ? `${thread[0]},${thread[1]}` : "");
      };
      this.text.textContent = `Each colour is a block; each number a thread (x, y) in it. Click an element of ${output.name}, or of ${input.name}.`;
      this.clicked = (which, k) => {
        reset();
        if (which === 1) {
          const writers = data.threads.filter((t) => t[3].includes(k));
          this.paint(1, k, blockColour((writers[0] || [[0, 0, 0]])[0]), undefined, true);
          if (!writers.length) { this.text.textContent = `No thread wrote ${place(output, k)}.`; return; }
          const [block, thread, reads, , count] = writers[0];
          for (const r of reads) this.paint(0, r, pale(blockColour(block), .75), "", true);
          const x = block[0] * data.blockDim[0] + thread[0], y = block[1] * data.blockDim[1] + thread[1];
          const rows = output.shape[0] === 1 ? "" : `, y = ${block[1]} · ${data.blockDim[1]} + ${thread[1]} = ${y}`;
          this.text.textContent = `${place(output, k)}: thread ${triple(thread)} of block ${triple(block)}; ` +
            `x = ${block[0]} · ${data.blockDim[0]} + ${thread[0]} = ${x}${rows}. It read ${input.name} ${count === 1 ? "once" : `${count} times, ${reads.length} different elements`}.`;
        } else {
          const readers = data.threads.filter((t) => t[2].includes(k));
          this.paint(0, k, "#F0E442", undefined, true);
          for (const [block, , , writes] of readers) for (const w of writes) this.paint(1, w, blockColour(block), undefined, true);
          const blocks = new Set(readers.map((t) => t[0].join())).size;
          this.text.textContent = `${place(input, k)} was read by ${readers.length} threads of ${blocks} block${blocks === 1 ? "" : "s"}.`;
        }
      };
      reset();
    }

    // How a block fills its tile.
    tile() {
      const [image, tile] = data.arrays, steps = data.passes.length + 1;
      const warp = (thread) => data.palette[Math.floor(thread / 32) % data.palette.length];
      const button = (name, text, run) => {
        const b = make("button", { "data-testid": `accesses-${name}`, "aria-label": name }, this.bar, text);
        b.addEventListener("click", run);
        return b;
      };
      let frame = 0, timer = null;
      const stop = () => { clearInterval(timer); timer = null; play.textContent = "▶ play"; };
      const go = (to) => { frame = Math.max(0, Math.min(steps, to)); show(); };
      const first = button("first", "|◀", () => { stop(); go(0); });
      const back = button("back", "◀", () => { stop(); go(frame - 1); });
      const play = button("play", "▶ play", () => {
        if (timer) { stop(); return; }
        if (frame >= steps) go(0);
        play.textContent = "❚❚ pause";
        timer = setInterval(() => { go(frame + 1); if (frame >= steps || !this.root.isConnected) stop(); }, STEP_MS);
      });
      const step = button("step", "▶|", () => { stop(); go(frame + 1); });
      const where = make("span", { "data-testid": "accesses-frame" }, this.bar);
      const size = data.blockDim[0] * data.blockDim[1];
      const show = () => {
        this.clear("#f6f6f6");
        where.textContent = `step ${frame} of ${steps}`;
        first.disabled = back.disabled = frame === 0;
        step.disabled = frame === steps;
        const loaded = data.passes.slice(0, frame);
        loaded.forEach((pass, number) => {
          const now = number === frame - 1 && frame < steps;
          for (const [thread, pixel, cell] of pass) {
            const fill = now ? pale(warp(thread), .8) : pale(warp(thread), .25);
            this.paint(1, cell, fill, now ? (pixel < 0 ? `${thread}:0` : thread) : "", now);
            if (pixel >= 0) this.paint(0, pixel, fill, now ? thread : "", now);
          }
        });
        if (frame === 0) {
          this.text.textContent = `Block ${triple(data.block)} has ${size} threads and a tile of ${tile.shape[0]} × ${tile.shape[1]} = ${tile.shape[0] * tile.shape[1]} elements to fill. Press step.`;
        } else if (frame < steps) {
          const pass = data.passes[frame - 1], outside = pass.filter((r) => r[1] < 0).length;
          this.text.textContent = `Pass ${frame} of ${steps - 1}: ${pass.length} of ${size} threads load one element each` +
            (outside ? `; ${outside} of them lie outside the image and write 0` : "") + ". The number is the thread, the colour its warp.";
        } else {
          const [thread, cells] = data.used[Math.floor(data.used.length / 2)] || [0, []];
          for (const c of cells) this.paint(1, c, warp(thread), "", true);
          this.text.textContent = `After the barrier: thread ${thread} reads ${cells.length} elements of the tile, most of them loaded by other threads.`;
        }
      };
      show();
    }
  }

  const roots = document.querySelectorAll(`[data-accesses="${data.id}"]`);
  for (const root of roots) if (!root.dataset.ready) { root.dataset.ready = "1"; new Picture(root); }
})
