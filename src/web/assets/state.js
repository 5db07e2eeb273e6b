// Whether the page is live, in words; and what it says where nothing is, once nothing can come any more.

import { byId, el } from "./dom.js";
import { allowSample } from "./sample.js";

const SAID = {
  shutdown: "Reconnecting, the server restarts…",
  unavailable: "Reconnecting, its database is away…",
  full: "Waiting, the server is full…",
  offline: "Offline, reconnecting…",
  signed_out: "Closed: signed out",
  expired: "Closed: the session expired",
  password_changed: "Closed: the password was changed",
  access_removed: "Closed: no access to this workspace any more",
  workspace_deleted: "Closed: the workspace was deleted",
  user_deleted: "Closed: the account was deleted",
};
const STATES = {
  waiting: "Waiting: too many workspaces are open in this browser",
  connecting: "Connecting…",
  live: "Live",
  reconnecting: "Reconnecting…",
  closed: "Closed",
};
/** Why nothing more is shown, and what to do. */
const ENDED = {
  signed_out: "You are signed out here. Sign in to see what happens.",
  expired: "Your session expired. Sign in to see what happens.",
  password_changed: "Your password was changed, which signed you out here. Sign in to see what happens.",
  access_removed: "You may not see this workspace any more. Ask one of its admins to add you again.",
  workspace_deleted: "This workspace was deleted, with everything in it.",
  user_deleted: "Your account was deleted. Ask an admin if that was a mistake.",
};

/** Lines that promise something, and what they promise. */
const promises = new Map(["empty-text", "feed-empty"].map((id) => [byId(id), byId(id).textContent]));

/** Shows the stream's state: see `onState` of `Stream`. */
export function showState({ state, reason }) {
  const closed = state === "closed";
  allowSample(!closed);
  for (const [line, promise] of promises) {
    line.textContent = closed ? ENDED[reason] ?? "Nothing more comes here. Reload the page to go on." : promise;
  }
  byId("state").dataset.state = state;
  const text = state === "live" ? STATES.live : SAID[reason] ?? STATES[state];
  const line = byId("state-text");
  if (line.textContent === text) return;
  line.textContent = text;
  if (!closed) return;
  const elsewhere = reason === "access_removed" || reason === "workspace_deleted";
  line.append(". ", el("a", { href: "/" }, elsewhere ? "Other workspaces" : "Sign in"));
}
