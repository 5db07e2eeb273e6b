// Sends a form without leaving the page, so that what it changes is seen to arrive.

import { el } from "./dom.js";

/** Posts `form` as the browser would. Resolves to null when it was done, else to what to tell, as parts of a sentence. */
export async function post(form, { signedOut, refused }) {
  try {
    const reply = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    // The answer leads to this page, or to the sign-in for someone who is not signed in any more.
    if (reply.redirected && new URL(reply.url).pathname === "/sign-in") {
      return [`${signedOut} `, el("a", { href: "/sign-in" }, "Sign in")];
    }
    return reply.ok ? null : [`${refused} ${await saidBy(reply)}`];
  } catch {
    return ["The server cannot be reached just now. Try again in a moment."];
  }
}

/** What the page of a refusal says. */
async function saidBy(reply) {
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  return page.querySelector("p[role=alert]:not([hidden])")?.textContent ?? `The server answered ${reply.status}.`;
}
