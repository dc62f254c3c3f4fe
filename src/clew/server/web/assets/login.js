// The link's secret is behind the #, which a browser never sends: it is posted, and then taken out of the address.
"use strict";
const told = document.getElementById("told");
const form = document.getElementById("login");
async function enter(token) {
  told.textContent = "One moment …";
  const answer = await fetch("/login", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
  });
  if (answer.ok) location.replace("/");
  else told.textContent = (await answer.json()).detail;
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  enter(form.elements.token.value.trim().split("#").pop());
});
if (location.hash.length > 1) {
  const token = location.hash.slice(1);
  history.replaceState(null, "", "/login");
  enter(token);
}
