// "Make a sample" without leaving the page, so that its change is seen to arrive.

import { byId } from "./dom.js";

/** `problem(text)` tells what went wrong. */
export function askForSample(problem) {
  const form = byId("sample");
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      // The answer is a redirect to the page we are on: seen, not followed.
      const reply = await fetch(form.action, {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        redirect: "manual",
      });
      if (reply.type !== "opaqueredirect") problem("The sample could not be made. Reload the page and try again.");
    } catch {
      problem("The server cannot be reached just now. Try again in a moment.");
    } finally {
      button.disabled = false;
    }
  });
}
