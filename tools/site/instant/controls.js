// What the three players share: controls, a picture, a table. `make`, `draw` and `player` are the ones of the notebooks'
// pictures.

// Three digits and a prefix: si(0.00123, "s") is "1.23 ms".
function si(value, unit) {
  if (!value) return `0 ${unit}`;
  const prefixes = ["n", "µ", "m", "", "k", "M", "G", "T", "P"];
  const place = Math.max(-3, Math.min(5, Math.floor(Math.log10(Math.abs(value) * 1.0005) / 3)));
  return `${Number((value / 1000 ** place).toPrecision(3))} ${prefixes[place + 3]}${unit}`;
}

// Controls with labels; each is { input, value }, and `changed` is called when one changes.
function controls(root, title, changed) {
  const box = make("fieldset", { class: "controls" }, root);
  make("legend", {}, box, title);
  const field = (name, text, tag, attributes) => {
    const label = make("label", {}, box, text), input = make(tag, { "data-name": name, autocomplete: "off", ...attributes }, label);
    return { label, input };
  };
  return {
    menu(name, text, options, value) {
      const one = field(name, text, "select", {});
      for (const [key, words] of options) make("option", { value: key }, one.input, words);
      one.input.value = value;
      one.input.addEventListener("change", () => changed(name));
      return { ...one, get value() { return one.input.value; } };
    },
    range(name, text, least, most, step, value, words = String) {
      const one = field(name, text, "input", { type: "range", min: least, max: most, step, value }), shown = make("output", {}, one.label);
      const say = () => { shown.textContent = words(Number(one.input.value)); one.input.setAttribute("aria-valuetext", shown.textContent); };
      one.input.addEventListener("input", () => { say(); changed(name); });
      say();
      return { ...one, say, get value() { return Number(one.input.value); } };
    },
    // A number that the reader types; while it is none, or out of bounds, the last good one counts.
    number(name, text, value, { least = 0, most = 1e15, whole = false } = {}) {
      const one = field(name, text, "input", { type: "number", min: least, max: most, step: whole ? 1 : "any", value });
      let good = value;
      const read = () => {
        const typed = one.input.value === "" ? NaN : Number(one.input.value);
        const fine = typed >= least && typed <= most && (!whole || Number.isInteger(typed));
        one.input.setAttribute("aria-invalid", !fine);
        if (fine) good = typed;
        return fine;
      };
      one.input.addEventListener("input", () => read() && changed(name));
      return { ...one, get value() { return good; }, set value(to) { one.input.value = Number(to.toPrecision(4)); read(); } };
    },
  };
}

// A link: a menu that fills in α and β, and the two numbers, which the reader may change.
function link(bar, name, text, links, chosen) {
  const menu = bar.menu(name, text, [...links.map(([words], k) => [k, words]), ["own", "my own α and β"]], chosen);
  const alpha = bar.number(`${name}-alpha`, "α [µs]", 1), beta = bar.number(`${name}-beta`, "β [ns per byte]", 1);
  const fill = () => { if (menu.value !== "own") { alpha.value = links[menu.value][1] * 1e6; beta.value = links[menu.value][2] * 1e9; } };
  fill();
  return {
    changed(what) { if (what === name) fill(); else if (what.startsWith(`${name}-`)) menu.input.value = "own"; },
    get value() { return { alpha: alpha.value * 1e-6, beta: beta.value * 1e-9 }; },
  };
}

// A picture whose unit is a pixel: `paint` draws anew when its place changes width.
function picture(root, paint) {
  const stage = make("div", { class: "stage" }, root), svg = draw("svg", { role: "img" }, stage);
  new ResizeObserver(() => paint()).observe(stage);
  return {
    svg,
    begin(height) {
      const width = Math.max(260, stage.clientWidth || 900);
      svg.textContent = "";
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      return { width, small: width < 560 };
    },
  };
}

// Arrow keys step from anywhere on the page, and do not turn to the next page.
function keys(root) {
  const arrow = (event) => ["ArrowLeft", "ArrowRight"].includes(event.key) && !(event.shiftKey || event.ctrlKey || event.altKey || event.metaKey);
  root.addEventListener("keydown", (event) => { if (arrow(event)) event.stopPropagation(); });
  addEventListener("keydown", (event) => {
    if (event.target !== document.body || !arrow(event)) return;
    event.stopImmediatePropagation();
    root.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, cancelable: true }));
  }, true);
}

function table(root, caption, head) {
  const place = make("div", { class: "table-wrapper" }, root), node = make("table", {}, place);
  make("caption", {}, node, caption);
  const row = make("tr", {}, make("thead", {}, node));
  for (const words of head) make("th", { scope: "col" }, row, words);
  const body = make("tbody", {}, node);
  return (rows) => {
    body.textContent = "";
    for (const [current, first, ...others] of rows) {
      const line = make("tr", current ? { "aria-current": "true" } : {}, body);
      make("th", { scope: "row" }, line, first);
      for (const words of others) make("td", {}, line, words);
    }
  };
}
