// The command palette: Ctrl-K, words, arrows, Enter. What the page itself offers comes first.
const dialog = document.getElementById("palette");
const input = document.getElementById("palette-words");
const list = document.getElementById("palette-list");
const PAUSE = 80;
let timer = 0;
let running = null;

const goals = () => [...list.querySelectorAll("a")];

function choose(index) {
  const all = goals();
  for (const goal of all) goal.removeAttribute("aria-current");
  const goal = all[(index + all.length) % all.length];
  if (!goal) return;
  goal.setAttribute("aria-current", "true");
  goal.scrollIntoView({ block: "nearest" });
}

const chosen = () => goals().findIndex((goal) => goal.hasAttribute("aria-current"));

// The actions of the page, as links to the links of the page.
function ofThisPage(words) {
  const offered = [...document.querySelectorAll("main a[data-asks]")].filter((link) => !link.closest("#palette") &&
    words.every((word) => link.textContent.toLowerCase().includes(word)));
  if (!offered.length) return [];
  const heading = document.createElement("h2");
  heading.textContent = "On this page";
  const made = document.createElement("ul");
  made.className = "goals";
  for (const link of offered.slice(0, 8)) {
    const goal = document.createElement("a");
    goal.href = link.href;
    goal.textContent = link.textContent.trim();
    goal.addEventListener("click", (event) => {
      event.preventDefault();
      event.stopPropagation();
      dialog.close();
      link.click();
    });
    const item = document.createElement("li");
    item.append(goal);
    made.append(item);
  }
  return [heading, made];
}

async function look() {
  running?.abort();
  running = new AbortController();
  try {
    const answer = await fetch(`/palette?${new URLSearchParams({ q: input.value })}`,
      { headers: { "HX-Request": "true", Accept: "text/html" }, signal: running.signal });
    if (!answer.ok || answer.redirected) return location.reload();
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.replaceChildren(...ofThisPage(words), ...[...made.body.childNodes].map((node) => document.adoptNode(node)));
    choose(0);
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
}

export function openPalette() {
  if (!dialog || dialog.open) return;
  dialog.showModal();
  input.select();
  look();
}

if (dialog) {
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen() + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && event.target === input) {
      event.preventDefault();
      goals()[Math.max(0, chosen())]?.click();
    }
  });
  list.addEventListener("click", () => dialog.close());
}
