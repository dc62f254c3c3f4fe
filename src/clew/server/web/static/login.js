// The link's secret is behind the #, which a browser never sends: it is posted, and then taken out of the address.
const told = document.getElementById("told");
const form = document.getElementById("login");
async function enter(token, replace) {
  told.textContent = "One moment …";
  const answer = await fetch("/login", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token, replace }),
  });
  if (answer.ok) location.replace("/");
  else if (answer.status === 409) ask(token, (await answer.json()).detail);
  else told.textContent = (await answer.json()).detail;
}
// A link from somebody else must not change, unseen, who this browser is logged in as.
function ask(token, detail) {
  const change = document.createElement("button");
  change.textContent = "Log in as somebody else";
  change.addEventListener("click", () => enter(token, true));
  told.textContent = `${detail} `;
  told.append(change);
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  enter(form.elements.token.value.trim().split("#").pop(), false);
});
if (location.hash.length > 1) {
  const token = location.hash.slice(1);
  history.replaceState(null, "", "/login");
  enter(token, false);
}
