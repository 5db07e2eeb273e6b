// Two tools, told apart line by line.

import { el } from "./dom.js";

/** Lines of unchanged text kept around what changed. */
const CONTEXT = 3;
/** Above this many comparisons the middle is shown as replaced, so that a huge schema cannot stall the page. */
const MOST_CELLS = 4_000_000;

/** JSON for reading. Without commas at line ends, so that a new last item does not touch the one before it. */
const readable = (value) => JSON.stringify(value, null, 2).replace(/,$/gm, "");

/** A tool as lines for reading: its name, its description, its input. */
function lines(tool) {
  if (!tool) return [];
  const { name, description, inputSchema, ...rest } = tool;
  const parts = [`name: ${name}`, `description: ${description ?? ""}`, `input: ${readable(inputSchema ?? {})}`];
  for (const [key, value] of Object.entries(rest)) parts.push(`${key}: ${readable(value)}`);
  return parts.flatMap((part) => part.split(/\r\n|[\n\r\u2028\u2029]/));
}

/** The shortest way from `a` to `b`, as `{ sign: " " | "-" | "+", text }`. */
export function compare(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (text) => ({ sign: " ", text });
  return [
    ...a.slice(0, start).map(same),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...a.slice(a.length - end).map(same),
  ];
}

function middle(a, b) {
  const gone = (text) => ({ sign: "-", text });
  const come = (text) => ({ sign: "+", text });
  if (a.length * b.length > MOST_CELLS) return [...a.map(gone), ...b.map(come)];
  // Longest common subsequence of what follows each pair of places.
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = a[i] === b[j]
        ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const result = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      result.push({ sign: " ", text: a[i] });
      i += 1;
      j += 1;
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) result.push(gone(a[i++]));
    else result.push(come(b[j++]));
  }
  return [...result, ...a.slice(i).map(gone), ...b.slice(j).map(come)];
}

/** Leaves out unchanged lines far from any change. */
function shorten(rows) {
  const near = rows.map(() => false);
  rows.forEach(({ sign }, at) => {
    if (sign === " ") return;
    near.fill(true, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const result = [];
  for (let at = 0; at < rows.length; at += 1) {
    if (near[at]) {
      result.push(rows[at]);
      continue;
    }
    let skipped = 0;
    while (at + skipped < rows.length && !near[at + skipped]) skipped += 1;
    if (skipped <= 2) result.push(...rows.slice(at, at + skipped));
    else result.push({ sign: "…", text: `${skipped} lines unchanged` });
    at += skipped - 1;
  }
  return result;
}

const KIND = { "+": "added", "-": "removed", "…": "skipped" };
const SPOKEN = { "+": "added: ", "-": "removed: " };
const SHOWN = { "-": "−" };

/** Before and after as a list of lines; either may be null. */
export function diff(before, after) {
  const rows = compare(lines(before), lines(after));
  const shown = before && after ? shorten(rows) : rows;
  return el("div", { class: "diff", role: "group", "aria-label": "Before and after" },
    el("ol", {}, ...shown.map(({ sign, text }) =>
      el("li", { class: KIND[sign], "data-sign": SHOWN[sign] ?? sign },
        el("span", {}, SPOKEN[sign] ? el("span", { class: "unseen" }, SPOKEN[sign]) : null, text || " ")))));
}
