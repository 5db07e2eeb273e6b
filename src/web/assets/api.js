// Calls of the REST API.

/** An answer that is not 2xx. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const DEADLINE_MS = 15_000;

async function ask(path, params, deadline) {
  const query = new URLSearchParams(params);
  const reply = await fetch(`${path}?${query}`, {
    cache: "no-store",
    credentials: "same-origin",
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(deadline),
  });
  const body = await reply.json().catch(() => null);
  if (!reply.ok || !body) throw new Refused(reply.status, body?.error ?? `The server answered ${reply.status}.`);
  return { body, reply };
}

/**
 * GETs a route. `revision` is the event id the answer stands at (`X-Toolcast-Revision`), null where the route has none.
 * Throws `Refused` for a refusal, and another error when nothing came back.
 */
export async function get(path, params = {}) {
  const { body, reply } = await ask(path, params, DEADLINE_MS);
  return { data: body.data, revision: reply.headers.get("x-toolcast-revision") };
}

/** GETs a route whose answer has no envelope. Throws as `get` does. */
export async function getBare(path, params, deadline) {
  return (await ask(path, params, deadline)).body;
}

/** A command may take as long as a first connect with all its tries. */
const COMMAND_MS = 75_000;

/** Sends `body` as JSON. Gives the answer's data; throws as `get` does. */
export async function send(method, path, body) {
  const reply = await fetch(path, {
    method,
    credentials: "same-origin",
    headers: { accept: "application/json", "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(COMMAND_MS),
  });
  const answer = await reply.json().catch(() => null);
  if (!reply.ok || !answer) throw new Refused(reply.status, answer?.error ?? `The server answered ${reply.status}.`);
  return answer.data;
}

/** Milliseconds to wait before try number `attempt` (0 is the first): full jitter, from 1 s up to at most 30 s. */
export function backoff(attempt) {
  const most = Math.min(30_000, 1_000 * 2 ** Math.min(attempt, 6));
  return 500 + Math.random() * most;
}
