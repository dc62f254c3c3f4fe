// What a bar of a chart stands for, in one box beside the pointer, where a browser would show one line after a while.
const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);

function linesOf(bar) {
  bar.tipLines ||= [...bar.querySelectorAll("rect:has(title)")].reverse().map((part) => {
    const title = part.querySelector("title");
    title.remove();
    return [part.getAttribute("class"), title.textContent];
  });
  return bar.tipLines;
}

function show(bar, event) {
  const heading = document.createElement("b");
  heading.textContent = bar.dataset.tip;
  const lines = linesOf(bar).map(([style, text]) => {
    const line = document.createElement("span");
    const swatch = document.createElement("i");
    swatch.className = style;
    line.append(swatch, text);
    return line;
  });
  tip.replaceChildren(heading, ...lines);
  tip.classList.add("on");
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 8))}px`;
  tip.style.top = `${Math.max(4, event.clientY - height - 12)}px`;
}

document.addEventListener("pointermove", (event) => {
  const bar = event.target.closest?.("[data-tip]");
  if (bar) show(bar, event);
  else tip.classList.remove("on");
});
