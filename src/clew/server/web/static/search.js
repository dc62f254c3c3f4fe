// Results while somebody types, on the page of the search; the address stays that of the search.
import { localise } from "./times.js";

const find = document.getElementById("find");
const results = document.querySelector("[data-results]");
const facets = document.getElementById("facets");
const PAUSE = 90;
const FACETS_AFTER = 500;
let timer = 0;
let facetsTimer = 0;
let running = null;

async function part(name, signal) {
  const asked = new URLSearchParams(location.search);
  asked.set("part", name);
  const answer = await fetch(`/search?${asked}`, { headers: { "HX-Request": "true", Accept: "text/html" }, signal });
  const made = new DOMParser().parseFromString(await answer.text(), "text/html");
  localise(made);
  return [...made.body.childNodes].map((node) => document.adoptNode(node));
}

async function look() {
  const asked = new URLSearchParams(location.search);
  asked.delete("after");
  if (find.value.trim()) asked.set("q", find.value);
  else asked.delete("q");
  history.replaceState(null, "", asked.size ? `/search?${asked}` : "/search");
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  try {
    results.replaceChildren(...(await part("results", signal)));
    window.htmx?.process(results);
    clearTimeout(facetsTimer);
    facetsTimer = setTimeout(async () => facets.replaceChildren(...(await part("facets", signal))), FACETS_AFTER);
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
}

if (results && find) {
  find.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
}
