// A session page: say that there is more, as soon as there is.
"use strict";
const live = document.getElementById("live");
if (live) {
  const source = new EventSource(`/v1/sessions/${live.dataset.session}/stream?after=${live.dataset.after}`);
  let count = 0;
  source.onmessage = () => {
    count += 1;
    const link = document.createElement("a");
    link.href = `?at=${live.dataset.after}`;
    link.textContent = count === 1 ? "1 new event: show it" : `${count} new events: show them`;
    live.replaceChildren(link);
    live.hidden = false;
  };
  source.addEventListener("problem", () => source.close());
}
