// The workspace's external MCP servers: where the session with each stands, live, and their tools.

import { send } from "./api.js";
import { byId, el } from "./dom.js";
import { signIn } from "./sign_in.js";

/** What a state is called, and which colour its dot has. */
const STATES = {
  READY: ["Connected", "live"],
  CONNECTED: ["Listing its tools…", "busy"],
  DISCOVERING: ["Listing its tools…", "busy"],
  INITIALIZING: ["Connecting…", "busy"],
  CONNECTING: ["Connecting…", "busy"],
  VALIDATING: ["Connecting…", "busy"],
  AUTHENTICATED: ["Signed in, connecting…", "busy"],
  RECONNECTING: ["Connection lost, reconnecting…", "busy"],
  FAILED: ["Cannot be reached; it is tried again by itself", "bad"],
  AUTHENTICATING: ["It lets nobody in without the right credentials", "bad"],
  DISCONNECTED: ["Disconnected", "off"],
};
const PUSH = {
  listen: "tells of changes", get: "tells of changes", sse: "tells of changes", poll: "asked for changes every now and then",
};
/** States in which someone tries, or has tried. */
const AT_WORK = new Set(Object.keys(STATES).filter((state) => state !== "DISCONNECTED"));

export class ExternalServers {
  #workspace;
  #mayWrite;
  #mayDelete;
  #problem;
  /** By id: `{ row, element, parts }`. */
  #cards = new Map();

  constructor({ workspace, permission, problem }) {
    this.#workspace = workspace;
    this.#mayWrite = permission !== "read";
    this.#mayDelete = permission === "admin";
    this.#problem = problem;
  }

  /** Shows `servers`, rows of `GET /api/mcp/servers` with their `tools`. A card that stays is left alone, so that the focus stays. */
  show(servers) {
    const list = byId("external");
    const kept = new Map();
    for (const row of servers) {
      const card = this.#cards.get(row.id) ?? { element: el("article", { class: "server", "data-server": row.id }) };
      card.row = row;
      this.#draw(card);
      kept.set(row.id, card);
    }
    this.#cards = kept;
    const elements = [...kept.values()].map(({ element }) => element);
    if (elements.length !== list.children.length || elements.some((element, at) => list.children[at] !== element)) {
      list.replaceChildren(...elements);
    }
  }

  /** Takes in a `connection` frame. False when the lists have to be read for it. */
  hear({ type, serverId, serverName, state, error }) {
    const card = this.#cards.get(serverId);
    if (!card || type === "disconnected") return false;
    const before = card.row.state;
    card.row = { ...card.row, state, name: serverName };
    if (state === "READY") card.row.lastError = null;
    if (type === "error") card.row.lastError = error;
    this.#draw(card);
    // What went wrong, and how it is heard of, stand in the row.
    return state === before || !["READY", "FAILED", "AUTHENTICATING"].includes(state);
  }

  /** Draws what differs: what is being read, selected or pressed stays. */
  #draw(card) {
    const { enabled, state, name } = card.row;
    const parts = [
      ["about", JSON.stringify(card.row), this.#about],
      ["buttons", JSON.stringify([enabled, AT_WORK.has(state), name, wantsSignIn(card.row)]), this.#buttons],
    ];
    card.parts ??= {};
    for (const [part, key, make] of parts) {
      if (card.parts[part]?.key === key) continue;
      const old = card.parts[part]?.element;
      const focused = old?.contains(document.activeElement) ? document.activeElement.dataset.does : null;
      const element = make.call(this, card.row);
      if (old) old.replaceWith(element);
      else card.element.append(element);
      card.parts[part] = { key, element };
      if (focused) element.querySelector(`[data-does="${focused}"]`)?.focus();
    }
  }

  #about(row) {
    const { name, url, description, tools, lastError } = row;
    return el("div", {},
      el("div", { class: "server-head" },
        el("h3", {}, name || "(no name)"),
        el("span", { class: "tag" }, "external")),
      el("p", { class: "quiet server-about" }, url),
      description ? el("p", { class: "quiet server-about" }, description) : null,
      this.#state(row),
      lastError && row.enabled ? el("p", { class: "error server-error" }, lastError) : null,
      tools.length ? el("ul", { class: "tools" }, ...tools.map(tool)) : null);
  }

  #state({ state, enabled, push, stale, tools, negotiatedVersion, authType }) {
    const waits = state === "AUTHENTICATING" && authType === "oauth";
    const [words, look] = !enabled ? ["Switched off", "off"]
      : waits ? ["It waits for someone to sign in", "bad"] : STATES[state] ?? [state, "off"];
    const more = state === "READY" && enabled
      ? [negotiatedVersion ? `MCP ${negotiatedVersion}` : null, PUSH[push]].filter(Boolean).join(", ")
      : stale && tools.length ? "these tools were there when it last answered" : "";
    return el("p", { class: "server-state", "data-look": look, "data-state": state },
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("span", {}, more ? `${words}: ${more}` : words));
  }

  #buttons(row) {
    if (!this.#mayWrite) return el("div", {});
    const { id, name, state, enabled } = row;
    const does = (key, words, work) => el("button", {
      type: "button", "data-does": key, "aria-label": `${words}: ${name}`, onclick: (event) => this.#do(event.currentTarget, work),
    }, words);
    const query = new URLSearchParams({ workspaceId: this.#workspace });
    const command = (verb) => () => send("POST", `/api/mcp/connections/${verb}`, { workspaceId: this.#workspace, serverIds: [id] });
    const again = AT_WORK.has(state);
    return el("div", { class: "server-buttons" },
      wantsSignIn(row) ? does("sign-in", "Sign in", () => signIn(this.#workspace, row, this.#problem)) : null,
      enabled ? does("reconnect", again ? "Reconnect" : "Connect", command(again ? "reconnect" : "connect"))
        : does("enable", "Switch on", () => send("PATCH", `/api/mcp/servers/${encodeURIComponent(id)}?${query}`, { enabled: true })),
      enabled && again ? does("disconnect", "Disconnect", command("disconnect")) : null,
      this.#mayDelete ? el("button", { type: "button", "data-does": "delete", "aria-label": `Delete: ${name}`, onclick: (event) => this.#ask(event.currentTarget, row) }, "Delete") : null);
  }

  /** A second press means it; leaving the button does not. */
  #ask(button, { id }) {
    if (button.classList.contains("sure")) {
      const query = new URLSearchParams({ workspaceId: this.#workspace });
      this.#do(button, () => send("DELETE", `/api/mcp/servers/${encodeURIComponent(id)}?${query}`));
      return;
    }
    button.classList.add("sure");
    button.textContent = "Really delete it?";
    button.addEventListener("blur", () => {
      button.classList.remove("sure");
      button.textContent = "Delete";
    }, { once: true });
  }

  async #do(button, work) {
    button.disabled = true;
    try {
      await work();
      this.#problem("");
    } catch (error) {
      this.#problem(error.status === 401 ? "You are signed out, so nothing was done."
        : error.status ? `That was not done. ${error.message}`
        : "The server cannot be reached just now. Try again in a moment.");
    }
    button.disabled = false;
  }
}

/** Whether someone has to sign in before it answers, as far as is known. */
function wantsSignIn({ authType, enabled, signedIn, state }) {
  return enabled && authType === "oauth" && (!signedIn || state === "AUTHENTICATING");
}

function tool({ name, title, description }) {
  return el("li", { class: "tool", "data-tool": name },
    el("span", { class: "tool-name" }, name),
    title && title !== name ? el("span", { class: "quiet" }, ` ${title}`) : null,
    description ? el("p", { class: "tool-about" }, description) : null);
}
