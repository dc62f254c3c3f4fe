// Keys: / searches, Ctrl-K opens the palette, j and k move, Enter opens, n, p and e go through a session, g and a letter changes the page.
import { openPalette } from "./palette.js";

const find = document.getElementById("find");
const places = { h: "/", s: "/sessions", f: "/files", t: "/timeline", u: "/usage", a: "/agents" };
let current = null;
let isGoing = false;

function step(selector, direction) {
  const rows = [...document.querySelectorAll(selector)].filter((row) => row.checkVisibility());
  if (!rows.length) return;
  let index = rows.indexOf(current);
  if (index < 0) {
    const top = current ? current.getBoundingClientRect().top : 60;
    const after = rows.findIndex((row) => row.getBoundingClientRect().top > top + 1);
    index = direction > 0 ? (after < 0 ? rows.length : after) - 1 : after < 0 ? rows.length : after;
  }
  const next = rows[Math.min(rows.length - 1, Math.max(0, index + direction))];
  current?.classList.remove("current");
  current = next;
  next.classList.add("current");
  next.scrollIntoView({ block: "nearest" });
  (next.querySelector("summary, a[href]") || next).focus({ preventScroll: true });
}

const actions = {
  "/": () => find?.focus(),
  "?": () => document.getElementById("keys")?.showModal(),
  j: () => step("[data-row]", 1),
  k: () => step("[data-row]", -1),
  n: () => step("[data-prompt]", 1),
  p: () => step("[data-prompt]", -1),
  e: () => step("[data-error]", 1),
  x: () => current?.querySelector(".pick input")?.click(),
};

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k" && find) {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (isGoing) {
    isGoing = false;
    if (places[event.key]) location.assign(places[event.key]);
  } else if (event.key === "g") {
    isGoing = true;
  } else if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
});

// A link to an event opens what it is in.
function open(id) {
  const target = id && document.getElementById(id);
  for (let folded = target?.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
  if (!target) return;
  current = target.closest("[data-row]");
  target.scrollIntoView({ block: "center" });
}
addEventListener("hashchange", () => open(location.hash.slice(1)));
const asked = document.getElementById("transcript")?.dataset.asked;
if (location.hash || asked) open(location.hash.slice(1) || `e${asked}`);
