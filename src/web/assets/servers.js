// The workspace's servers and their tools.

import { byId, el, plural } from "./dom.js";

/** Shows `servers`, each with its `tools` (rows of `GET …/tools`). */
export function showServers(servers) {
  const list = byId("servers");
  list.removeAttribute("aria-busy");
  const tools = servers.reduce((sum, server) => sum + server.tools.length, 0);
  byId("servers-count").textContent = servers.length
    ? `${plural(servers.length, "server")}, ${plural(tools, "tool")}`
    : "";
  list.replaceChildren(...(servers.length ? servers.map(server) : [el("p", { class: "quiet pad" }, "No servers yet.")]));
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
