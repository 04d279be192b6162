// Building elements. Text goes in as text nodes only: nothing a trace says is ever read as markup.

// The page holds one empty drawing, whose namespace names that of all others.
let namespace = null;
const drawing = () => (namespace ??= document.querySelector("svg").namespaceURI);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean" && name in node) node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child);
  }
  return node;
}

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(drawing(), tag), attributes, children);
}

// Children of `parent` in the order of `keys`, made once per key and kept, so that what has the
// keyboard's focus keeps it from step to step.
export function keyed(parent, keys, create) {
  const kept = (parent.keptChildren ??= new Map());
  const wanted = new Set(keys);
  for (const [key, part] of kept) {
    if (!wanted.has(key)) {
      part.element.remove();
      kept.delete(key);
    }
  }
  let place = null;
  return keys.map((key) => {
    let part = kept.get(key);
    if (!part) kept.set(key, (part = create(key)));
    const next = place ? place.nextSibling : parent.firstChild;
    if (part.element !== next) parent.insertBefore(part.element, next);
    place = part.element;
    return part;
  });
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Arrow keys over a row of options of which one is reachable by Tab.
export function rove(event, { at, count, columns = 1, rows = 1 }) {
  const moves = { ArrowRight: rows, ArrowLeft: -rows, ArrowDown: columns, ArrowUp: -columns };
  let to = at;
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return null;
  if (event.key in moves) to = at + moves[event.key];
  else if (event.key === "Home") to = 0;
  else if (event.key === "End") to = count - 1;
  else return null;
  event.preventDefault();
  return Math.min(Math.max(to, 0), count - 1);
}
