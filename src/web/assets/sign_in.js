// Signing in to external servers: a window at the authorization server, and what is told of its end.

import { getBare } from "./api.js";

/** A start that takes longer is given up. */
const START_MS = 30_000;
const WORDS = {
  provider_error: "Its own sign-in refused it, or you did.",
  unauthenticated: "You are signed out here. Sign in and try again.",
  invalid_state: "It took too long, or was used already. Try again.",
  user_mismatch: "Someone else began this sign-in.",
  server_gone: "The server was deleted or changed meanwhile.",
  insecure_url: "The server's URL is not https.",
  token_exchange_failed: "Its own sign-in granted nothing. Try again.",
};

/** Sign-ins that this page began, by their state: `{ name, tell }`. */
const begun = new Map();

function hear({ data }) {
  if (data?.type !== "mcp-oauth") return;
  const known = begun.get(data.state);
  if (!known) return;
  begun.delete(data.state);
  known.tell(data.ok ? "" : `You are not signed in to ${known.name}. ${WORDS[data.reason] ?? "Try again in a moment."}`);
}

new BroadcastChannel("mcp-oauth").addEventListener("message", hear);
window.addEventListener("message", (event) => {
  if (event.origin === location.origin) hear(event);
});

/** Where people sign in: https, or this machine; with a state, by which its end is known. */
function checked(text) {
  const url = new URL(text);
  const here = url.protocol === "http:" && (["localhost", "[::1]"].includes(url.hostname) || url.hostname.startsWith("127."));
  if ((url.protocol !== "https:" && !here) || !url.searchParams.get("state")) throw new Error("not an address to sign in at");
  return url;
}

/** Opens the sign-in of a server. To be called from a click: otherwise browsers open no window. */
export async function signIn(workspace, { id, name }, tell) {
  const opened = window.open("", "_blank", "popup,width=560,height=720");
  if (!opened) {
    tell("Your browser opened no window to sign in with. Allow pop-ups of this page and try again.");
    return;
  }
  try {
    const { status, authorizationUrl } = await getBare("/api/mcp/oauth/start", { workspaceId: workspace, serverId: id }, START_MS);
    if (status !== "redirect") {
      opened.close();
      return;
    }
    const url = checked(authorizationUrl);
    begun.set(url.searchParams.get("state"), { name, tell });
    opened.location.replace(url);
  } catch (error) {
    opened.close();
    throw error;
  }
}
