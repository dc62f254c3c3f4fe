// Capture what is on this machine, portion by portion, and show how far it is.
const form = document.querySelector("form[data-capture]");

async function capture() {
  const files = Number(form.dataset.files);
  const bar = form.querySelector("progress");
  const words = form.querySelector("[role=status]");
  document.getElementById("begin")?.removeAttribute("data-live");
  form.querySelector("button").disabled = true;
  bar.hidden = false;
  let next = new URL("/capture", location.href);
  while (next.pathname === "/capture") {
    const body = new URLSearchParams({ after: next.searchParams.get("after") || "" });
    const answer = await fetch("/capture", { method: "POST", headers: { "HX-Request": "true", Accept: "text/html" }, body });
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    const link = made.querySelector("[data-next]");
    if (!link) throw new Error(made.querySelector(".problem")?.textContent || "The server did not answer as expected.");
    next = new URL(link.getAttribute("href"), location.href);
    bar.value = files - Number(next.searchParams.get("left") || 0);
    words.textContent = `${bar.value} of ${files} files`;
  }
  location.assign(next);
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await capture();
  } catch (error) {
    form.querySelector("[role=status]").textContent = `${error.message} Press the button to go on.`;
    form.querySelector("button").disabled = false;
  }
});
