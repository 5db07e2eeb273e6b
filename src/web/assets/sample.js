// "Make a sample" without leaving the page, so that its change is seen to arrive.

import { byId } from "./dom.js";
import { post } from "./forms.js";

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
    const told = await post(form, {
      signedOut: "You are signed out, so no sample was made.",
      refused: "No sample was made.",
    });
    if (told) problem(...told);
    asking = false;
    enable();
  });
}
