// One event stream per browser and workspace, shared by its tabs.
//
// The tab that holds the Web Lock leads: it alone has an EventSource, and passes every frame on to the others over a
// BroadcastChannel. When it goes, the browser hands the lock to the next tab, which resumes from the last event id it
// has seen itself, so nothing is lost between two leaders; what the others get twice they skip by its revision.
//
// A tab listens to the channel before it reads its lists, and asks for the lock after: a frame passed on before it
// listened speaks of something its read already shows.

import { backoff, get } from "./api.js";

/** Ends that a person has to do something about; any other `closing` heals by itself. */
const FINAL = new Set([
  "signed_out", "expired", "password_changed", "access_removed", "workspace_deleted", "user_deleted", "key_revoked",
  "session_ended",
]);

/** How often a leader makes sure that its stream is not silently dead (a half-open connection tells nobody). */
const CHECK_MS = 60_000;
/** How long a change may take from the database to the stream before the stream counts as dead. */
const LATE_MS = 5_000;

/** How long the channel may take to tell the other tabs. */
const HEARD_MS = 250;
/** How long a place may take before this tab says that it waits for one. */
const WAITING_MS = 500;

/**
 * A browser keeps six connections to a server (HTTP/1.1). Each workspace that is open in some tab takes one for its
 * stream; with these many at most, some are left for everything else.
 */
const PLACES = ["toolcast:place:1", "toolcast:place:2", "toolcast:place:3", "toolcast:place:4"];

/** Runs `work` once a place is free, and keeps the place until the promise it returns is settled. */
function takePlace(work) {
  const rest = new AbortController();
  let taken = false;
  for (const place of PLACES) {
    navigator.locks.request(place, { signal: rest.signal }, () => {
      if (taken) return undefined;
      taken = true;
      rest.abort();
      return work();
    }).catch((error) => {
      if (error.name !== "AbortError") throw error;
    });
  }
}

const revisionOf = (id) => Number(id.slice(id.lastIndexOf("-") + 1));

export class Stream {
  #workspace;
  #user;
  #on;
  #name;
  #channel;
  /** The newest place seen, `{ id, revision }`; null until the lists were read. */
  #seen = null;
  /** Frames that came before the lists were read. */
  #early = [];
  #source = null;
  #attempt = 0;
  /** Whether a stream of this tab was ever open. */
  #opened = false;
  #timer = 0;
  #state = { state: "connecting" };
  /** Gives the lock back; null while this tab does not lead. */
  #resign = null;
  #queued = false;

  /**
   * `onChange(data, isNext)`: a tools_changed frame; `isNext` is false when it stands for more than one revision.
   * `onGap()`: read everything again. `onResync()`: the same, and what is shown may be of another history.
   * `onConnection(data)`: a connection frame. It has no place in the feed; each new stream begins with all states.
   * `onState({ state, reason })`: waiting, connecting, live, reconnecting or closed.
   */
  constructor({ workspace, user, onChange, onConnection, onGap, onResync, onState }) {
    this.#workspace = workspace;
    this.#user = user;
    this.#on = { change: onChange, connection: onConnection, gap: onGap, resync: onResync, state: onState };
    this.#name = `toolcast:${user}:${workspace}`;
    this.#channel = new BroadcastChannel(this.#name);
    this.#channel.onmessage = ({ data }) => this.#hear(data);
  }

  /** The lists were read as of the event id `id`: go on from there. Later calls only ever move forward. */
  follow(id) {
    const first = this.#seen === null;
    if (!first && revisionOf(id) <= this.#seen.revision) return;
    this.#seen = { id, revision: revisionOf(id) };
    if (!first) return;
    for (const frame of this.#early.splice(0)) this.#take(frame);
    this.#channel.postMessage({ hello: true });
    this.#queue();
    setInterval(() => this.#check(), CHECK_MS);
    addEventListener("online", () => this.#check());
    addEventListener("offline", () => this.#source && this.#become({ state: "reconnecting", reason: "offline" }));
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#check());
  }

  // ---- every tab

  #hear({ frame, state, hello }) {
    if (frame) this.#take(frame);
    if (state && !this.#resign) this.#show(state);
    if (hello && this.#resign) this.#channel.postMessage({ state: this.#state });
  }

  #show(state) {
    const woken = this.#state.state === "closed" && state.state === "live";
    this.#state = state;
    this.#on.state(state);
    if (!woken || !this.#seen) return;
    // Someone signed in again in another tab: this one may follow, and missed what happened meanwhile.
    this.#queue();
    this.#on.gap();
  }

  #take(frame) {
    if (this.#seen === null) {
      this.#early.push(frame);
      return;
    }
    const { type, data, id, after } = frame;
    if (type === "connection") {
      this.#on.connection(data);
      return;
    }
    if (type === "resync") {
      this.#seen = { id: id || this.#seen.id, revision: data.revision };
      this.#on.resync();
      return;
    }
    const { revision } = this.#seen;
    if (data.revision <= revision) return;
    this.#seen = { id: id || this.#seen.id, revision: data.revision };
    // The leader had seen more than this tab: a frame never arrived here.
    if (after > revision) this.#on.gap();
    else this.#on.change(data, data.revision === revision + 1);
  }

  // ---- the leader

  #queue() {
    if (this.#queued) return;
    this.#queued = true;
    if (!navigator.locks) {
      // Only on plain http from another machine: then each visible tab has a stream of its own.
      this.#leadWhileVisible();
      return;
    }
    navigator.locks.request(this.#name, () => new Promise((resign) => {
      if (this.#state.state === "closed") {
        this.#queued = false;
        resign();
        return;
      }
      this.#resign = resign;
      const late = setTimeout(() => this.#become({ state: "waiting" }), WAITING_MS);
      takePlace(() => {
        clearTimeout(late);
        this.#connect();
        return new Promise((leave) => {
          this.#resign = () => {
            leave();
            resign();
          };
        });
      });
    }));
  }

  #leadWhileVisible() {
    const follow = () => {
      clearTimeout(this.#timer);
      this.#source?.close();
      this.#source = null;
      this.#resign = null;
      if (this.#state.state === "closed") return;
      if (document.visibilityState !== "visible") return;
      this.#resign = () => document.removeEventListener("visibilitychange", follow);
      this.#connect();
    };
    document.addEventListener("visibilitychange", follow);
    follow();
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#become(this.#opened ? { state: "reconnecting", reason: this.#state.reason } : { state: "connecting" });
    const query = new URLSearchParams({ workspaceId: this.#workspace, lastEventId: this.#seen.id });
    const source = new EventSource(`/api/mcp/events?${query}`);
    this.#source = source;
    source.onopen = () => {
      this.#attempt = 0;
      this.#opened = true;
      this.#become({ state: "live" });
    };
    source.onerror = () => {
      this.#become({ state: "reconnecting", reason: this.#state.reason });
      // Closed for good by an answer that was not 200; otherwise the browser tries again by itself.
      if (source.readyState === EventSource.CLOSED) this.#recreate();
    };
    for (const type of ["tools_changed", "connection", "resync"]) {
      source.addEventListener(type, (event) => {
        const frame = { type, id: event.lastEventId, data: JSON.parse(event.data), after: this.#seen.revision };
        this.#channel.postMessage({ frame });
        this.#take(frame);
      });
    }
    source.addEventListener("closing", (event) => {
      const { reason } = JSON.parse(event.data);
      if (FINAL.has(reason)) this.#end(reason);
      else this.#become({ state: "reconnecting", reason });
    });
  }

  async #recreate() {
    const source = this.#source;
    const wait = backoff(this.#attempt++);
    const reason = await this.#whyRefused();
    if (source !== this.#source) return;
    if (reason) this.#end(reason);
    else this.#timer = setTimeout(() => this.#connect(), wait);
  }

  /** An EventSource does not say why it was turned away. Null: for no lasting reason. */
  async #whyRefused() {
    try {
      const { data } = await get("/api/auth/session");
      if (data.user.id !== this.#user) return "signed_out";
      return data.workspaces.some(({ id }) => id === this.#workspace) ? null : "access_removed";
    } catch (error) {
      return error.status === 401 ? "signed_out" : null;
    }
  }

  #become(state) {
    this.#state = state;
    this.#on.state(state);
    this.#channel.postMessage({ state });
  }

  #end(reason) {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.#become({ state: "closed", reason });
    const resign = this.#resign;
    this.#resign = null;
    this.#queued = false;
    // The others hear of the end before one of them is given the lock.
    setTimeout(() => resign?.(), HEARD_MS);
  }

  /** Connects anew when the feed has moved on and the stream has not told, or the server cannot be reached. */
  async #check() {
    const source = this.#source;
    if (source?.readyState !== EventSource.OPEN) return;
    let newest;
    try {
      const { data } = await get("/api/mcp/changes", { workspaceId: this.#workspace, limit: 1 });
      newest = data.changes[0]?.revision ?? 0;
    } catch {
      newest = Infinity;
    }
    if (newest <= this.#seen.revision) return;
    const late = () => source === this.#source && newest > this.#seen.revision;
    setTimeout(() => late() && this.#connect(), newest === Infinity ? 0 : LATE_MS);
  }
}
