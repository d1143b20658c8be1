// What pictures are made of: elements, and keys that move among many of them.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, parent, text) {
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

// An element of the page, within `parent`, with its text.
export function make(tag, attributes, parent, text) {
  return fill(document.createElement(tag), attributes, parent, text);
}

// The same in an SVG.
export function draw(tag, attributes, parent, text) {
  return fill(document.createElementNS(SVG, tag), attributes, parent, text);
}

// A button with a name that is read aloud.
export function press(parent, id, sign, label, action) {
  const node = make("button", { type: "button", "data-testid": id, "aria-label": label, title: label }, parent, sign);
  node.addEventListener("click", action);
  return node;
}

// A menu of names.
export function choice(parent, id, label, names) {
  const node = make("select", { "data-testid": id, "aria-label": label }, parent);
  for (const name of names) make("option", { value: name }, node, name);
  return node;
}

// A slider over a list of values: what it shows is the value, not its place in the list.
export function slider(parent, id, text, attributes) {
  const label = make("label", {}, parent, `${text} `);
  const input = make("input", { type: "range", min: 0, step: 1, "data-testid": id, "aria-label": text, ...attributes }, label);
  const output = make("output", {}, label), part = { label, input, output, values: [], value: () => part.values[input.value], load };
  function load(values, at) {
    part.values = [...new Set(values)].sort((a, b) => a - b);
    input.max = part.values.length - 1;
    input.value = at(part.values);
    output.textContent = part.value();
    input.setAttribute("aria-valuetext", part.value());
  }
  return part;
}

// What colours mean: boxes with words, in a row.
export function key(svg, x, y, entries) {
  for (const [look, words] of entries) {
    draw("rect", { x, y: y - 11, width: 14, height: 12, ...look }, svg);
    draw("text", { x: x + 20, y }, svg, words);
    x += 40 + 8 * words.length;
  }
}

// An SVG's mark is an image that is called what its title says.
export function speak(mark) {
  mark.setAttribute("role", "img");
  mark.setAttribute("aria-label", mark.textContent);
}

// A hex colour, mixed with white: `share` 1 is the colour itself.
export function pale(hex, share) {
  const part = (i) => Math.round(255 - share * (255 - parseInt(hex.slice(i, i + 2), 16)));
  return `rgb(${part(1)},${part(3)},${part(5)})`;
}

// The elements within `group` that match `selector` become one stop of the Tab key: arrow keys, Home and End move among
// them (`columns` to a row), Enter and Space click. (No listener for focus here: it makes an SVG a stop of its own.)
export function rove(group, selector, columns = 1) {
  const items = () => [...group.querySelectorAll(selector)];
  const stop = (item) => { for (const other of items()) other.setAttribute("tabindex", other === item ? 0 : -1); };
  stop(items()[0]);
  group.addEventListener("pointerdown", (event) => { if (event.target.matches(selector)) stop(event.target); });
  group.addEventListener("keydown", (event) => {
    const all = items(), k = all.indexOf(event.target);
    if (k < 0 || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
    const to = { ArrowRight: k + 1, ArrowLeft: k - 1, ArrowDown: k + columns, ArrowUp: k - columns, Home: 0, End: all.length - 1 }[event.key];
    if (all[to]) {
      stop(all[to]);
      all[to].focus();
    } else if (event.key === "Enter" || event.key === " ") event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    else if (to === undefined) return;
    event.preventDefault();
  });
}
