// Copying: a button that does it, and says whether it did.

import { byId, el } from "./dom.js";

const SAID_MS = 2_000;

/** A button that copies what stands in `element`; `title` says what that is. */
export function copyButton(title, element) {
  const button = el("button", { type: "button", "aria-label": `Copy: ${title}` }, "Copy");
  let back = 0;
  button.addEventListener("click", async () => {
    const done = await copy(element);
    byId("copied").textContent = done ? `Copied: ${title}` : `Selected, for you to copy: ${title}`;
    button.textContent = done ? "Copied" : "Selected";
    clearTimeout(back);
    back = setTimeout(() => {
      button.textContent = "Copy";
      // So that the same words are read out again the next time.
      byId("copied").textContent = "";
    }, SAID_MS);
  });
  return button;
}

/** Copies the text of `element`. False when the browser does not let us: then the text is selected. */
async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    // Plain http from another machine has no clipboard; this older way works there, too.
    getSelection().selectAllChildren(element);
    return document.execCommand("copy");
  }
}
