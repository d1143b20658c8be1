// A schedule of a pipeline: a lane for each rank, and what it keeps at the moment that is shown.
function pipelines(root, data) {
  let plan, run, moments;
  const bar = controls(root, "Schedule", choose);
  const names = [...new Set(data.plans.map((one) => one.name))], which = bar.menu("schedule", "schedule", names.map((name) => [name, name]), "1F1B");
  const ranks = bar.range("ranks", "stages (one a rank)", 2, 8, 1, 4), micro = bar.range("micro", "micro-batches", 1, 16, 1, 8);
  const price = bar.range("message", "a message takes", 0, 2, 0.05, 0, (value) => `${value} forward passes`);
  const control = player(root, { steps: 0, draw: () => {}, label: () => "", seconds: 0.35, name: "one step of training", id: "pipelines" });
  const view = picture(root, () => paint(control.frame));
  const show = table(root, "The same step by each schedule", ["schedule", "idle", "time", "kept by the fullest rank", "by the last rank"]);
  keys(root);
  choose();

  function choose() {
    const fits = (name) => data.plans.filter((one) => one.name === name && one.ranks === ranks.value), near = (one) => Math.abs(one.micro - micro.value);
    plan = fits(which.value).reduce((best, one) => (near(one) < near(best) ? one : best));
    micro.input.value = plan.micro; // an interleaved step has groups of p
    micro.say();
    const orders = new Map(), read = (one) => {
      if (!orders.has(one)) orders.set(one, { ...one, orders: one.orders.map((order) => order.split(" ").map((word) => {
        const [, kind, m, , chunk] = /^([A-Z])(\d+)(\.(\d+))?$/.exec(word);
        return [kind, Number(m), Number(chunk || 0)];
      })) });
      return orders.get(one);
    };
    const number = (value) => Number(value.toFixed(2));
    show(names.map((name) => {
      const one = fits(name).find((other) => other.micro === plan.micro);
      if (!one) return [false, name, `needs a multiple of ${ranks.value} micro-batches`, "", "", ""];
      const said = simulate(read(one), price.value);
      if (one === plan) run = said;
      return [one === plan, name, `${Math.round(100 * said.idle)} %`, number(said.span), number(Math.max(...said.most)), number(said.most[one.ranks - 1])];
    }));
    const ends = run.boxes.map((box) => Math.round(1e6 * box[5]) / 1e6);
    moments = [0, ...new Set(ends.sort((a, b) => a - b))];
    control.load({ steps: moments.length - 1, draw: paint, label: told });
    control.go(moments.length - 1);
  }

  function now(rank, time) { return kept(run.boxes, rank, plan.chunks).filter(([when]) => when <= time + 1e-6).pop()[1]; }

  function told(frame) {
    const time = moments[frame], at = `Time ${Number(time.toFixed(2))} of ${Number(run.span.toFixed(2))}, in forward passes of a rank`;
    if (frame < moments.length - 1) {
      const busy = run.boxes.filter((box) => box[4] <= time + 1e-6 && box[5] > time + 1e-6).length;
      return `${at}: ${busy} of ${plan.ranks} ranks compute.`;
    }
    const most = Math.max(...run.most), full = run.most.indexOf(most);
    return `${at}. Ranks are idle ${Math.round(100 * run.idle)} % of the time; rank ${full} keeps the activations of ${Number(most.toFixed(2))} of ${plan.micro} micro-batches at most.`;
  }

  function paint(frame) {
    if (!run) return;
    const lane = plan.ranks > 5 ? 44 : 56, top = 26, bottom = top + plan.ranks * lane, used = ["F", "B", "I", "W"].filter((kind) => run.boxes.some((box) => box[1] === kind));
    const narrow = view.svg.clientWidth < 560, { width, small } = view.begin(bottom + (narrow ? 26 * used.length + 40 : 48)), { svg } = view;
    const left = small ? 24 : 76, right = small ? 62 : 180, scale = (width - left - right) / run.span, time = moments[frame], most = Math.max(...run.most);
    const text = (x, y, words, attributes) => draw("text", { x, y, ...attributes }, svg, words);
    svg.setAttribute("aria-label", `${plan.name}, ${plan.ranks} ranks, ${plan.micro} micro-batches, at time ${time}: a lane of boxes for each rank, and what it keeps`);
    text(width, 17, small ? "kept" : "kept (most)", { "text-anchor": "end" });
    for (let r = 0; r < plan.ranks; r++) {
      const y = top + r * lane, count = now(r, time), unit = (right - (small ? 34 : 104)) / most, middle = y + lane / 2 + 4;
      text(0, middle, small ? r : `rank ${r}`, { class: "name" });
      draw("rect", { x: width - right + 10, y: y + 8, width: unit * run.most[r], height: lane - 20, class: "room" }, svg);
      draw("rect", { x: width - right + 10, y: y + 8, width: unit * count, height: lane - 20, class: "bytes" }, svg);
      text(width, middle, Number(count.toFixed(2)) + (small ? "" : ` (${Number(run.most[r].toFixed(2))})`), { "text-anchor": "end" });
    }
    for (const [r, kind, m, chunk, begin, end] of run.boxes) {
      const y = top + r * lane, w = (end - begin) * scale, done = end <= time + 1e-6, x = left + begin * scale;
      if (!w) continue;
      draw("rect", { x, y: y + 2, width: Math.max(w - 1, 0.5), height: lane - 8, fill: data.colours[kind], opacity: done ? 1 : begin < time - 1e-6 ? 0.6 : 0.15 }, svg);
      if (chunk) draw("rect", { x, y: y + lane - 14, width: Math.max(w - 1, 0.5), height: 5, class: "second", opacity: done ? 1 : 0.3 }, svg);
      if (done && w > (plan.micro > 10 ? 20 : 12)) text(x + w / 2, y + lane / 2 + 3, m, { "text-anchor": "middle", style: `fill: ${data.inks[kind]}` });
    }
    draw("path", { d: `M${left + time * scale} ${top - 4}V${bottom}`, class: "cut" }, svg);
    [...used, ...(plan.chunks > 1 ? ["second"] : [])].forEach((kind, k) => {
      const x = small ? 0 : k * 210, y = bottom + 12 + (small ? 26 * k : 0), two = kind === "second";
      draw("rect", two ? { x, y: y + 6, width: 16, height: 5, class: "line" } : { x, y, width: 16, height: 16, fill: data.colours[kind] }, svg);
      text(x + 24, y + 14, two ? "through the rank's second chunk" : data.names[kind]);
    });
  }
}
