// Small helpers for making elements. Text only ever enters the page as text nodes.

/** Makes an element: `el("li", { class: "tool" }, "text", child)`. False, null and undefined are left out. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** `1 tool`, `2 tools`. */
export const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
