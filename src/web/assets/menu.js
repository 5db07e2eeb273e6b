// The bar at the top: the switcher goes by itself, the menu closes like a menu.

for (const form of document.querySelectorAll("[data-submit-on-change]")) {
  form.querySelector("button").hidden = true;
  form.addEventListener("change", () => form.submit());
}

for (const menu of document.querySelectorAll("details.menu")) {
  const close = () => { menu.open = false; };
  document.addEventListener("click", (event) => { if (!menu.contains(event.target)) close(); });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    close();
    menu.querySelector("summary").focus();
  });
}
