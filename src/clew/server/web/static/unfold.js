// What a row holds comes as text inside <noscript>; it becomes elements when the row unfolds, so a long page stays light.
import { localise } from "./times.js";

export function fill(details) {
  for (const held of details.querySelectorAll(":scope > .inside > noscript")) {
    const made = new DOMParser().parseFromString(held.textContent, "text/html");
    const nodes = held.childElementCount ? [...held.childNodes] : [...made.body.childNodes];
    held.replaceWith(...nodes.map((node) => document.adoptNode(node)));
    localise(details);
  }
}

// In a parsed answer <noscript> has elements; text is what a page that was loaded has in it.
export function parsed(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const held of page.querySelectorAll("noscript")) held.textContent = held.innerHTML;
  return page;
}

document.addEventListener("toggle", (event) => event.target.open && fill(event.target), true);
for (const details of document.querySelectorAll("details[open]")) fill(details);
