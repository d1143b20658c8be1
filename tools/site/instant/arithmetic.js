// What the players compute, as helpers.collectives.cost, helpers.pipeline.model and helpers.sharded.planner do; the
// tests compare them. Nothing here knows of a page.

// Of each step of a collective: the bytes of its largest message. Messages of one step travel at the same time.
export function largest({ steps, chunks }, size) {
  return steps.map((step) => {
    const bytes = new Map();
    for (let i = 0; i < step.length; i += 3) {
      const way = 64 * step[i] + step[i + 1];
      bytes.set(way, (bytes.get(way) || 0) + size / chunks);
    }
    return Math.max(...bytes.values());
  });
}

// After each frame: what every rank holds of every chunk (bits of ranks), and the bytes that it has sent.
export function history({ held, steps, chunks, ranks }, size) {
  const frames = [{ held, sent: new Array(ranks).fill(0) }];
  for (const step of steps) {
    const before = frames[frames.length - 1], now = { held: before.held.map((row) => row.slice()), sent: before.sent.slice() };
    for (let i = 0; i < step.length; i += 3) {
      const [source, dest, chunk] = step.slice(i, i + 3);
      now.held[dest][chunk] |= before.held[source][chunk];
      now.sent[source] += size / chunks;
    }
    frames.push(now);
  }
  return frames;
}

// Steps, seconds, bytes of the busiest rank, and bytes from one half of the ranks to the other (the busier way).
export function summary(plan, link, size) {
  const over = [0, 0], half = (rank) => Math.floor((2 * rank) / plan.ranks);
  for (const step of plan.steps)
    for (let i = 0; i < step.length; i += 3)
      if (half(step[i]) !== half(step[i + 1])) over[half(step[i])] += size / plan.chunks;
  return {
    steps: plan.steps.length,
    seconds: largest(plan, size).reduce((sum, bytes) => sum + link.alpha + link.beta * bytes, 0),
    busiest: Math.max(...history(plan, size).pop().sent),
    between: Math.max(...over),
  };
}

// When each action of a schedule runs: [rank, kind, micro-batch, chunk, begin, end], and what follows from it. A whole
// forward pass of a rank takes 1, and so does each of the two parts of its backward pass; an update takes nothing.
export function simulate({ orders, chunks }, message) {
  const p = orders.length, stages = p * chunks, ready = new Map(), boxes = [];
  const free = orders.map(() => 0), at = orders.map(() => 0), parts = { F: 1, B: 2, I: 1, W: 1, U: 0 };
  for (let moved = true; moved; ) {
    moved = false;
    for (let rank = 0; rank < p; rank++) {
      for (; at[rank] < orders[rank].length; at[rank]++, moved = true) {
        const [kind, micro, chunk] = orders[rank][at[rank]], stage = rank + p * chunk;
        const before = kind === "F" ? stage - 1 : "BI".includes(kind) ? stage + 1 : -1;
        let begin = free[rank];
        if (before >= 0 && before < stages) {
          const when = ready.get(`${kind === "F"} ${micro} ${before}`);
          if (when === undefined) break;
          begin = Math.max(begin, when + (before % p === rank ? 0 : message));
        }
        const end = (free[rank] = begin + parts[kind] / chunks);
        if ("FBI".includes(kind)) ready.set(`${kind === "F"} ${micro} ${stage}`, end);
        boxes.push([rank, kind, micro, chunk, begin, end]);
      }
    }
  }
  const span = Math.max(...boxes.map((box) => box[5])) - Math.min(...boxes.map((box) => box[4]));
  const busy = boxes.reduce((sum, box) => sum + box[5] - box[4], 0);
  const most = orders.map((_, rank) => Math.max(...kept(boxes, rank, chunks).map((one) => one[1])));
  return { boxes, span, idle: 1 - busy / (span * p), most };
}

// From when on a rank keeps the activations of how many micro-batches.
export function kept(boxes, rank, chunks) {
  const changes = boxes.filter((box) => box[0] === rank && "FBW".includes(box[1])).map((box) => [box[5], box[1] === "F" ? 1 : -1]);
  let count = 0;
  return [[0, 0], ...changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([when, change]) => [when, (count += change) / chunks])];
}

// Of a layout's axis: how many of its groups share a host's link; 0 if none leaves its host.
function groupsPerLink({ d, p, t }, axis, each) {
  const [stride, length] = { data: [p * t, d], pipeline: [t, p], tensor: [1, t] }[axis], loads = {};
  for (let rank = 0; rank < d * p * t; rank++) {
    const place = Math.floor(rank / stride) % length, next = place + 1 < length ? rank + stride : rank - place * stride;
    const host = Math.floor(rank / each);
    if (host !== Math.floor(next / each)) loads[host] = (loads[host] || 0) + 1;
  }
  return Math.max(0, ...Object.values(loads));
}

// Seconds and bytes of a step for a layout, or null if sizes do not divide. `machine` has hosts, each (ranks of a host),
// speed, inside and between (alpha, beta); a number takes 4 bytes, and Adam's two moments 8.
export function predict(model, layout, machine, batch, micro) {
  const { layers: L, width: C, heads, vocabulary: V, context: T } = model, { d, p, t, shard } = layout, size = 4;
  if (batch % (d * micro) || heads % t || V % t || p > L) return null;
  const rows = batch / (d * micro);
  const border = (s) => Math.floor((L * s) / p);
  const stages = Array.from({ length: p }, (_, s) => ({ blocks: border(s + 1) - border(s), first: s === 0, last: s === p - 1 }));
  const flops = (s) => (s.blocks * (24 * C * C + 4 * T * C) + (s.last ? 2 * V * C : 0)) * rows * T;
  const slowest = stages.reduce((best, s) => (flops(s) > flops(best) ? s : best));
  const part = (count) => Math.floor(count / t);
  const block = 6 * C + 3 * part(C * C + C) + part(C * C) + part(4 * C * C + 4 * C) + part(4 * C * C);
  const parameters = (s) => s.blocks * block + (s.first ? part(V * C) + T * C : 0) + (s.last ? part(V * C) + 2 * C : 0);
  const activations = (s) => (s.blocks * (10 + 12 / t) * T * C + (s.last ? 2 * T * C + (2 * T * V) / t : 0)) * micro * rows;
  const takes = (axis, messages, bytes) => {
    const sharing = groupsPerLink(layout, axis, machine.each), link = sharing ? machine.between : machine.inside;
    return messages * link.alpha + bytes * link.beta * Math.max(1, sharing);
  };
  const ring = (elements, ranks) => ((ranks - 1) / ranks) * elements * size, ends = p > 1 ? 1 : 2;
  const work = (3 * flops(slowest)) / t / machine.speed;
  const stream = 2 * ring(rows * T * C, t), loss = 6 * ring(rows * T, t); // one number of a token, and two
  const said = takes("tensor", (8 * slowest.blocks + 4 * ends) * (t - 1), 4 * slowest.blocks * stream + ((2 * stream + loss) * ends) / 2);
  const handed = p > 1 ? takes("pipeline", 2, 2 * rows * T * C * size) : 0;
  const most = Math.max(...stages.map(parameters));
  const plan = {
    ...layout,
    micro,
    compute: micro * work,
    tensor: micro * said,
    pipeline: micro * handed,
    data: d > 1 ? takes("data", 2 * (d - 1), 2 * ring(most, d)) : 0,
    bubble: (p - 1) * (work + said + handed),
    memory: most * (shard ? 8 + 8 / d : 16) + Math.max(...stages.map(activations)) * size,
  };
  plan.seconds = plan.compute + plan.tensor + plan.pipeline + plan.data + plan.bubble;
  return plan;
}

// All layouts of the machine's ranks, those that do not fit in memory too; the fastest first.
export function plans(model, machine, batch, micros) {
  const ranks = machine.hosts * machine.each, found = [];
  for (let d = 1; d <= ranks; d++)
    for (let p = 1; d * p <= ranks; p++) {
      if (ranks % (d * p)) continue;
      for (const shard of d > 1 ? [0, 1] : [0])
        for (const micro of micros) found.push(predict(model, { d, p, t: ranks / (d * p), shard }, machine, batch, micro));
    }
  return found.filter(Boolean).sort((a, b) => a.seconds - b.seconds);
}
