// The list of sessions: what is chosen, and what can be done with it.
const bulk = document.getElementById("bulk");

function chosen() {
  return [...document.querySelectorAll("#rows .pick input:checked")];
}

function show() {
  const { length } = chosen();
  bulk.classList.toggle("some", length > 0);
  document.getElementById("bulk-count").textContent = `${length} chosen:`;
}

if (bulk) {
  document.documentElement.classList.add("scripted");
  document.addEventListener("change", (event) => event.target.closest(".pick") && show());
  document.addEventListener("clew:refreshed", show);
  document.addEventListener("clew:pick", show);
  // What is asked comes in a dialog, as for a link that asks.
  bulk.addEventListener("submit", (event) => {
    event.preventDefault();
    const link = document.createElement("a");
    link.dataset.asks = "";
    link.href = `${event.submitter.getAttribute("formaction")}?${new URLSearchParams(chosen().map((box) => ["session", box.value]))}`;
    document.body.append(link);
    link.click();
    link.remove();
  });
  show();
}
