"use strict";
// All that students sent is drawn as text and numbers, never as HTML.

const key = location.hash.slice(1);
const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let state = null, which = "", drawn = "";

function node(kind, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

async function ask(path, body) {
  const options = { headers: { Authorization: `Bearer ${key}` } };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const reply = await fetch(path, options);
  if (!reply.ok) throw new Error(await reply.text());
  return reply;
}

const short = (x) => typeof x === "string" ? x
  : Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-2) ? x.toExponential(1).replace("e+", "e")
  : String(Number(x.toPrecision(3)));
const same = (one, other) => one && other && one.notebook === other.notebook && one.name === other.name;
const where = (one) => one.notebook.slice(0, 2) ? `${one.notebook.slice(0, 2)}: ${one.name}` : one.name;

// ---- plots ---------------------------------------------------------------------------------

const LEFT = 60, RIGHT = 960, BOTTOM = 420;

function round(low, high, log) {
  // round numbers between two ends: powers of ten if there are several, else steps of 1, 2 or 5
  if (log && high / low >= 1000) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high)), by = Math.ceil((last - first) / 5) || 1;
    return Array.from({ length: Math.floor((last - first) / by) + 1 }, (_, i) => 10 ** (first + i * by));
  }
  if (log) {
    const all = [];
    for (let ten = Math.floor(Math.log10(low)); ten <= Math.log10(high); ten += 1) all.push(...[1, 2, 5].map((d) => d * 10 ** ten));
    return all.filter((tick) => low <= tick && tick <= high);
  }
  const rough = (high - low) / 4, ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * [1, 2, 5, 10].find((d) => d * ten >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

function scale(values) {
  // linear, or logarithmic where positive values span more than a factor of 20
  let low = Math.min(...values), high = Math.max(...values);
  const log = low > 0 && high / low > 20;
  if (low === high) { low -= Math.abs(low) / 2 || 1; high += Math.abs(high) / 2 || 1; }
  const go = log ? Math.log : (x) => x;
  const a = go(low), b = go(high), pad = (b - a) * 0.06;
  return {
    log,
    part: (x) => (go(x) - a + pad) / (b - a + 2 * pad),
    ticks: round(low, high, log),
  };
}

function histogram(svg, said, came) {
  const along = scale([...said, ...came]);
  const x = (value) => LEFT + (RIGHT - LEFT) * along.part(value);
  const bins = new Array(16).fill(0);
  for (const value of said) bins[Math.min(15, Math.floor(16 * along.part(value)))] += 1;
  const most = Math.max(1, ...bins), width = (RIGHT - LEFT) / 16;
  bins.forEach((count, i) => {
    if (!count) return;
    const height = (BOTTOM - 50) * count / most;
    svg.append(node("rect", { class: "said", x: LEFT + i * width + 2, y: BOTTOM - height, width: width - 4, height }));
    svg.append(node("text", { x: LEFT + (i + .5) * width, y: BOTTOM - height - 8, "text-anchor": "middle" }, String(count)));
  });
  svg.append(node("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: BOTTOM, y2: BOTTOM }));
  for (const tick of along.ticks) {
    svg.append(node("text", { x: x(tick), y: BOTTOM + 30, "text-anchor": "middle", class: "soft" }, short(tick)));
  }
  const level = {};
  for (const value of came) { // one dot for each laptop, stacked where they meet
    const place = Math.round(x(value) / 14), row = level[place] = (level[place] ?? -1) + 1;
    svg.append(node("circle", { class: "came", cx: place * 14, cy: BOTTOM + 56 + 14 * Math.min(row, 6), r: 6 }));
  }
}

function words(svg, said, came) {
  const counts = new Map();
  const add = (list, which) => list.forEach((word) => {
    const name = String(word).trim().toLowerCase();
    if (!counts.has(name)) counts.set(name, [0, 0]);
    counts.get(name)[which] += 1;
  });
  add(said, 0); add(came, 1);
  const rows = [...counts].sort((a, b) => b[1][0] - a[1][0]).slice(0, 9);
  const most = Math.max(1, ...rows.flatMap(([, pair]) => pair));
  rows.forEach(([name, [before, after]], i) => {
    const y = 20 + 58 * i;
    svg.append(node("text", { x: 330, y: y + 26, "text-anchor": "end" }, name.length > 26 ? `${name.slice(0, 25)}…` : name));
    svg.append(node("rect", { class: "said", x: 345, y, width: 560 * before / most, height: 26 }));
    svg.append(node("text", { x: 355 + 560 * before / most, y: y + 23 }, before ? String(before) : ""));
    if (after) svg.append(node("rect", { class: "came", x: 345, y: y + 28, width: 560 * after / most, height: 12 }));
  });
}

function axes(svg, across, up, names) {
  svg.append(node("line", { class: "axis", x1: 120, x2: RIGHT, y1: 480, y2: 480 }));
  svg.append(node("line", { class: "axis", x1: 120, x2: 120, y1: 20, y2: 480 }));
  const x = (value) => 120 + (RIGHT - 120) * across.part(value), y = (value) => 480 - 450 * up.part(value);
  for (const tick of across.ticks) svg.append(node("text", { x: x(tick), y: 508, "text-anchor": "middle", class: "soft" }, short(tick)));
  for (const tick of up.ticks) svg.append(node("text", { x: 110, y: y(tick) + 8, "text-anchor": "end", class: "soft" }, short(tick)));
  svg.append(node("text", { x: RIGHT, y: 545, "text-anchor": "end" }, names[0]));
  svg.append(node("text", { x: 130, y: 36 }, names[1]));
  return [x, y];
}

function points(svg, measured, names) {
  const [x, y] = axes(svg, scale(measured.map((m) => m[names[0]])), scale(measured.map((m) => m[names[1]])), names);
  for (const one of measured) svg.append(node("circle", { class: "came", cx: x(one[names[0]]), cy: y(one[names[1]]), r: 8 }));
}

function roofs(svg, measured) {
  const low = 2 ** -4, high = 2 ** 8;
  const roof = (one, intensity) => Math.min(one["Gflop/s"], one["GB/s"] * intensity);
  const all = measured.flatMap((one) => [roof(one, low), one["Gflop/s"]]);
  const [x, y] = axes(svg, scale([low, high]), scale(all), ["flop per byte", "Gflop/s"]);
  for (const one of measured) {
    const ridge = Math.min(high, Math.max(low, one["Gflop/s"] / one["GB/s"]));
    const corners = [low, ridge, high].map((i) => `${x(i)},${y(roof(one, i))}`);
    svg.append(node("polyline", { class: "roof", points: corners.join(" ") }));
  }
}

const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const numbers = (values) => values.every((v) => typeof v === "number");

function draw(shown) {
  const svg = at("plot");
  svg.replaceChildren();
  const { said, came, measured } = shown;
  at("title").textContent = where(shown);
  const laptops = (count) => `${count} laptop${count === 1 ? "" : "s"}`;
  let summary = "";
  if (measured.length) {
    const names = Object.keys(measured[0]), whole = measured.filter((m) => names.every((n) => n in m));
    summary = `Measured on ${laptops(measured.length)}; medians: `
      + names.map((n) => `${n} ${short(middle(whole.map((m) => m[n])))}`).join(", ");
    if (names.includes("Gflop/s") && names.includes("GB/s")) roofs(svg, whole);
    else if (names.length > 1) points(svg, whole, names);
    else histogram(svg, [], whole.map((m) => m[names[0]]));
  } else {
    summary = `${said.length} predicted` + (said.length && numbers(said) ? ` (median ${short(middle(said))})` : "");
    if (shown.revealed) {
      summary += `. Measured on ${laptops(came.length)}`
        + (came.length && numbers(came) ? ` (median ${short(middle(came))})` : "");
    } else summary += `. ${laptops(shown.came_count)} already know${shown.came_count === 1 ? "s" : ""} the answer`;
    if (numbers([...said, ...came])) { if (said.length + came.length) histogram(svg, said, came); }
    else words(svg, said, came);
  }
  at("summary").textContent = summary;
  const button = at("reveal");
  button.hidden = measured.length > 0;
  button.textContent = shown.revealed ? "Hide what was measured (R)" : "Reveal what was measured (R)";
}

// ---- lists and keys ------------------------------------------------------------------------

function entry(one, count) {
  const li = document.createElement("li"), button = document.createElement("button"), number = document.createElement("span");
  button.textContent = where(one);
  number.textContent = count;
  button.append(number);
  button.setAttribute("aria-current", String(Boolean(same(one, state.shown))));
  button.onclick = () => choose(one);
  li.append(button);
  return li;
}

function lists() {
  at("questions").replaceChildren(...state.questions.map((q) => entry(q, q.revealed ? `${q.said} ✓` : String(q.said))));
  at("measurements").replaceChildren(...state.measurements.map((m) => entry(m, String(m.count))));
  at("solved").replaceChildren(...state.solved.map((one) => {
    const li = document.createElement("li"), number = document.createElement("span");
    li.className = "done";
    li.textContent = where(one);
    number.textContent = `${one.count} of ${state.members}`;
    li.append(number);
    return li;
  }));
}

const choose = (one) => change({ notebook: one.notebook, name: one.name });
const reveal = () => state.shown && change({ notebook: state.shown.notebook, name: state.shown.name, reveal: !state.shown.revealed });

async function change(body) {
  try { await ask("api/show", { class: state.class, ...body }); } catch (error) { trouble(error.message); }
  await look();
}

function trouble(message) {
  at("trouble").hidden = !message;
  at("trouble").textContent = message;
}

async function look() {
  try {
    state = await (await ask(`api/state?class=${which}`)).json();
  } catch (error) {
    trouble(error instanceof TypeError ? "The board does not answer: is `make board` still running? This page goes on when it does." : error.message);
    return;
  }
  trouble("");
  const now = JSON.stringify(state);
  if (now === drawn) return;
  const focus = document.activeElement?.closest("nav li")?.textContent;
  drawn = now;
  at("line").textContent = `from helpers import board; board.join("${location.host}", "${state.code}")`;
  at("joined").textContent = `${state.members} joined${state.names.length ? `: ${state.names.join(", ")}` : ""}`;
  const today = state.classes[0].id;
  at("join").hidden = state.class !== today;
  const options = state.classes.map((one) => {
    const option = document.createElement("option");
    option.value = one.id === today ? "" : one.id;
    option.textContent = `${new Date(1000 * one.begun).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}, ${one.members} joined`;
    option.selected = one.id === state.class;
    return option;
  });
  if (document.activeElement !== at("class")) at("class").replaceChildren(...options);
  lists();
  if (focus) [...document.querySelectorAll("nav li")].find((li) => li.textContent === focus)?.querySelector("button")?.focus();
  if (state.shown) draw(state.shown);
  else { at("plot").replaceChildren(); at("title").textContent = "Choose a question"; at("summary").textContent = ""; at("reveal").hidden = true; }
}

at("reveal").onclick = reveal;
at("dark").onclick = () => document.documentElement.classList.toggle("dark");
at("class").onchange = (event) => { which = event.target.value; look(); };
at("csv").onclick = async () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await (await ask(`api/csv?class=${which}`)).blob());
  link.download = "board.csv";
  link.click();
  URL.revokeObjectURL(link.href);
};
addEventListener("keydown", (event) => {
  if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey || !state) return;
  const all = [...state.questions, ...state.measurements], now = all.findIndex((one) => same(one, state.shown));
  if (event.key === "r") reveal();
  else if (event.key === "d") at("dark").click();
  else if (event.key === "ArrowDown" && all[now + 1]) choose(all[now + 1]);
  else if (event.key === "ArrowUp" && all[now - 1]) choose(all[now - 1]);
  else return;
  event.preventDefault();
});
if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.classList.add("dark");
if (!key) trouble("This page needs the teacher's key: open the address that `make board` prints.");
else { look(); setInterval(look, 1000); }
