// The workspace's page: reads the lists, then follows the stream from where they stand.

import "./menu.js";
import { backoff, get } from "./api.js";
import { byId } from "./dom.js";
import { Feed } from "./feed.js";
import { askForSample } from "./sample.js";
import { showServers } from "./servers.js";
import { showState } from "./state.js";
import { Stream } from "./stream.js";
import { showLines } from "./lines.js";

const home = byId("home");
const workspace = home.dataset.workspace;
const mayWrite = home.dataset.permission !== "read";
const feed = new Feed(workspace);

/** What the page shows: servers with their tools, and the workflows by id. */
let servers = [];
let workflows = new Map();

const SERVERS = "/api/mcp/workflow-servers";
const toolsOf = async ({ id }) => {
  try {
    return (await get(`${SERVERS}/${encodeURIComponent(id)}/tools`, { workspaceId: workspace })).data.tools;
  } catch (error) {
    // Deleted since the list was read; its own event follows.
    if (error.status === 404) return [];
    throw error;
  }
};

/** Reads the servers, and the tools of those in `stale` (null: of all). Returns the event id the reads stand at. */
async function readServers(stale) {
  const list = await get(SERVERS, { workspaceId: workspace });
  const known = new Map(servers.map(({ id, tools }) => [id, tools]));
  const [{ data }, ...tools] = await Promise.all([
    get("/api/workflows", { workspaceId: workspace }),
    ...list.data.servers.map((server) =>
      stale && !stale.has(server.id) && known.has(server.id) ? known.get(server.id) : toolsOf(server)),
  ]);
  workflows = new Map(data.workflows.map((workflow) => [workflow.id, workflow]));
  servers = list.data.servers.map((server, at) => ({ ...server, tools: tools[at] }));
  return list.revision;
}

function show() {
  showServers(servers);
  byId("empty").hidden = servers.length > 0;
  showLines({ workspace, email: home.dataset.email, mayWrite, servers, workflows });
}

// ---- reading again: one read at a time, and one that waits

let everything = false;
let touched = new Set();
let running = false;
let failures = 0;

/** Reads again what the server `id` touches; without an id, everything. */
async function readAgain(id) {
  if (id === undefined) everything = true;
  else touched.add(id);
  if (running) return;
  running = true;
  while (everything || touched.size) {
    const [all, some] = [everything, touched];
    [everything, touched] = [false, new Set()];
    try {
      const revision = await readServers(all ? null : some);
      if (all) await feed.load();
      show();
      problem("");
      failures = 0;
      if (all) stream.follow(revision);
    } catch (error) {
      if (error.status === 401) {
        if (first) location.assign("/sign-in");
        break;
      }
      // Nothing is forgotten: what failed is read on the next round.
      everything ||= all;
      for (const id of some) touched.add(id);
      problem(error.status === 403 ? error.message : "The server cannot be reached just now. This page goes on by itself.");
      await new Promise((resolve) => setTimeout(resolve, backoff(failures++)));
    }
    first = false;
  }
  running = false;
}

let first = true;

/** Tells it on top of the page; nothing, or "", takes it away. */
function problem(...parts) {
  const line = byId("problem");
  const told = document.createElement("p");
  told.append(...parts);
  // Left alone while it stays, so that it is not read out again.
  if (line.innerHTML === told.innerHTML) return;
  line.replaceChildren(...told.childNodes);
  line.hidden = line.textContent === "";
}

// ---- the stream

const stream = new Stream({
  workspace,
  user: home.dataset.user,
  onState: showState,
  onGap: () => readAgain(),
  onResync() {
    feed.restart();
    readAgain();
  },
  onChange(change, isNext) {
    // A frame that stands for several revisions, or leaves names out, is better read from the history.
    if (isNext && !change.more) {
      feed.prepend(change);
      readAgain(change.serverId);
    } else readAgain();
  },
});

askForSample(problem);
readAgain();
