// The player of a collective's schedules. `start(data)` finds its element by data.id and fills it.
// State: which collective, how many ranks, how many pieces, and the frame (0: before step 1).
(function start(data) {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 900, LEFT = 76, TOP = 30, DATA_HEIGHT = 264, BAR = 40;
  const STEP_MS = 900, PAUSE_MS = 350;
  const still = window.matchMedia && matchMedia("(prefers-reduced-motion: reduce)").matches;

  const colour = (rank) => data.palette[rank % data.palette.length];

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

  // What every rank holds after each step: states[frame][rank][chunk] is a set of ranks, as bits.
  // What arrives is added, or contains what is there: the union either way.
  function replay(s) {
    const states = [s.held], sent = [new Array(s.ranks).fill(0)], size = 1 / s.chunks;
    for (const step of s.steps) {
      const before = states[states.length - 1], after = before.map((row) => row.slice());
      const total = sent[sent.length - 1].slice();
      for (const [source, dest, chunk] of step) {
        after[dest][chunk] |= before[source][chunk];
        total[source] += size;
      }
      states.push(after);
      sent.push(total);
    }
    return { states, sent };
  }

  class Player {
    constructor(root) {
      this.root = root;
      this.frame = 0;
      this.playing = false;
      this.request = null;
      this.pause = null;
      this.build();
      this.choose(data.schedules[0]);
    }

    build() {
      const root = this.root;
      root.textContent = "";
      const top = make("div", { class: "bar" }, root);
      this.names = [...new Set(data.schedules.map((s) => s.name))];
      this.select = make("select", { "data-testid": "animation-collective", "aria-label": "collective" }, top);
      for (const name of this.names) make("option", { value: name }, this.select, data.titles[name]);
      if (this.names.length === 1) {
        this.select.style.display = "none";
        make("strong", {}, top, data.titles[this.names[0]]);
      }
      this.ranks = this.slider(top, "ranks", "ranks");
      this.pieces = this.slider(top, "chunks", "pieces");
      this.origin = make("span", { class: "origin", "data-testid": "animation-origin" }, top);

      const controls = make("div", { class: "bar" }, root);
      const button = (id, sign, label, action) => {
        const node = make("button", { type: "button", "data-testid": "animation-" + id, "aria-label": label, title: label }, controls, sign);
        node.addEventListener("click", action);
        return node;
      };
      this.first = button("first", "|◀", "back to the beginning", () => this.go(0));
      this.back = button("back", "◀", "one step back", () => this.go(this.frame - 1));
      this.playButton = button("play", "▶ play", "play", () => this.toggle());
      this.step = button("step", "▶|", "one step forward", () => this.forward());
      this.scrubber = make("input", { type: "range", min: 0, step: 1, class: "scrubber", "data-testid": "animation-scrubber", "aria-label": "step" }, controls);
      this.scrubber.addEventListener("input", () => this.go(Number(this.scrubber.value)));
      this.counter = make("span", { class: "frame", "data-testid": "animation-frame" }, controls);
      this.status = make("div", { class: "status", "data-testid": "animation-status", "aria-live": "polite" }, root);
      this.svg = document.createElementNS(SVG, "svg");
      this.svg.setAttribute("role", "img");
      root.appendChild(this.svg);

      this.select.addEventListener("change", () => this.pick());
      this.ranks.input.addEventListener("input", () => this.pick());
      this.pieces.input.addEventListener("input", () => this.pick());
    }

    // A slider over a list of values: what it shows is the value, not its place in the list.
    slider(parent, text, id) {
      const label = make("label", {}, parent, text + " ");
      const input = make("input", { type: "range", min: 0, step: 1, "data-testid": "animation-" + id, "aria-label": text, style: "width:110px" }, label);
      const shown = make("output", {}, label);
      return { label, input, shown, values: [] };
    }

    fill(slider, values, value) {
      slider.values = values;
      slider.input.max = values.length - 1;
      slider.input.value = Math.max(0, values.indexOf(value));
      slider.input.setAttribute("aria-valuetext", String(value));
      slider.shown.textContent = " " + value;
      slider.label.style.display = values.length > 1 ? "" : "none";
    }

    // The schedule for what the controls say, or the nearest that there is.
    pick() {
      const of = data.schedules.filter((s) => s.name === this.select.value);
      const wanted = this.ranks.values[this.ranks.input.value], pieces = this.pieces.values[this.pieces.input.value];
      const distance = (s) => 100 * Math.abs(s.ranks - wanted) + Math.abs(s.pieces - pieces);
      this.choose(of.reduce((best, s) => (distance(s) < distance(best) ? s : best)));
    }

    choose(s) {
      this.stop();
      this.s = s;
      Object.assign(this, replay(s));
      const of = data.schedules.filter((other) => other.name === s.name);
      const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);
      this.select.value = s.name;
      this.fill(this.ranks, sorted(of.map((o) => o.ranks)), s.ranks);
      this.fill(this.pieces, sorted(of.filter((o) => o.ranks === s.ranks).map((o) => o.pieces)), s.pieces);
      this.pieces.shown.textContent = " " + s.chunks;
      this.pieces.input.setAttribute("aria-valuetext", s.chunks + " chunks");
      this.origin.textContent = s.origin === "trace" ? "recorded: " + s.ranks + " real ranks" : "model: " + s.ranks + " ranks";
      this.origin.className = "origin " + s.origin;
      this.scrubber.max = s.steps.length;
      this.layout();
      this.go(0);
    }

    layout() {
      const { ranks, chunks } = this.s;
      this.pitch = (WIDTH - LEFT) / ranks;
      this.card = Math.min(this.pitch * 0.84, 150);
      this.row = Math.min(34, DATA_HEIGHT / chunks);
      this.cell = this.row * (chunks > 16 ? 0.8 : 0.86);
      this.bottom = TOP + this.row * chunks;
      this.svg.setAttribute("viewBox", "0 0 " + WIDTH + " " + (this.bottom + BAR + 24));
    }

    x(rank) { return LEFT + this.pitch * rank + (this.pitch - this.card) / 2; }
    y(chunk) { return TOP + this.row * chunk; }

    // One copy of a chunk: a stripe for each rank whose contribution is in it.
    copy(bits, x, y, parent, attributes) {
      const group = draw("g", Object.assign({ transform: "translate(" + x + "," + y + ")" }, attributes || {}), parent);
      const n = this.s.ranks, stripe = this.card / n;
      draw("rect", { width: this.card, height: this.cell, fill: "#f1f1f1" }, group);
      for (let r = 0; r < n; r++) {
        if (bits & (1 << r)) draw("rect", { x: r * stripe, width: stripe + 0.3, height: this.cell, fill: colour(r) }, group);
      }
      const full = bits === 2 ** n - 1 && n > 1;
      draw("rect", { width: this.card, height: this.cell, fill: "none", stroke: full ? "#111" : "#888", "stroke-width": full ? 2 : 0.8 }, group);
      const held = [];
      for (let r = 0; r < n; r++) if (bits & (1 << r)) held.push(r);
      draw("title", {}, group, held.length ? "from ranks " + held.join(", ") : "nothing");
      return group;
    }

    // Draw frame `frame`; with `part` in 0..1, the messages of the next step are that far on their way.
    paint(frame, part) {
      const { ranks, chunks, steps } = this.s, svg = this.svg;
      const small = ranks > 10 ? 12 : 15;
      svg.textContent = "";
      svg.setAttribute("aria-label", data.titles[this.s.name] + ", " + ranks + " ranks, after step " + frame + " of " + steps.length);
      const arrived = new Set((frame > 0 ? steps[frame - 1] : []).map(([, dest, chunk]) => dest + "," + chunk));
      if (this.row >= 13) {
        for (let c = 0; c < chunks; c++) {
          draw("text", { x: 4, y: this.y(c) + this.cell / 2 + 5, "font-size": Math.min(14, this.row) }, svg, "chunk " + c);
        }
      }
      const most = Math.max(...this.sent[this.sent.length - 1], 1e-9);
      for (let r = 0; r < ranks; r++) {
        const x = this.x(r);
        draw("rect", { x, y: 8, width: 12, height: 12, fill: colour(r) }, svg);
        draw("text", { x: x + 17, y: 19, "font-size": small, "font-weight": 600 }, svg, (ranks > 10 ? "" : "rank ") + r);
        for (let c = 0; c < chunks; c++) {
          this.copy(this.states[frame][r][c], x, this.y(c), svg);
          if (arrived.has(r + "," + c) && !part) {
            draw("rect", { x: x - 3, y: this.y(c) - 2, width: this.card + 6, height: this.cell + 4, fill: "none", stroke: "#D55E00", "stroke-width": 3, rx: 3 }, svg);
          }
        }
        const sent = this.sent[frame][r];
        draw("rect", { x, y: this.bottom + 8, width: this.card, height: 8, fill: "#eee" }, svg);
        draw("rect", { x, y: this.bottom + 8, width: (this.card * sent) / most, height: 8, fill: "#555" }, svg);
        draw("text", { x, y: this.bottom + 34, "font-size": small }, svg, sent.toFixed(2).replace(/\.?0+$/, "") + " K" + (ranks > 8 ? "" : " sent"));
      }
      if (!part) return;
      for (const [source, dest, chunk] of steps[frame]) {
        const from = this.x(source), to = this.x(dest), y = this.y(chunk);
        const eased = part * part * (3 - 2 * part);
        const lift = Math.min(26, 8 + 4 * Math.abs(dest - source)) * 4 * eased * (1 - eased);
        const moving = this.copy(this.states[frame][source][chunk], from + (to - from) * eased, y - lift, svg, { opacity: 0.92, class: "moving" });
        draw("rect", { x: -1.5, y: -1.5, width: this.card + 3, height: this.cell + 3, fill: "none", stroke: "#D55E00", "stroke-width": 2.5 }, moving);
      }
    }

    say() {
      const { steps, ranks } = this.s, frame = this.frame;
      this.counter.textContent = "step " + frame + " of " + steps.length;
      this.counter.setAttribute("data-frame", frame);
      this.scrubber.value = frame;
      this.back.disabled = this.first.disabled = frame === 0;
      this.step.disabled = frame >= steps.length;
      this.playButton.textContent = this.playing ? "❚❚ pause" : "▶ play";
      this.playButton.setAttribute("aria-label", this.playing ? "pause" : "play");
      this.playButton.title = this.playing ? "pause" : "play";
      const most = Math.max(...this.sent[frame]);
      let text = "Before the first step. A stripe is the contribution of the rank of that colour.";
      if (frame > 0) {
        const step = steps[frame - 1], before = this.states[frame - 1];
        const told = step.slice(0, 3).map(([source, dest, chunk]) => {
          const there = before[dest][chunk], how = there && !(there & before[source][chunk]) ? "adds it" : "keeps it";
          return "rank " + source + " sends " + (this.s.chunks > 1 ? "chunk " + chunk : "all") + " to rank " + dest + ", which " + how;
        });
        if (step.length > 3) told.push("and " + (step.length - 3) + " more");
        text = "Step " + frame + ": " + told.join("; ") + ".";
        if (frame === steps.length) {
          const even = this.sent[frame].every((v) => Math.abs(v - most) < 1e-9);
          text = "Done in " + frame + " steps; " + (even ? "every rank" : "the busiest rank") + " sent " + most.toFixed(3).replace(/\.?0+$/, "") + " K. " + text;
        }
      }
      if (ranks === 1) text = "One rank has nothing to send.";
      this.status.textContent = text;
    }

    go(frame) { this.stop(); this.show(Math.max(0, Math.min(frame, this.s.steps.length))); }
    show(frame) { this.frame = frame; this.paint(frame, 0); this.say(); }

    // One step forward: the counter tells the step at once, the messages follow.
    forward(then) {
      if (this.request !== null) { cancelAnimationFrame(this.request); this.request = null; }
      if (!then) this.stop();
      const from = this.frame;
      if (from >= this.s.steps.length) return;
      this.frame = from + 1;
      this.say();
      const arrive = () => { this.request = null; this.paint(this.frame, 0); if (then) then(); };
      if (still || document.hidden) { arrive(); return; }
      const begin = performance.now(), step = (now) => {
        const part = (now - begin) / STEP_MS;
        if (part >= 1) { arrive(); return; }
        this.paint(from, Math.max(part, 1e-6));
        this.request = requestAnimationFrame(step);
      };
      this.request = requestAnimationFrame(step);
    }

    toggle() {
      if (this.playing) { this.stop(); this.show(this.frame); return; }
      if (this.frame >= this.s.steps.length) this.show(0);
      this.playing = true;
      this.say();
      this.next();
    }
    next() {
      if (!this.playing) return;
      if (this.frame >= this.s.steps.length) { this.stop(); this.say(); return; }
      this.forward(() => { this.pause = setTimeout(() => this.next(), PAUSE_MS); });
    }
    stop() {
      this.playing = false;
      if (this.request !== null) cancelAnimationFrame(this.request);
      if (this.pause !== null) clearTimeout(this.pause);
      this.request = this.pause = null;
    }
  }

  for (const root of document.querySelectorAll('[data-animation="' + data.id + '"]:not([data-ready])')) {
    root.setAttribute("data-ready", "");
    new Player(root);
  }
})
