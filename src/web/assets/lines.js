// Copy-ready lines for a terminal, with this workspace's ids filled in.

import { copyButton } from "./copy.js";
import { byId, el } from "./dom.js";

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const json = (body) => ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${quote(JSON.stringify(body))}`;

/** A curl call with the cookies of the first line. */
function curl(method, path, workspace, body) {
  const separator = path.includes("?") ? "&" : "?";
  const url = quote(`${location.origin}${path}${separator}workspaceId=${encodeURIComponent(workspace)}`);
  const data = body === undefined ? "" : json(body);
  return `curl -b cookies.txt -X ${method} ${url}${data}`;
}

function signIn(email) {
  return `curl -c cookies.txt ${quote(`${location.origin}/api/auth/sign-in`)}${json({ email, password: "YOUR PASSWORD" })}`;
}

/** Prints the id of what a call made. */
const ID_OF = (noun) => `sed 's/.*"${noun}":{"id":"\\([^"]*\\)".*/\\1/'`;

/** For a workspace without servers: the sample by hand. */
function firstLines({ workspace, email }) {
  const workflow = {
    name: "Say hello",
    inputFormat: [{ name: "who", type: "string", description: "Whom to greet" }],
    endpoint: { url: `${location.origin}/api/sample/echo` },
  };
  const server = curl("POST", "/api/mcp/workflow-servers", workspace, { name: "Greetings", workflowIds: ["WORKFLOW"] })
    .replace("WORKFLOW", `'"$WORKFLOW"'`);
  const deploy = curl("POST", "/api/workflows/WORKFLOW/deploy", workspace).replace("WORKFLOW", `'"$WORKFLOW"'`);
  return [
    ["Sign in; the cookie stays in cookies.txt", signIn(email)],
    ["Make a workflow and keep its id", `WORKFLOW=$(${curl("POST", "/api/workflows", workspace, workflow)} |\n  ${ID_OF("workflow")}); echo "$WORKFLOW"`],
    ["Deploy it", deploy],
    ["Offer it as a tool on a new server", server],
  ];
}

/** For a workspace with a tool: lines that change it. */
function changeLines({ workspace, email, workflows }, server, tool) {
  const path = `/api/mcp/workflow-servers/${server.id}/tools/${tool.id}`;
  const about = "Says back exactly what it is told.";
  const renamed = tool.toolName === "say_it_again" ? "say_it_back" : "say_it_again";
  return [
    ["Sign in; the cookie stays in cookies.txt", signIn(email)],
    ["Rename the tool", curl("PATCH", path, workspace, { toolName: renamed })],
    ["Describe it anew", curl("PATCH", path, workspace, {
      toolDescription: tool.toolDescription === about ? "Repeats its input." : about,
    })],
    ...inputLines(workspace, workflows.get(tool.workflowId)),
    ["Undeploy its workflow: the tool goes", curl("POST", `/api/workflows/${tool.workflowId}/undeploy`, workspace)],
    ["Deploy it again: the tool is back", curl("POST", `/api/workflows/${tool.workflowId}/deploy`, workspace)],
    ["Follow the feed here, too", `curl -N -b cookies.txt ${quote(`${location.origin}/api/mcp/events?workspaceId=${workspace}`)}`],
  ];
}

/** Adds a required argument, or takes it away again: an edit of the draft, which deploying makes real. */
function inputLines(workspace, workflow) {
  if (!Array.isArray(workflow?.inputFormat)) return [];
  const extra = { name: "language", type: "string", description: "The language to answer in" };
  const kept = workflow.inputFormat.filter(({ name }) => name !== extra.name);
  const there = kept.length < workflow.inputFormat.length;
  const path = `/api/workflows/${workflow.id}`;
  const edit = curl("PATCH", path, workspace, { inputFormat: there ? kept : [...kept, extra] });
  const title = there ? "Take the argument away again" : "Ask for one more argument: a breaking change";
  return [[title, `${edit} &&\n${curl("POST", `${path}/deploy`, workspace)}`]];
}

let shown = "";

/** Shows the lines that fit what the workspace holds. */
export function showLines(state) {
  const { servers, mayWrite } = state;
  const server = servers.find(({ tools }) => tools.length > 0);
  const panel = byId("try");
  panel.hidden = !mayWrite || (servers.length > 0 && !server);
  if (panel.hidden) return;
  const lines = server ? changeLines(state, server, server.tools[0]) : firstLines(state);
  byId("try-text").textContent = server
    ? "Run any of these and watch the changes move."
    : "Or make your own, step by step. Everything here is also a REST call.";
  // Left alone while nothing changes, so that a selection or the focus stays.
  const text = JSON.stringify(lines);
  if (text === shown) return;
  shown = text;
  byId("lines").replaceChildren(...lines.map(([title, command]) => line(title, command)));
}

function line(title, command) {
  const code = el("code", {}, command);
  return el("li", { class: "line" },
    el("div", { class: "line-head" }, el("span", {}, title), copyButton(title, code)),
    el("pre", {}, code));
}
