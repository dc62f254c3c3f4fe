// Parts of a page that change by themselves: fetched again when the server says that something changed, and put in place.
// Some change with the time alone, so they are fetched now and then as well, and often while there is no stream.
import { localise } from "./times.js";

const EVERY = 4000;
const WITH_STREAM = 20_000;
// A store that is written to all the time is asked about once a second, and less often where that takes long.
const LEAST = 1000;
const LONGEST_WAIT = 15_000;
const parts = () => [...document.querySelectorAll("[data-live]")];
// What htmx puts in place by itself, once it is told.
const swaps = () => [...document.querySelectorAll("[hx-trigger~=stale]")];

let source = null;
let due = 0;
let isLooking = false;
let lookedAt = 0;
let took = 0;
let wait = LEAST;

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
  if (document.hidden || document.querySelector("dialog[open]")) return;
  for (const part of swaps()) part.dispatchEvent(new CustomEvent("stale"));
  if (!parts().length) return;
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

// Look soon, and again after that; never twice at once.
function soon(delay) {
  if (due && delay > 0) return;
  clearTimeout(due);
  due = setTimeout(async () => {
    due = 0;
    if (isLooking) return soon(LEAST);
    isLooking = true;
    lookedAt = performance.now();
    try {
      await look();
    } finally {
      isLooking = false;
      took = performance.now() - lookedAt;
    }
  }, delay);
}

const isFollowing = () => source?.readyState === EventSource.OPEN;

function listen() {
  source?.close();
  source = new EventSource("/v1/stream?only=changes");
  source.onopen = () => { wait = LEAST; };
  source.onmessage = () => soon(Math.max(100, lookedAt + Math.max(LEAST, 4 * took) - performance.now()));
  // A browser tries again by itself after most failures, but not after an answer that is no stream.
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED || document.hidden) return;
    setTimeout(listen, wait);
    wait = Math.min(LONGEST_WAIT, wait * 2);
  };
  source.addEventListener("problem", () => source.close());
}

if (parts().length || swaps().length) {
  setInterval(() => performance.now() - lookedAt > (isFollowing() ? WITH_STREAM : EVERY) - 100 && soon(0), EVERY);
  // A browser holds few connections to one server, so a tab that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else {
      listen();
      soon(0);
    }
  });
  listen();
}
