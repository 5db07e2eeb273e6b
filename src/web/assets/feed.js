// The list of changes, newest first; each opens to the definitions before and after.

import { get } from "./api.js";
import { diff } from "./diff.js";
import { byId, el, plural } from "./dom.js";

const PAGE = 50;
/** Names of each kind shown before the change is opened. */
const NAMES = 8;
/** Changes kept in the page; older ones are a click away. */
const KEPT = 500;

const sameDay = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const otherDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const hour = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });

const FIELDS = { description: "description", inputSchema: "input" };

export class Feed {
  #workspace;
  #list = byId("feed");
  #older = byId("older");
  /** revision → item */
  #items = new Map();
  #nextBefore = null;

  constructor(workspace) {
    this.#workspace = workspace;
    this.#older.addEventListener("click", () => this.#showOlder());
  }

  /** What is shown is of another history: shows nothing until the next `load`. */
  restart() {
    this.#items.clear();
    this.#list.replaceChildren();
  }

  /** Reads the newest changes and shows them in place of what is there. What was open stays open. */
  async load() {
    const { changes, nextBefore } = await this.#read({ limit: PAGE });
    // A frame may have come while this was read.
    const newest = changes[0]?.revision ?? 0;
    const newer = [...this.#items].filter(([revision]) => revision > newest).sort(([a], [b]) => b - a);
    const open = new Set([...this.#items].filter(([, item]) => item.firstChild.open).map(([revision]) => revision));
    this.#items = new Map(newer);
    for (const change of changes) this.#items.set(change.revision, this.#item(change, open.has(change.revision)));
    this.#list.replaceChildren(...this.#items.values());
    this.#page(nextBefore);
    // What was there before anyone looked is not read out; what comes from now on is.
    const log = byId("feed-log");
    log.setAttribute("role", "log");
    log.setAttribute("aria-live", "polite");
  }

  /** Puts a frame's change on top. */
  prepend(change) {
    if (this.#items.has(change.revision)) return;
    const item = this.#item(change, false);
    item.classList.add("fresh");
    this.#items.set(change.revision, item);
    this.#list.prepend(item);
    if (this.#items.size > KEPT) this.#dropLast();
    byId("feed-empty").hidden = true;
  }

  async #showOlder() {
    this.#older.disabled = true;
    try {
      const { changes, nextBefore } = await this.#read({ limit: PAGE, before: this.#nextBefore });
      for (const change of changes) {
        if (this.#items.has(change.revision)) continue;
        const item = this.#item(change, false);
        this.#items.set(change.revision, item);
        this.#list.append(item);
      }
      this.#page(nextBefore);
    } catch {
      // The button stays: it can be pressed again.
    } finally {
      this.#older.disabled = false;
    }
  }

  #dropLast() {
    const revision = Math.min(...this.#items.keys());
    this.#items.get(revision).remove();
    this.#items.delete(revision);
    this.#page(revision);
  }

  #page(nextBefore) {
    this.#nextBefore = nextBefore;
    this.#older.hidden = nextBefore === null;
    byId("feed-empty").hidden = this.#items.size > 0;
  }

  async #read(params) {
    return (await get("/api/mcp/changes", { workspaceId: this.#workspace, ...params })).data;
  }

  #item(change, open) {
    const body = el("div", { class: "definitions" });
    const details = el("details", { class: "change", "data-revision": change.revision },
      el("summary", {}, time(change.timestamp), el("span", { class: "change-server" }, change.serverName), names(change)),
      body);
    details.addEventListener("toggle", () => {
      if (details.open && !body.hasChildNodes()) this.#fill(body, change);
    });
    details.open = open;
    return el("li", {}, details);
  }

  async #fill(body, change) {
    let whole = change;
    if (whole.definitions === undefined) {
      body.replaceChildren(el("p", { class: "quiet" }, "Loading…"));
      try {
        const { changes } = await this.#read({ limit: 1, before: change.revision + 1 });
        whole = changes[0]?.revision === change.revision ? changes[0] : { ...change, definitions: null };
      } catch {
        const again = el("button", { type: "button", onclick: () => this.#fill(body, change) }, "Try again");
        body.replaceChildren(el("p", { class: "quiet" }, "The definitions could not be read. ", again));
        return;
      }
    }
    body.replaceChildren(...definitions(whole));
  }
}

function time(timestamp) {
  // A number from the stream, a number or a text from the history.
  const at = new Date(timestamp);
  const today = at.toDateString() === new Date().toDateString();
  return el("time", { datetime: at.toISOString(), title: full.format(at) }, today ? sameDay.format(at) : `${otherDay.format(at)} ${hour.format(at)}`);
}

/** The names a change speaks of, each with its sign, so that colour alone never carries the meaning. */
function names({ added, removed, changed, more }) {
  const chip = (kind, sign, word, name) =>
    el("span", { class: `name ${kind}` }, el("span", { class: "unseen" }, `${word} `), `${sign} ${name}`);
  const rest = (shown, all, word) => all > shown
    ? [el("span", { class: "more" }, `and ${(all - shown).toLocaleString("en")} more ${word}`)]
    : [];
  const some = (list, left, word, show) => {
    const shown = list.slice(0, NAMES);
    return [...shown.flatMap(show), ...rest(shown.length, list.length + (left ?? 0), word)];
  };
  return el("span", { class: "change-names" },
    ...some(removed, more?.removed, "removed", (name) => [chip("removed", "−", "removed", name)]),
    ...some(added, more?.added, "added", (name) => [chip("added", "+", "added", name)]),
    ...some(changed, more?.changed, "changed", ({ name, what, breaking }) => [
      chip("changed", "~", "changed", name),
      what.length ? el("span", { class: "what" }, what.map((field) => FIELDS[field] ?? field).join(", ")) : null,
      breaking ? el("span", { class: "tag breaking" }, "breaking") : null,
    ]),
    removed.length + added.length + changed.length === 0 && !more
      ? el("span", { class: "what" }, "back to what it was")
      : null);
}

function definitions({ added, removed, changed, definitions: kept }) {
  if (!kept) return [el("p", { class: "quiet" }, "The definitions of this change are no longer kept.")];
  const block = (title, note, before, after) => el("div", { class: "definition" },
    el("div", { class: "definition-head" }, el("h3", {}, title), el("span", { class: "quiet" }, note)),
    diff(before, after));
  // One tool went and one came: most likely one tool under a new name, so they are held against each other.
  if (removed.length === 1 && added.length === 1 && changed.length === 0) {
    const [before, after] = [kept[removed[0]]?.before, kept[added[0]]?.after];
    if (before && after) return [block(`${removed[0]} → ${added[0]}`, "removed and added", before, after)];
  }
  const whatOf = new Map(changed.map((tool) => [tool.name, tool]));
  const note = (name, { before, after }) => {
    if (!before) return "added";
    if (!after) return "removed";
    return whatOf.get(name)?.breaking ? "changed, and may break whoever calls it" : "changed";
  };
  const entries = Object.entries(kept);
  if (!entries.length) return [el("p", { class: "quiet" }, `${plural(0, "definition")} differ.`)];
  return entries.map(([name, pair]) => block(name, note(name, pair), pair.before, pair.after));
}
