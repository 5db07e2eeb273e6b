// The workspace's workflow servers and their tools.

import { Connect } from "./connect.js";
import { byId, el, plural } from "./dom.js";

/** By id: `{ element, about, connect }`, and what `about` was made from. */
let cards = new Map();

/** Shows the workflow `servers`, each with its `tools` (rows of `GET …/tools`); `external` ones are counted with them. */
export function showServers(servers, external, workspace) {
  const list = byId("servers");
  list.removeAttribute("aria-busy");
  const all = [...servers, ...external];
  const tools = all.reduce((sum, server) => sum + server.tools.length, 0);
  byId("servers-count").textContent = all.length ? `${plural(all.length, "server")}, ${plural(tools, "tool")}` : "";

  cards = new Map(servers.map((server) => {
    const card = cards.get(server.id) ?? newCard(server.id, workspace);
    draw(card, server);
    return [server.id, card];
  }));
  const elements = [...cards.values()].map(({ element }) => element);
  if (!all.length) elements.push(el("p", { class: "quiet pad" }, "No servers yet."));
  // What stays in its place is left alone, so that the focus stays.
  if (elements.length !== list.children.length || elements.some((element, at) => list.children[at] !== element)) {
    list.replaceChildren(...elements);
  }
}

function newCard(id, workspace) {
  const [about, connect] = [el("div"), new Connect(workspace, id)];
  return { about, connect, drawn: "", element: el("article", { class: "server", "data-workflow-server": id }, about, connect.element) };
}

/** Draws what differs: what is being read or selected stays. */
function draw(card, server) {
  card.connect.update(server);
  const drawn = JSON.stringify(server);
  if (card.drawn === drawn) return;
  card.drawn = drawn;
  const { name, description, isPublic, tools } = server;
  card.about.replaceChildren(...[
    el("div", { class: "server-head" },
      el("h3", {}, name || "(no name)"),
      isPublic ? el("span", { class: "tag" }, "public") : null),
    description ? el("p", { class: "quiet server-about" }, description) : null,
    tools.length
      ? el("ul", { class: "tools" }, ...tools.map(tool))
      : el("p", { class: "quiet server-about" }, "No tools on it yet."),
  ].filter(Boolean));
}

function tool({ toolName, toolDescription, workflowDescription, isDeployed }) {
  const about = toolDescription || workflowDescription || `Execute workflow: ${toolName}`;
  return el("li", { class: isDeployed ? "tool" : "tool resting", "data-tool": toolName },
    el("div", { class: "server-head" },
      el("span", { class: "tool-name" }, toolName),
      el("span", { class: "tag" }, isDeployed ? "deployed" : "not deployed")),
    about ? el("p", { class: "tool-about" }, about) : null);
}
