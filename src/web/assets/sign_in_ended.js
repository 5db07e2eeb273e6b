// The end of a sign-in to an external server: tells the page that began it, and closes this window.

const CLOSE_MS = 800;
const told = JSON.parse(document.getElementById("ended").dataset.told);

// The authorization server may have cut the tie to the window that opened this one; the channel needs none.
new BroadcastChannel("mcp-oauth").postMessage(told);
window.opener?.postMessage(told, location.origin);
setTimeout(() => window.close(), CLOSE_MS);
