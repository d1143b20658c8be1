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
