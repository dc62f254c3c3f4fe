// Buttons that only a script can serve are hidden until one runs: the theme, dialogs, copying.
const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

const toasts = document.getElementById("toasts");

export function say(text) {
  const toast = document.createElement("p");
  toast.textContent = text;
  show(toast);
}

// What can be undone stays long enough to be undone.
function show(toast) {
  toasts.append(document.adoptNode(toast));
  setTimeout(() => toast.remove(), toast.querySelector("a") ? 12000 : 4000);
}

// What the page that the server made says was done.
export function sayIn(page) {
  for (const toast of page.querySelectorAll("#toasts p")) {
    show(toast);
  }
}
sayIn(document);

for (const button of document.querySelectorAll("[data-theme-toggle], [data-opens], [data-copies]")) button.hidden = false;

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("themeToggle" in button.dataset) {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    // The server reads it, so that the next page begins in the right colours.
    document.cookie = `clew-theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
  } else if (button.dataset.opens) {
    document.getElementById(button.dataset.opens).showModal();
  } else if (button.dataset.copies) {
    const source = document.getElementById(button.dataset.copies);
    try {
      await navigator.clipboard.writeText(source.textContent);
      say("Copied");
    } catch {
      getSelection().selectAllChildren(source);
      say("Press Ctrl-C to copy");
    }
  }
});
