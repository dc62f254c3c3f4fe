// Getting about in a session: to an event, to the next error, edit, decision or prompt, by map, search and slider.
import { say } from "./controls.js";
import { bring, head, rowOf, transcript } from "./transcript.js";
import { localise } from "./times.js";
import { parsed } from "./unfold.js";

const base = transcript && `/sessions/${transcript.dataset.session}`;
const at = transcript?.dataset.at || "";
let current = null;
let marks = null;

export const chosen = () => (current?.isConnected ? current : null);

export function choose(row, { block = "nearest" } = {}) {
  document.querySelector(".current")?.classList.remove("current");
  current = row;
  row.classList.add("current");
  row.scrollIntoView({ block });
  const focus = row.matches("[tabindex]") ? row : row.querySelector("summary, a[href]") || row;
  focus.focus({ preventScroll: true });
}

function unfold(row) {
  for (let folded = row.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
}

export async function show(seq, { unfolds = true } = {}) {
  const row = await bring(seq);
  if (!row) return;
  unfold(unfolds ? row : row.parentElement);
  choose(row.closest("[data-row]") || row, { block: "center" });
  keep("event", seq);
  draw();
}

// Without this, whoever loads the page again or sends its address would lose the place.
function keep(name, value) {
  const address = new URL(location.href);
  for (const page of ["after", "backward", "event"]) if (name === "event") address.searchParams.delete(page);
  address.searchParams.set(name, value);
  address.hash = "";
  history.replaceState(null, "", address);
}

// Where one is: the rows at both ends of the window.
function seqAt(y) {
  const rows = [...transcript.querySelectorAll(".piece [id^='e']")].filter((row) => !row.closest(".nested"));
  const row = rows.find((one) => one.getBoundingClientRect().bottom > y) || rows.at(-1);
  return row ? Number(row.id.slice(1)) : 1;
}

function place() {
  const row = chosen();
  const seq = row && Number((row.id || row.querySelector("[id]")?.id || "").slice(1));
  const box = row?.getBoundingClientRect();
  return seq && box.bottom > 0 && box.top < innerHeight ? seq : seqAt(90);
}

export function draw() {
  for (const link of document.querySelectorAll("#map [data-jump][hidden]")) link.hidden = false;
  const here = document.querySelector("#map .here");
  if (!here) return;
  const first = seqAt(60);
  const x = (1000 * (first - 1)) / head();
  here.setAttribute("x", x);
  here.setAttribute("width", Math.max(4, (1000 * seqAt(innerHeight - 60)) / head() - x));
}

async function landmarks() {
  marks ??= fetch(`/v1${base}/landmarks${at ? `?upto=${at}` : ""}`).then((answer) => answer.json());
  return (await marks).landmarks;
}

// The next thing of a type from where one is, or the one before; wherever in the session it is.
export async function jump(type, direction) {
  const from = place();
  const found = (await landmarks()).filter((mark) => mark.type === type).map((mark) => mark.seq);
  const next = direction > 0 ? found.find((seq) => seq > from) : found.findLast((seq) => seq < from);
  if (next) await show(next, { unfolds: false });
  else say(`No ${type} ${direction > 0 ? "after" : "before"} this`);
}

function watchMap() {
  let due = 0;
  const soon = () => {
    if (!due) due = requestAnimationFrame(() => { due = 0; draw(); });
  };
  addEventListener("scroll", soon, { passive: true });
  addEventListener("resize", soon);
  soon();
  let late = 0;
  transcript.addEventListener("clew:changed", () => {
    soon();
    // The map and the tab grow with the session, but not with each event.
    if (at || head() === Number(document.getElementById("map").dataset.head)) return;
    clearTimeout(late);
    late = setTimeout(async () => {
      marks = null;
      const query = new URLSearchParams({ part: "map", event: place() });
      const answer = await fetch(`${base}?${query}`, { headers: { "HX-Request": "true" } });
      if (!answer.ok) return;
      document.getElementById("map").replaceWith(document.adoptNode(parsed(await answer.text()).getElementById("map")));
      const slider = document.querySelector(".scrub input");
      slider.max = head();
      if (document.activeElement !== slider) slider.value = head();
      draw();
    }, 1500);
  });
}

function watchSearch() {
  const field = document.getElementById("within");
  let due = 0;
  let asked = field.value;
  async function look() {
    const words = field.value.trim();
    if (words === asked) return;
    asked = words;
    const answer = await fetch(`${base}?${new URLSearchParams({ part: "found", q: words })}`, { headers: { "HX-Request": "true" } });
    if (!answer.ok || words !== field.value.trim()) return;
    document.getElementById("found").replaceWith(document.adoptNode(parsed(await answer.text()).getElementById("found")));
    localise(document.getElementById("found"));
  }
  field.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(look, 120);
  });
  field.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await look();
    document.querySelector("#found a")?.click();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      field.value = "";
      look();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      document.querySelector("#found a")?.focus();
    }
  });
}

function watchSlider() {
  const slider = document.querySelector(".scrub input");
  const go = document.getElementById("scrub-go");
  go.hidden = true;
  slider.addEventListener("input", () => {
    go.hidden = false;
    go.textContent = Number(slider.value) < Number(slider.max) ? `Look back to ${Number(slider.value).toLocaleString("en")}` : "Now";
  });
  slider.addEventListener("change", () => {
    const query = new URLSearchParams(Number(slider.value) < Number(slider.max) ? { at: slider.value } : {});
    const tab = document.getElementById("tabs").dataset.tab;
    if (tab !== "overview") query.set("tab", tab);
    location.assign(`${base}?${query}`);
  });
}

function watchLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const stretch = link.closest("#map svg") && new URL(link.getAttribute("href"), location).searchParams.get("event");
    if (link.dataset.jump) {
      event.preventDefault();
      const [type, direction] = link.dataset.jump.split(" ");
      jump(type, Number(direction));
    } else if (link.dataset.to || stretch) {
      event.preventDefault();
      show(Number(link.dataset.to || stretch));
    } else if (link.closest("#tabs")) {
      keep("tab", new URL(link.href).searchParams.get("tab"));
    }
  });
  addEventListener("hashchange", () => /^#e\d+$/.test(location.hash) && show(Number(location.hash.slice(2))));
}

// The list beside stays where it was, from one session to the next.
function keepList() {
  const list = document.querySelector(".beside");
  if (!list) return;
  list.scrollTop = Number(sessionStorage.getItem("clew-beside")) || 0;
  const here = list.querySelector(".here");
  const [top, bottom] = [list.getBoundingClientRect().top, list.getBoundingClientRect().bottom];
  if (here && (here.getBoundingClientRect().top < top || here.getBoundingClientRect().bottom > bottom)) here.scrollIntoView({ block: "nearest" });
  addEventListener("pagehide", () => sessionStorage.setItem("clew-beside", list.scrollTop));
}

export function otherSession(direction) {
  const here = document.querySelector(".beside .here");
  const other = direction > 0 ? here?.nextElementSibling : here?.previousElementSibling;
  other?.querySelector("a")?.click();
}

if (transcript) {
  watchMap();
  watchSearch();
  watchSlider();
  watchLinks();
  keepList();
  const asked = Number(location.hash.match(/^#e(\d+)$/)?.[1] || transcript.dataset.asked);
  const row = asked && rowOf(asked);
  if (row) {
    unfold(row);
    choose(row.closest("[data-row]") || row, { block: "center" });
  } else if (asked) show(asked);
}
