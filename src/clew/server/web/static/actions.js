// Actions in a dialog of the page where they were asked for. Without this script each of them is a page of its own.
import { localise } from "./times.js";
import { sayIn } from "./controls.js";

const dialog = document.getElementById("act");
const FRAGMENT = { "HX-Request": "true", Accept: "text/html" };

// The words of what was chosen last, to which the focus returns.
let chosen = "";

const parsed = (text) => new DOMParser().parseFromString(text, "text/html");

function show(made) {
  dialog.replaceChildren(...[...made.body.childNodes].map((node) => document.adoptNode(node)));
  localise(dialog);
  for (const copy of dialog.querySelectorAll("[data-copies]")) copy.hidden = false;
  if (!dialog.open) dialog.showModal();
  (dialog.querySelector(".problem") ? dialog.querySelector("input:not([type=hidden]), textarea, select, button") :
    dialog.querySelector("input:not([type=hidden]), textarea, select, .go, [data-closes], [data-refreshes]"))?.focus();
}

// The focus goes back to what was chosen; where that is in a menu that closed, or is gone, to the menu.
function refocus() {
  if (document.activeElement && document.activeElement !== document.body) return;
  const all = [...document.querySelectorAll("[data-fresh] :is(a[href], button, summary), [data-asks]")];
  const same = all.find((one) => one.textContent.trim() === chosen && one.checkVisibility());
  (same || document.querySelector(".more-actions summary"))?.focus({ preventScroll: true });
}

// What a page shows of its subject is fetched again and put in place, so that nobody loses where they were reading.
async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok || answer.redirected) return location.reload();
  const made = parsed(await answer.text());
  localise(made);
  for (const part of document.querySelectorAll("[data-fresh]")) {
    const fresh = made.getElementById(part.id);
    // Whoever opened the menu meanwhile is choosing in it.
    const menu = part.querySelector(".more-actions[open]") && fresh?.querySelector(".more-actions");
    if (menu) menu.open = true;
    if (fresh) part.replaceWith(document.adoptNode(fresh));
    else part.remove();
  }
  window.htmx?.process(document.body);
  refocus();
  sayIn(made);
}

function arrive(address, isAnew = false) {
  const next = new URL(address, location.href);
  if (isAnew) location.replace(next);
  else if (next.pathname === location.pathname && document.querySelector("[data-fresh]")) refresh();
  else location.assign(next);
}

async function take(answer, address) {
  if (answer.redirected) return location.assign(address);
  const made = parsed(await answer.text());
  const next = made.querySelector("[data-next]");
  if (!next) return show(made);
  dialog.close();
  arrive(next.getAttribute("href"), "anew" in next.dataset);
}

dialog.addEventListener("close", () => {
  dialog.replaceChildren();
  refocus();
});

function closeMenus(but) {
  for (const menu of document.querySelectorAll(".more-actions[open]")) if (!menu.contains(but)) menu.open = false;
}

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.(".more-actions[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

document.addEventListener("click", async (event) => {
  closeMenus(event.target);
  const link = event.target.closest("a");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (dialog.contains(link) && ("closes" in link.dataset || "refreshes" in link.dataset)) {
    event.preventDefault();
    dialog.close();
    if ("refreshes" in link.dataset) arrive(link.href);
  } else if ("asks" in link.dataset) {
    event.preventDefault();
    chosen = link.textContent.trim();
    closeMenus(document.body);
    try {
      await take(await fetch(link.href, { headers: FRAGMENT }), link.href);
    } catch {
      location.assign(link.href);
    }
  }
});

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-act]");
  if (!form) return;
  event.preventDefault();
  if (!dialog.contains(form)) chosen = event.submitter?.textContent.trim() || "";
  const buttons = [...form.querySelectorAll("button")];
  const body = new URLSearchParams(new FormData(form, event.submitter));
  for (const button of buttons) button.disabled = true;
  try {
    await take(await fetch(form.action, { method: "POST", headers: FRAGMENT, body }), form.action);
  } catch {
    const problem = form.querySelector(".problem") || document.createElement("p");
    problem.className = "problem";
    problem.setAttribute("role", "alert");
    problem.textContent = "The server did not answer. What you wrote is still here; send it again.";
    form.querySelector(".buttons")?.before(problem);
  }
  for (const button of buttons) button.disabled = false;
});
