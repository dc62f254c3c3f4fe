// The end of a session, as it grows: it is read again whenever the stream says that there is more.
import { head, isAtEnd, refresh, toEnd, transcript } from "./transcript.js";

const bar = document.getElementById("live");
const lost = document.getElementById("lost");
const text = document.getElementById("live-text");
const pause = document.getElementById("live-pause");
const LONGEST_WAIT = 15_000;

function follow() {
  const { session } = transcript.dataset;
  let seen = head();
  let waiting = 0;
  let isPaused = false;
  let isFetching = false;
  let source = null;
  let retry = 0;
  let wait = 1000;

  function show() {
    bar.hidden = false;
    bar.className = !lost.hidden ? "lost" : isPaused || !isAtEnd() ? "paused" : "";
    const more = `${waiting} new event${waiting === 1 ? "" : "s"}`;
    text.textContent = !lost.hidden ? "connection lost" : waiting && bar.className ? more : isPaused ? "paused" : isAtEnd() ? "live" : "not at the end";
    pause.textContent = isPaused ? "Go on" : isAtEnd() ? "Pause" : "Go to the end";
  }

  async function catchUp() {
    if (isFetching) return;
    isFetching = true;
    try {
      while (waiting && !isPaused && isAtEnd()) {
        waiting = 0;
        await refresh();
      }
    } catch {
      waiting += 1; // The stream opens again when the server is back, and then this is tried again.
      fail();
    }
    isFetching = false;
    show();
  }

  pause.addEventListener("click", async () => {
    if (!isPaused && !isAtEnd()) {
      waiting = 0;
      await toEnd();
    } else {
      isPaused = !isPaused;
      await catchUp();
    }
    show();
  });

  function fail() {
    if (lost.hidden) {
      lost.textContent = `The connection was lost at ${new Date().toLocaleTimeString()}. What you see may be old; it goes on by itself.`;
      lost.hidden = false;
    }
    show();
    // A browser tries again by itself after most failures, but not after an answer that is no stream.
    if (source.readyState === EventSource.CLOSED && !retry) {
      retry = setTimeout(listen, wait);
      wait = Math.min(LONGEST_WAIT, wait * 2);
    }
  }

  function listen() {
    clearTimeout(retry);
    retry = 0;
    source?.close();
    source = new EventSource(`/v1/sessions/${session}/stream?after=${seen}`);
    source.onopen = () => {
      wait = 1000;
      lost.hidden = true;
      catchUp();
    };
    source.onerror = fail;
    source.onmessage = (event) => {
      seen = Number(event.lastEventId) || seen;
      waiting += 1;
      if (isPaused || !isAtEnd()) show();
      else setTimeout(catchUp, 40);
    };
    source.addEventListener("problem", () => {
      source.close();
      lost.textContent = "This session can no longer be followed.";
      lost.hidden = false;
      bar.hidden = true;
    });
  }

  // A browser holds few connections to one server, so a tab that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else if (!bar.hidden) listen();
  });
  addEventListener("online", () => source.readyState !== EventSource.OPEN && listen());
  transcript.addEventListener("clew:changed", show);
  listen();
  show();
}

// A session as it was at an event does not grow.
if (transcript && !transcript.dataset.at) follow();
