// Parts of a page that change by themselves: fetched again every few seconds while somebody looks, and put in place.
import { localise } from "./times.js";

const EVERY = 4000;
const parts = () => [...document.querySelectorAll("[data-live]")];

// Rows that are the same stay, with what is chosen in them and where the keys are; pages that came later stay below.
function mergeRows(old, fresh) {
  const known = new Set([...fresh.children].map((row) => row.id));
  const first = old.children.length - fresh.children.length;
  for (const row of [...old.children]) if (row.id && !known.has(row.id) && first <= 0) row.remove();
  let place = old.firstElementChild;
  for (const row of [...fresh.children]) {
    const same = row.id ? document.getElementById(row.id) : null;
    if (!same && !row.id) continue;
    if (same) {
      row.classList.toggle("current", same.classList.contains("current"));
      const box = same.querySelector(".pick input");
      if (box) row.querySelector(".pick input").checked = box.checked;
    }
    const holdsFocus = same?.contains(document.activeElement);
    if (same && (holdsFocus || same.isEqualNode(row))) {
      if (same !== place) old.insertBefore(same, place);
      else place = place.nextElementSibling;
      continue;
    }
    old.insertBefore(document.adoptNode(row), place);
    if (same === place) place = place.nextElementSibling;
    same?.remove();
  }
}

async function look() {
  if (document.hidden || document.querySelector("dialog[open]") || !parts().length) return;
  let answer;
  try {
    answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return; // The server is away; the next look finds it again.
  }
  if (!answer.ok || answer.redirected) return;
  const made = new DOMParser().parseFromString(await answer.text(), "text/html");
  localise(made);
  for (const part of parts()) {
    const fresh = made.getElementById(part.id);
    // The first session has come into an empty store: another page has taken the place of this one.
    if (!fresh && part.id === "begin") return location.reload();
    if (!fresh) continue;
    if (part.matches("tbody")) mergeRows(part, fresh);
    else if (!part.isEqualNode(fresh) && !part.contains(document.activeElement)) part.replaceWith(document.adoptNode(fresh));
  }
  window.htmx?.process(document.body);
}

if (parts().length) {
  setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
}
