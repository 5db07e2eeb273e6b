// The workspace's page: reads the lists, then follows the stream from where they stand.

import "./menu.js";
import { askForServer } from "./add_server.js";
import { backoff, get } from "./api.js";
import { byId } from "./dom.js";
import { ExternalServers } from "./external.js";
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

/** What the page shows: workflow servers and external servers with their tools, and the workflows by id. */
let servers = [];
let external = [];
let workflows = new Map();

const SERVERS = "/api/mcp/workflow-servers";
const EXTERNAL = "/api/mcp/servers";

/** The tools of each server of `list` that is in `stale` (null: of all), and those known before of the others. */
function toolsOf(path, list, before, stale) {
  const known = new Map(before.map(({ id, tools }) => [id, tools]));
  return Promise.all(list.map(async ({ id, toolCount }) => {
    if (toolCount === 0) return [];
    if (stale && !stale.has(id) && known.get(id)?.length) return known.get(id);
    try {
      return (await get(`${path}/${encodeURIComponent(id)}/tools`, { workspaceId: workspace })).data.tools;
    } catch (error) {
      // Deleted since the list was read; its own event follows.
      if (error.status === 404) return [];
      throw error;
    }
  }));
}

/** Reads the servers, and the tools of those in `stale` (null: of all). Returns the event id the reads stand at. */
async function readServers(stale) {
  const list = await get(SERVERS, { workspaceId: workspace });
  const [{ data: others }, { data: flows }, tools] = await Promise.all([
    get(EXTERNAL, { workspaceId: workspace }),
    get("/api/workflows", { workspaceId: workspace }),
    toolsOf(SERVERS, list.data.servers, servers, stale),
  ]);
  const otherTools = await toolsOf(EXTERNAL, others.servers, external, stale);
  workflows = new Map(flows.workflows.map((workflow) => [workflow.id, workflow]));
  servers = list.data.servers.map((server, at) => ({ ...server, tools: tools[at] }));
  external = others.servers.map((server, at) => ({ ...server, tools: otherTools[at] }));
  return list.revision;
}

function show() {
  showServers(servers, external, workspace);
  sessions.show(external);
  byId("empty").hidden = servers.length + external.length > 0;
  showLines({ workspace, email: home.dataset.email, mayWrite, servers, workflows });
}

// ---- reading again: one read at a time, and one that waits

let everything = false;
let touched = new Set();
let running = false;
let failures = 0;

/** Reads again what the server `id` touches; the lists alone for null; without an id, everything. */
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

// ---- external servers

const sessions = new ExternalServers({ workspace, permission: home.dataset.permission, problem });

/** A session that comes and goes has the lists read now and then, not each time. */
const CALM_MS = 500;
let soon = 0;
function readSoon() {
  if (soon) return;
  soon = setTimeout(() => {
    soon = 0;
    readAgain(null);
  }, CALM_MS);
}

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
  onConnection: (frame) => sessions.hear(frame) || readSoon(),
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
askForServer(() => readAgain(null));
readAgain();
