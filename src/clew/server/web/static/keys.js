// Keys: / searches, Ctrl-K opens the palette, j and k move, Enter opens, x chooses; in a session n, e, w and d go to the next
// prompt, error, edit and decision, with Shift to the one before; g and a letter changes the page.
import { openPalette } from "./palette.js";
import { choose, chosen, jump, otherSession } from "./reading.js";
import { toEnd, transcript } from "./transcript.js";

const find = document.getElementById("find");
const places = { h: "/", s: "/sessions", f: "/files", t: "/timeline", u: "/usage", a: "/agents" };
let isGoing = false;

function step(direction) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
  if (!rows.length) return;
  const current = chosen();
  let index = rows.indexOf(current);
  if (index < 0) {
    const top = current ? current.getBoundingClientRect().top : 60;
    const after = rows.findIndex((row) => row.getBoundingClientRect().top > top + 1);
    index = direction > 0 ? (after < 0 ? rows.length : after) - 1 : after < 0 ? rows.length : after;
  }
  choose(rows[Math.min(rows.length - 1, Math.max(0, index + direction))]);
}

const actions = {
  "/": () => find?.focus(),
  "?": () => document.getElementById("keys")?.showModal(),
  j: () => step(1),
  k: () => step(-1),
  x: () => chosen()?.querySelector(".pick input")?.click(),
};
const jumps = { n: ["prompt", 1], p: ["prompt", -1], e: ["error", 1], w: ["edit", 1], d: ["decision", 1] };
if (transcript) {
  for (const [key, [type, direction]] of Object.entries(jumps)) {
    actions[key] = () => jump(type, direction);
    if (key !== "n" && key !== "p") actions[key.toUpperCase()] = () => jump(type, -direction);
  }
  actions.f = () => document.getElementById("within").focus();
  actions.G = toEnd;
  actions["["] = () => otherSession(-1);
  actions["]"] = () => otherSession(1);
}

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
