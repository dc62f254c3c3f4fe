// The transcript in pieces, each a stretch of events. Further pieces come as one reads, and those far away are dropped, so
// that a session of any length is a light page. Pieces never overlap, so nothing is there twice.
import { localise } from "./times.js";
import { fill, parsed } from "./unfold.js";

export const transcript = document.getElementById("transcript");
const MOST_NODES = 1900;
const NEAR = 900;
const base = transcript && `/sessions/${transcript.dataset.session}`;
const at = transcript?.dataset.at || "";
const earlier = document.getElementById("earlier");
const later = document.getElementById("later");
let work = Promise.resolve();
let seenAt = 0;

const pieces = () => [...transcript.querySelectorAll(":scope > .piece")];
const of = (piece, name) => Number(piece.dataset[name]);
export const isAtEnd = () => !of(pieces().at(-1), "next");
export const head = () => of(pieces().at(-1), "head");

// One change at a time: two that overlap could put a piece in twice.
function inTurn(change) {
  work = work.then(change, change);
  return work;
}

async function fetched(query) {
  const answer = await fetch(`${base}?${new URLSearchParams({ part: "turns", ...query, ...(at && { at }) })}`, { headers: { "HX-Request": "true" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  const piece = document.adoptNode(parsed(await answer.text()).querySelector(".piece"));
  localise(piece);
  return piece;
}

// What is done to the page must not move what one reads.
function inPlace(change) {
  const still = [...transcript.querySelectorAll(".piece > .turn > *")].find((row) => row.getBoundingClientRect().bottom > 100);
  const top = still?.getBoundingClientRect().top;
  const before = scrollY;
  change();
  if (still?.isConnected) scrollBy(0, still.getBoundingClientRect().top - top);
  seenAt += scrollY - before; // Nobody scrolled so far.
}

function settle() {
  const first = pieces()[0];
  const last = pieces().at(-1);
  const link = (place, name, seq) => {
    place.hidden = !seq;
    place.querySelector("a").href = `${base}?${new URLSearchParams({ [name]: seq, ...(at && { at }) })}`;
  };
  link(earlier, "backward", of(first, "previous"));
  link(later, "after", of(last, "next"));
  const number = (seq) => seq.toLocaleString("en");
  document.getElementById("stretch").textContent = `events ${number(of(first, "first"))} to ${number(of(last, "last"))} of ${number(Number(at) || of(last, "head"))}`;
  window.htmx?.process(transcript);
  transcript.dispatchEvent(new CustomEvent("clew:changed", { bubbles: true }));
  // Whoever is at the end of what is there cannot scroll to ask for more.
  if (!later.hidden && later.getBoundingClientRect().top < innerHeight) loadLater();
}

// Drop the pieces that are farthest from what one sees, at the end that nobody reads.
function trim() {
  inPlace(() => {
    while (document.getElementsByTagName("*").length > MOST_NODES && pieces().length > 1) {
      const [first, last] = [pieces()[0], pieces().at(-1)];
      const above = -first.getBoundingClientRect().bottom;
      const below = last.getBoundingClientRect().top - innerHeight;
      if (Math.max(above, below) < 0) return;
      (above > below ? first : last).remove();
    }
  });
}

export const loadLater = () =>
  inTurn(async () => {
    const after = of(pieces().at(-1), "next");
    if (!after) return;
    transcript.append(await fetched({ after }));
    trim();
    settle();
  });

export const loadEarlier = () =>
  inTurn(async () => {
    const backward = of(pieces()[0], "previous");
    if (!backward) return;
    const piece = await fetched({ backward });
    inPlace(() => transcript.prepend(piece));
    trim();
    settle();
  });

export function rowOf(seq) {
  const found = transcript.querySelectorAll(`[id="e${seq}"], [data-returned="${seq}"]`);
  return [...found].find((row) => !row.closest(".nested"));
}

// The row of an event; the piece that has it is fetched when it is not there.
export async function bring(seq) {
  if (!rowOf(seq)) {
    await inTurn(async () => {
      const piece = await fetched({ event: seq });
      transcript.replaceChildren(piece);
      settle();
    });
  }
  return rowOf(seq);
}

export const toEnd = () =>
  inTurn(async () => {
    if (!isAtEnd()) {
      transcript.replaceChildren(await fetched({ backward: Number.MAX_SAFE_INTEGER }));
      settle();
    }
    scrollTo({ top: document.documentElement.scrollHeight });
  });

// The same piece as it is now; what was unfolded or chosen stays so, and rows that are the same stay the same elements.
function replace(old, piece) {
  for (const row of piece.querySelectorAll("[id]")) {
    const before = [...old.querySelectorAll(`[id="${row.id}"]`)].find((one) => !one.closest(".nested"));
    if (!before || before.matches(".subagent") !== row.matches(".subagent")) continue;
    if (before.matches(".subagent")) {
      row.replaceWith(before);
      continue;
    }
    row.classList.toggle("current", before.classList.contains("current"));
    if (before.open) {
      row.open = true;
      fill(row);
    }
    if (!row.querySelector("[id]") && before.isEqualNode(row)) row.replaceWith(before);
  }
  old.replaceWith(piece);
}

// Read the end again, from the last piece on; from the one before it, if a call there still waits for its return.
export const refresh = () =>
  inTurn(async () => {
    const wasAtEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 160;
    const known = pieces();
    let index = known.length - 1;
    if (index > 0 && known[index - 1].querySelector("[data-waits]")) index -= 1;
    let after = of(known[index], "first") - 1;
    for (;;) {
      const piece = await fetched({ after });
      if (known[index]) inPlace(() => replace(known[index], piece));
      else transcript.append(piece);
      index += 1;
      after = of(piece, "next");
      if (!after) break;
    }
    for (const left of known.slice(index)) left.remove();
    if (wasAtEnd) scrollTo({ top: document.documentElement.scrollHeight });
    trim();
    settle();
  });

// Reading on -----------------------------------------------------------------------------------------------------------

function read() {
  const isUp = scrollY < seenAt;
  const isDown = scrollY > seenAt;
  seenAt = scrollY;
  if (isUp && !earlier.hidden && earlier.getBoundingClientRect().bottom > -NEAR) loadEarlier();
  else if (isDown && !later.hidden && later.getBoundingClientRect().top < innerHeight + NEAR) loadLater();
}

if (transcript) {
  let due = 0;
  addEventListener("scroll", () => {
    if (!due) due = requestAnimationFrame(() => { due = 0; read(); });
  }, { passive: true });
  addEventListener("wheel", (event) => event.deltaY < 0 && !scrollY && !earlier.hidden && loadEarlier(), { passive: true });
  for (const [place, load] of [[earlier, loadEarlier], [later, loadLater]]) {
    place.querySelector("a").addEventListener("click", (event) => {
      event.preventDefault();
      load();
    });
  }
}
