// Times come in UTC; here they get the zone of whoever reads. The tooltip has all of it.
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const two = (number) => String(number).padStart(2, "0");

function shown(date, how) {
  if (how === "clock") return clock.format(date);
  if (how === "day") return day.format(date);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([data-local]), text[data-time]:not([data-local])")) {
    const date = new Date(time.dateTime || time.dataset.time);
    time.dataset.local = "";
    if (Number.isNaN(date.getTime())) continue;
    time.title = full.format(date);
    if (time.dataset.show) time.textContent = shown(date, time.dataset.show);
  }
}

localise(document);
document.addEventListener("htmx:after:swap", () => localise(document));
