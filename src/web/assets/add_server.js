// "Add an MCP server by its URL" without leaving the page.

import { byId } from "./dom.js";
import { post } from "./forms.js";

/** Sends the form; `added()` is called when the server is registered. */
export function askForServer(added) {
  const form = byId("add-server");
  if (!form) return;
  const button = form.querySelector("button");
  const told = byId("add-told");
  const say = (kind, ...parts) => {
    told.className = kind;
    told.replaceChildren(...parts);
    told.hidden = parts.length === 0;
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    say("quiet", "Asking where it is…");
    const wrong = await post(form, {
      signedOut: "You are signed out, so nothing was added.",
      refused: "It was not added.",
    });
    button.disabled = false;
    if (wrong) {
      say("error", ...wrong);
      return;
    }
    // A secret stays no longer than it must.
    form.reset();
    say("quiet", "Added. Its tools appear as soon as it answers.");
    added();
  });
}
