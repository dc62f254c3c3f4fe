// Views of the list that somebody gave a name: filters and order, kept in this browser alone.
const place = document.getElementById("saved");
const KEY = "clew-views";
const MOST = 30;

function read() {
  try {
    const views = JSON.parse(localStorage.getItem(KEY) || "[]");
    return views.filter((view) => typeof view.name === "string" && /^\?[^#]*$/.test(view.query));
  } catch {
    return []; // Another program wrote something else there.
  }
}

function write(views) {
  localStorage.setItem(KEY, JSON.stringify(views.slice(-MOST)));
  show();
}

function chip(view) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = `/sessions${view.query}`;
  link.className = "view";
  link.textContent = view.name;
  if (view.query === location.search) link.setAttribute("aria-current", "true");
  const remove = document.createElement("button");
  remove.className = "quiet";
  remove.textContent = "×";
  remove.setAttribute("aria-label", `Forget the view ${view.name}`);
  remove.addEventListener("click", () => write(read().filter((other) => other.name !== view.name)));
  item.append(link, remove);
  return item;
}

function show() {
  const views = read();
  place.querySelector("ul").replaceChildren(...views.map(chip));
  place.querySelector("form").hidden = !location.search || views.some((view) => view.query === location.search);
  place.hidden = !views.length && place.querySelector("form").hidden;
}

if (place) {
  place.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = event.target.elements.name.value.trim();
    if (!name) return;
    event.target.reset();
    write([...read().filter((view) => view.name !== name), { name, query: location.search }]);
  });
  show();
}
