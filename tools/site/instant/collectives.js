// A collective, step by step: a row for each rank, a column for each chunk of the array.
function collectives(root, data) {
  let plan, frames, messages, ways;
  const bar = controls(root, "Collective and link", (name) => { wire.changed(name); choose(name); });
  const which = bar.menu("collective", "collective", Object.entries(data.titles), "ring");
  const ranks = bar.range("ranks", "ranks", 2, 16, 1, 4), pieces = bar.menu("pieces", "pieces", [1, 2, 4, 8].map((n) => [n, n]), 1);
  const size = bar.number("size", "array K [MB]", 1, { least: 1e-6, most: 1e6 }), wire = link(bar, "link", "link", data.links, 0);
  const control = player(root, { steps: 0, draw: () => {}, label: () => "", seconds: 1.4, moving: 0.9, name: "steps of the collective", id: "collectives" });
  const view = picture(root, () => paint(control.frame, 0));
  const show = table(root, "The same job by each algorithm", ["algorithm", "steps", "busiest rank sends", "between two halves", "time"]);
  keys(root);
  choose("collective");

  function find(name, cut) { return data.plans.find((one) => one.name === name && one.ranks === ranks.value && one.pieces === cut); }
  function K() { return 1e6 * size.value; }

  function choose(name) {
    const fresh = ["collective", "ranks", "pieces"].includes(name), piped = Boolean(find(which.value, 2));
    pieces.label.hidden = !piped;
    plan = find(which.value, piped ? Number(pieces.value) : 1);
    frames = history(plan, K());
    messages = largest(plan, K());
    const job = (one) => data.titles[one].split(/[:(]/)[0].trim();
    ways = data.plans.filter((one) => one.ranks === plan.ranks && job(one.name) === job(plan.name) && (one.pieces === 1 || one === plan));
    show(ways.map((one) => {
      const said = summary(one, wire.value, K()), cut = one.pieces > 1 ? `, ${one.pieces} pieces` : "";
      return [one === plan, data.titles[one.name] + cut, said.steps, si(said.busiest, "B"), si(said.between, "B"), si(said.seconds, "s")];
    }));
    const frame = fresh ? 0 : control.frame;
    control.load({ steps: plan.steps.length, draw: paint, label: told });
    if (frame) control.go(frame);
  }

  function seconds(frame) { return messages.slice(0, frame).reduce((sum, bytes) => sum + wire.value.alpha + wire.value.beta * bytes, 0); }

  function told(frame) {
    const clock = `${si(seconds(frame), "s")} of ${si(seconds(plan.steps.length), "s")}`;
    if (!frame) return `Before the first step, ${clock}. A stripe is the contribution of one rank.`;
    const step = plan.steps[frame - 1], said = [], seen = frames[frame - 1].held;
    for (let i = 0; i < step.length; i += 3) {
      const [source, dest, chunk] = step.slice(i, i + 3), there = seen[dest][chunk];
      const how = there && !(there & seen[source][chunk]) ? "adds" : "keeps";
      said.push(`rank ${source} sends ${plan.chunks > 1 ? `chunk ${chunk}` : "its array"} to rank ${dest}, which ${how} it`);
    }
    const more = said.length > 2 ? `; and ${said.length - 2} more` : "";
    return `Step ${frame}, ${clock}: ${said.slice(0, 2).join("; ")}${more}.`;
  }

  function paint(frame, part) {
    if (!plan) return;
    const n = plan.ranks, row = n > 10 ? 30 : n > 6 ? 38 : 48, top = 26, bottom = top + n * row;
    const { width, small } = view.begin(bottom + 66), left = small ? 26 : 78, right = small ? 66 : 120;
    const cell = (width - left - right) / plan.chunks, high = row - 8, gap = Math.min(6, cell / 5), { svg } = view;
    const x = (chunk) => left + chunk * cell, y = (rank) => top + rank * row, wide = cell - gap;
    const text = (at, words, attributes) => draw("text", { ...at, ...attributes }, svg, words);
    const { held, sent } = frames[frame], goal = frames[frames.length - 1].held.reduce((all, own) => all.map((bits, c) => bits | own[c]), new Array(plan.chunks).fill(0));
    const copy = (bits, chunk, px, py, kind) => {
      const group = draw("g", { transform: `translate(${px},${py})`, class: kind }, svg), wanted = [...Array(n).keys()].filter((r) => goal[chunk] & (1 << r));
      draw("rect", { width: wide, height: high, class: "ground" }, group);
      wanted.forEach((r, k) => { if (bits & (1 << r)) draw("rect", { x: (wide * k) / wanted.length, width: wide / wanted.length + 0.3, height: high, fill: data.palette[r % data.palette.length] }, group); });
      draw("rect", { width: wide, height: high, class: bits === goal[chunk] ? "full" : "thin" }, group);
    };
    svg.setAttribute("aria-label", `${data.titles[plan.name]} on ${n} ranks after step ${frame} of ${plan.steps.length}: a row for each rank, a column for each chunk`);
    for (let c = 0; c < plan.chunks; c++) text({ x: x(c) + wide / 2, y: 17 }, plan.chunks === 1 ? "the whole array" : cell > 90 ? `chunk ${c}` : cell > 17 || c % 2 === 0 ? c : "", { "text-anchor": "middle" });
    text({ x: width, y: 17 }, "sent", { "text-anchor": "end" });
    for (let r = 0; r < n; r++) {
      text({ x: 0, y: y(r) + high / 2 + 6 }, small ? r : `rank ${r}`, { class: "name" });
      for (let c = 0; c < plan.chunks; c++) copy(held[r][c], c, x(c), y(r), "");
      text({ x: width, y: y(r) + high / 2 + 6 }, si(sent[r], "B"), { "text-anchor": "end" });
    }
    const step = (part ? plan.steps[frame] : plan.steps[frame - 1]) || [], eased = part * part * (3 - 2 * part);
    for (let i = 0; i < step.length; i += 3) {
      const [source, dest, chunk] = step.slice(i, i + 3), at = x(chunk) + wide * (step.length > 3 ? 0.15 + (0.7 * (source + 0.5)) / n : 0.5);
      if (part) copy(held[source][chunk], chunk, x(chunk), y(source) + (y(dest) - y(source)) * eased, "moving");
      else {
        const down = Math.sign(dest - source), from = y(source) + high / 2, to = y(dest) + high / 2 - 4 * down;
        for (const kind of ["halo", "arrow"]) draw("path", { class: kind, d: `M${at} ${from}V${to}m-5 ${-7 * down}l5 ${7 * down}l5 ${-7 * down}` }, svg);
        draw("rect", { x: x(chunk) - 2, y: y(dest) - 2, width: wide + 4, height: high + 4, class: "arrived" }, svg);
      }
    }
    clock(frame, bottom + 14, width);
  }

  // The time of all steps as a bar: each one's latency α, then its bytes.
  function clock(frame, y, width) {
    const whole = seconds(plan.steps.length) || 1, { alpha, beta } = wire.value;
    let at = 0;
    messages.forEach((bytes, k) => {
      for (const [kind, much] of [["latency", alpha], ["bytes", beta * bytes]]) {
        draw("rect", { x: (width * at) / whole, y, width: (width * much) / whole, height: 20, class: kind, opacity: k < frame ? 1 : 0.3 }, view.svg);
        at += much;
      }
      draw("path", { d: `M${(width * at) / whole} ${y}v20`, class: "cut" }, view.svg);
    });
    draw("rect", { x: 0, y: y + 30, width: 16, height: 14, class: "latency" }, view.svg);
    draw("text", { x: 22, y: y + 43 }, view.svg, "latency α");
    draw("rect", { x: 122, y: y + 30, width: 16, height: 14, class: "bytes" }, view.svg);
    draw("text", { x: 144, y: y + 43 }, view.svg, "bytes × β");
  }
}
