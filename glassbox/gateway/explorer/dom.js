// Elements without markup: every text goes in as text, so nothing that a model or a user wrote can become a tag.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `attributes`: `on…` are listeners, null and false are left out. Children: nodes, texts, lists. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...flat(children));
  return element;
}

const flat = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

export function replace(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** Replaces what a view shows; who was in it is at its heading then, and not lost. */
export function redraw(view, ...children) {
  const within = view.contains(document.activeElement);
  replace(view, ...children);
  if (within) view.querySelector("h1")?.focus({ preventScroll: true });
}

/** Text for screen readers alone. */
export const unseen = (text) => h("span", { class: "unseen" }, text);

/** A heading of a section that names it. */
export function section(title, ...children) {
  const id = `s${(sections += 1)}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}
let sections = 0;

/** A table: `heads` are texts or [text, class]; `rows` lists of cells, each a node, a text or null. The first cell heads
 * its row. Cells carry their column's name, which a narrow page shows beside them; there a row is drawn as a card, so
 * that it is a table is said by roles, which no style takes away. */
export function table(caption, heads, rows, attributes = {}) {
  const names = heads.map((head) => (Array.isArray(head) ? head : [head, null]));
  const column = ([name, kind]) => h("th", { scope: "col", role: "columnheader", class: kind }, name);
  const cell = (content, n) =>
    n === 0
      ? h("th", { scope: "row", role: "rowheader" }, content)
      : h("td", { role: "cell", class: names[n][1], "data-label": names[n][0] }, content ?? h("span", { class: "quiet" }, "–"));
  const row = (cells) => h("tr", { role: "row" }, cells.map(cell));
  return h(
    "table",
    { role: "table", ...attributes },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, names.map(column))),
    h("tbody", { role: "rowgroup" }, rows.map(row)),
  );
}
