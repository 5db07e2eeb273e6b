// How to connect AI clients to a workflow server: what to copy, for one client at a time.

import { get } from "./api.js";
import { copyButton } from "./copy.js";
import { el } from "./dom.js";

/** The client that was chosen last, on any server. */
let chosen = null;

/** The part of a server's card that says how to connect to it. It is read when it is opened. */
export class Connect {
  #workspace;
  #id;
  /** What the snippets depend on, as it is, and as it was when they were read. */
  #wanted = "";
  #read = "";
  #summary = el("summary", {}, "Connect an AI client");
  #body = el("div", { class: "connect-body" });
  element = el("details", { class: "connect", ontoggle: () => this.#readAgain() }, this.#summary, this.#body);

  constructor(workspace, id) {
    this.#workspace = workspace;
    this.#id = id;
  }

  /** Takes in the server's row. */
  update({ name, isPublic }) {
    this.#wanted = JSON.stringify([name, isPublic]);
    this.#summary.setAttribute("aria-label", `Connect an AI client: ${name}`);
    this.#readAgain();
  }

  async #readAgain() {
    const wanted = this.#wanted;
    if (!this.element.open || this.#read === wanted) return;
    try {
      const path = `/api/mcp/workflow-servers/${encodeURIComponent(this.#id)}/connect`;
      const { data } = await get(path, { workspaceId: this.#workspace });
      // A later read is on its way when it changed meanwhile.
      if (wanted !== this.#wanted) return;
      this.#read = wanted;
      this.#draw(data);
    } catch (error) {
      const told = error.status ? error.message : "The server cannot be reached just now. Close this and open it again.";
      this.#body.replaceChildren(el("p", { class: "quiet" }, told));
    }
  }

  #draw({ header, snippets }) {
    const hadFocus = this.#body.contains(document.activeElement);
    const id = `connect-${this.#id}`;
    const snippet = el("div", { class: "line" });
    const show = ({ client, place, text }) => {
      const code = el("code", {}, text);
      snippet.replaceChildren(
        el("div", { class: "line-head" }, el("span", {}, place), copyButton(`for ${client}`, code)),
        el("pre", {}, code));
    };
    const select = el("select", { id }, ...snippets.map(({ client }) => el("option", { value: client }, client)));
    const at = Math.max(0, snippets.findIndex(({ client }) => client === chosen));
    select.selectedIndex = at;
    select.addEventListener("change", () => {
      chosen = select.value;
      show(snippets[select.selectedIndex]);
    });
    show(snippets[at]);
    this.#body.replaceChildren(...[
      el("label", { for: id }, "Client"),
      select,
      snippet,
      header ? el("p", { class: "hint" }, `This server asks for an API key in the header ${header}; `,
        el("code", {}, "toolcast key create NAME --user EMAIL --permission read"), " makes one.") : null,
    ].filter(Boolean));
    if (hadFocus) select.focus();
  }
}
