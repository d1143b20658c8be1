// The planner: every way to share a machine's ranks, predicted while the reader changes model, machine and links.
function planner(root, data) {
  const SIZES = ["layers", "width", "heads", "vocabulary", "context"], MICRO = [1, 2, 4, 8, 16, 32], MOST = 8;
  const whole = { least: 1, most: 1e6, whole: true }, entries = (table) => [...Object.keys(table), "own"].map((name) => [name, name === "own" ? "my own numbers" : name]);
  const [first, rank] = data.start, model = controls(root, "Model", changed), which = model.menu("model", "model", entries(data.models), first);
  const sizes = Object.fromEntries(SIZES.map((name) => [name, model.number(name, name, data.models[first][name], whole)]));
  const batch = model.number("batch", "sequences in a batch", data.models[first].batch, whole);
  const machine = controls(root, "Machine", changed), powers = [1, 2, 4, 8].map((n) => [n, n]), kind = machine.menu("rank", "a rank is", entries(data.ranks), rank);
  const hosts = machine.menu("hosts", "hosts", powers, 2), each = machine.menu("each", "ranks in each", powers, 4);
  const speed = machine.number("speed", "speed [Gflop/s]", 1, { least: 1e-3 }), memory = machine.number("memory", "memory of a rank [GB]", 1, { least: 1e-6 });
  const wires = controls(root, "Links", changed), inside = link(wires, "inside", "inside a host", data.links, 0), between = link(wires, "between", "between hosts", data.links, 1);
  const said = make("p", { class: "status", role: "status" }, root), key = make("p", { class: "key" }, root);
  for (const [name, colour] of data.parts) {
    const one = make("span", {}, key);
    make("i", { class: name, style: `background-color: ${colour}` }, one);
    one.append(name === "compute" || name === "bubble" ? name : `${name}: messages`);
  }
  const list = make("ol", { class: "plans", "aria-label": "layouts, the fastest first" }, root);
  changed("rank");

  function changed(name) {
    inside.changed(name);
    between.changed(name);
    if (name === "model" && which.value !== "own") for (const [size, one] of [...Object.entries(sizes), ["batch", batch]]) one.value = data.models[which.value][size];
    else if (SIZES.includes(name) || name === "batch") which.input.value = "own";
    if (name === "rank" && kind.value !== "own") [speed.value, memory.value] = [data.ranks[kind.value][0] / 1e9, data.ranks[kind.value][1] / 1e9];
    else if (name === "speed" || name === "memory") kind.input.value = "own";
    answer();
  }

  function answer() {
    const config = Object.fromEntries(SIZES.map((name) => [name, sizes[name].value])), room = 1e9 * memory.value;
    const place = { hosts: Number(hosts.value), each: Number(each.value), speed: 1e9 * speed.value, inside: inside.value, between: between.value };
    list.textContent = "";
    const all = config.width % config.heads ? [] : plans(config, place, batch.value, MICRO), fit = all.filter((plan) => plan.memory <= room);
    const count = place.hosts * place.each, least = all.reduce((best, plan) => (plan.memory < best ? plan.memory : best), Infinity);
    if (config.width % config.heads) said.textContent = `The ${config.heads} heads must share the width of ${config.width} evenly.`;
    else if (!all.length) said.textContent = `No cut divides evenly: batch, heads and vocabulary must share out over ${count} ranks.`;
    else if (!fit.length) said.textContent = `Nothing fits in ${si(room, "B")}: the smallest cut needs ${si(least, "B")} on a rank. Take more ranks, or a smaller batch.`;
    else {
      const [best] = fit, parts = data.parts.slice(1).map(([name]) => [name, best[name]]).sort((a, b) => b[1] - a[1]);
      const away = cuts(all).filter((plan) => plan.seconds < best.seconds).length;
      said.textContent = `Cut it into ${words(best)}. A step takes ${si(best.seconds, "s")}, ${Math.round((100 * best.compute) / best.seconds)} % of it computing` +
        `${parts[0][1] ? `; the longest other part is ${parts[0][0]}, ${si(parts[0][1], "s")}` : ""}. ${away ? `Faster cuts that do not fit: ${away}.` : "No cut is faster, whatever its memory."}`;
    }
    // the fastest cuts that fit, and each cut along one axis alone, whether or not it fits
    const first = cuts(fit), pure = cuts(all).filter((plan) => [plan.d, plan.p, plan.t].includes(count) && !first.some((one) => same(one, plan)));
    const shown = [...first.slice(0, MOST), ...pure].sort((a, b) => a.seconds - b.seconds), longest = Math.max(...shown.map((plan) => plan.seconds));
    for (const plan of shown) {
      const item = make("li", plan === fit[0] ? { "aria-current": "true" } : {}, list), line = make("div", {}, item);
      make("strong", {}, line, words(plan));
      make("span", {}, line, `: ${si(plan.seconds, "s")}, ${si(plan.memory, "B")} a rank${plan.memory > room ? ": does not fit" : ""}`);
      const bar = make("div", { class: "parts", "aria-hidden": "true" }, item);
      for (const [name, colour] of data.parts) make("i", { class: name, style: `background-color: ${colour}; width: ${(100 * plan[name]) / longest}%`, title: `${name} ${si(plan[name], "s")}` }, bar);
    }
  }

  function same(one, other) { return one.d === other.d && one.p === other.p && one.t === other.t; }

  // Of each cut its fastest plan, whatever ZeRO's stage and the micro-batches.
  function cuts(sorted) { return sorted.filter((plan, k) => sorted.findIndex((one) => same(one, plan)) === k); }

  function words({ d, p, t, shard, micro }) {
    const some = (n, one) => `${n} ${one}${n > 1 ? "s" : ""}`;
    return `${some(d, "replica")} × ${some(p, "stage")} × ${some(t, "part")}${shard ? ", ZeRO 1" : ""}, ${some(micro, "micro-batch").replace(/chs$/, "ches")}`;
  }
}

const START = { collectives, pipelines, planner };
for (const root of document.querySelectorAll(".instant")) {
  const data = JSON.parse(root.querySelector("script").textContent);
  root.textContent = "";
  START[root.dataset.player](root, data);
}
