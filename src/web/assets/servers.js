// The workspace's servers and their tools.

import { byId, el, plural } from "./dom.js";

/** Shows the workflow `servers`, each with its `tools` (rows of `GET …/tools`); `external` ones are counted with them. */
export function showServers(servers, external) {
  const list = byId("servers");
  list.removeAttribute("aria-busy");
  const all = [...servers, ...external];
  const tools = all.reduce((sum, server) => sum + server.tools.length, 0);
  byId("servers-count").textContent = all.length ? `${plural(all.length, "server")}, ${plural(tools, "tool")}` : "";
  const nothing = all.length ? [] : [el("p", { class: "quiet pad" }, "No servers yet.")];
  list.replaceChildren(...servers.map(server), ...nothing);
}

function server({ name, description, isPublic, tools }) {
  return el("article", { class: "server" },
    el("div", { class: "server-head" },
      el("h3", {}, name || "(no name)"),
      isPublic ? el("span", { class: "tag" }, "public") : null),
    description ? el("p", { class: "quiet server-about" }, description) : null,
    tools.length
      ? el("ul", { class: "tools" }, ...tools.map(tool))
      : el("p", { class: "quiet server-about" }, "No tools on it yet."));
}

function tool({ toolName, toolDescription, workflowDescription, isDeployed }) {
  const about = toolDescription || workflowDescription || `Execute workflow: ${toolName}`;
  return el("li", { class: isDeployed ? "tool" : "tool resting", "data-tool": toolName },
    el("div", { class: "server-head" },
      el("span", { class: "tool-name" }, toolName),
      el("span", { class: "tag" }, isDeployed ? "deployed" : "not deployed")),
    about ? el("p", { class: "tool-about" }, about) : null);
}
