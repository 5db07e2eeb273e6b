// "Make a sample" without leaving the page, so that its change is seen to arrive.

import { byId, el } from "./dom.js";

const form = byId("sample");
let allowed = true;
let asking = false;

function enable() {
  if (form) form.querySelector("button").disabled = asking || !allowed;
}

/** Whether a sample may be asked for: not while nobody would see it arrive. */
export function allowSample(may) {
  allowed = may;
  enable();
}

/** `problem(...parts)` tells what went wrong. */
export function askForSample(problem) {
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    asking = true;
    enable();
    try {
      const reply = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      // The answer leads to this page, or to the sign-in for someone who is not signed in any more.
      if (reply.redirected && new URL(reply.url).pathname === "/sign-in") {
        problem("You are signed out, so no sample was made. ", el("a", { href: "/sign-in" }, "Sign in"));
      } else if (!reply.ok) problem(`No sample was made. ${await saidBy(reply)}`);
    } catch {
      problem("The server cannot be reached just now. Try again in a moment.");
    } finally {
      asking = false;
      enable();
    }
  });
}

/** What the page of a refusal says. */
async function saidBy(reply) {
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  return page.querySelector("p[role=alert]:not([hidden])")?.textContent ?? `The server answered ${reply.status}.`;
}
