// The end of a session, as it grows: the last events are fetched whenever the stream says that there is more.
import { localise } from "./times.js";

const transcript = document.getElementById("transcript");
const bar = document.getElementById("live");
const END = Number.MAX_SAFE_INTEGER;

// Put rows that are new or that changed in their places; what was unfolded stays so. False if rows between are missing.
function merge(fetched) {
  const known = [...transcript.querySelectorAll(":scope > .turn")];
  const first = fetched.querySelector(".turn > [id]");
  if (known.length && first && !document.getElementById(first.id)) return false;
  for (const turn of fetched.querySelectorAll(".turn")) {
    const same = known.filter((one) => one.dataset.turn === turn.dataset.turn).at(-1);
    if (same) mergeTurn(same, turn);
    else transcript.append(document.adoptNode(turn));
  }
  return true;
}

function mergeTurn(same, turn) {
  const isWhole = same.firstElementChild?.id === turn.firstElementChild?.id;
  let took = same.querySelector(":scope > .took");
  for (const row of [...turn.children]) {
    const before = row.id && document.getElementById(row.id);
    if (row.matches(".took")) {
      if (took && isWhole) took.replaceWith(document.adoptNode(row));
      else if (!took) same.append(document.adoptNode(row));
      took = same.querySelector(":scope > .took");
    } else if (!before) {
      same.insertBefore(document.adoptNode(row), took);
    } else if (!before.matches(".subagent")) {
      if (before.open) row.open = true;
      row.classList.toggle("current", before.classList.contains("current"));
      if (!before.isEqualNode(row)) before.replaceWith(document.adoptNode(row));
    }
  }
}

function follow() {
  const text = document.getElementById("live-text");
  const pause = document.getElementById("live-pause");
  const { session } = transcript.dataset;
  const follows = "live" in transcript.dataset;
  let seen = Number(transcript.dataset.head);
  let waiting = 0;
  let isPaused = !follows;
  let isFetching = false;
  let source = null;

  const show = (state, words) => {
    bar.hidden = false;
    bar.className = state;
    text.textContent = words;
  };

  async function fetchEnd() {
    if (isFetching) return;
    isFetching = true;
    while (waiting && !isPaused) {
      waiting = 0;
      const answer = await fetch(`/sessions/${session}?part=turns&backward=${END}`, { headers: { "HX-Request": "true" } });
      if (!answer.ok) break;
      const isAtEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 120;
      const fetched = new DOMParser().parseFromString(await answer.text(), "text/html");
      localise(fetched);
      if (!merge(fetched)) location.assign(`/sessions/${session}?backward=${END}`);
      window.htmx?.process(transcript);
      if (isAtEnd) scrollTo({ top: document.documentElement.scrollHeight });
    }
    isFetching = false;
    if (!isPaused) show("", "live");
  }

  pause.addEventListener("click", () => {
    if (!follows) {
      location.assign(`/sessions/${session}?backward=${END}`);
      return;
    }
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Go on" : "Pause";
    if (isPaused) show("paused", "paused");
    else fetchEnd().then(() => show("", "live"));
  });

  function listen() {
    source = new EventSource(`/v1/sessions/${session}/stream?after=${seen}`);
    source.onopen = () => follows && !isPaused && show("", "live");
    source.onerror = () => source.readyState === EventSource.CONNECTING && show("lost", "connection lost, trying again");
    source.onmessage = (event) => {
      seen = Number(event.lastEventId) || seen;
      waiting += 1;
      if (!isPaused) {
        setTimeout(fetchEnd, 50);
        return;
      }
      show("paused", `${waiting} new event${waiting === 1 ? "" : "s"}`);
      if (!follows) pause.textContent = "Show";
    };
    source.addEventListener("problem", () => {
      source.close();
      show("lost", "this session can no longer be followed");
      pause.hidden = true;
    });
  }

  // A browser holds few connections to one server, so a tab that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (pause.hidden) return;
    source.close();
    if (!document.hidden) listen();
  });
  listen();
}

if (transcript && bar) follow();
