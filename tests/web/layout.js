// What is wrong with the layout of a page: texts and controls that lie over each other, are cut off, or are outside of
// the window. A text that ends in an ellipsis is cut on purpose, and what scrolls can be scrolled to.
() => {
  const faults = [];
  const styles = new Map();
  const styleOf = (element) => {
    if (!styles.has(element)) styles.set(element, getComputedStyle(element));
    return styles.get(element);
  };
  // Programs that read pages out are given a text that nobody sees.
  function isForReadersAlone(element) {
    for (let outer = element; outer; outer = outer.parentElement) {
      const { clipPath, color } = styleOf(outer);
      if (clipPath.startsWith("inset(50%") || (outer === element && /^rgba\(.*, 0\)$/.test(color))) return true;
    }
    return false;
  }
  const shown = new Map();
  const isShown = (element) => {
    if (!shown.has(element)) {
      shown.set(element, element.checkVisibility({ visibilityProperty: true, opacityProperty: true, contentVisibilityAuto: true })
        && !element.closest(".skip") && !isForReadersAlone(element));
    }
    return shown.get(element);
  };
  // What stays in its place while the page scrolls lies over the rest on purpose.
  const layers = new Map();
  function layerOf(element) {
    if (!element || element === document.body) return null;
    if (!layers.has(element)) {
      layers.set(element, ["sticky", "fixed"].includes(styleOf(element).position) ? element : layerOf(element.parentElement));
    }
    return layers.get(element);
  }
  const words = (element) => `${element.tagName.toLowerCase()}.${[...element.classList].join(".")} "${element.textContent.trim().slice(0, 40)}"`;
  const fault = (what, ...elements) => {
    const text = `${what}: ${elements.map(words).join(" and ")}`;
    if (!faults.includes(text)) faults.push(text);
  };

  // What can be seen of a box: less what scrolls away, and a fault for what is cut off for good.
  function visible(rect, element) {
    let { left, right, top, bottom } = rect;
    for (let outer = element; outer && outer !== document.body; outer = outer.parentElement) {
      const style = styleOf(outer);
      if (style.overflowX === "visible" && style.overflowY === "visible") {
        if (style.position === "fixed") break;
        continue;
      }
      const own = outer.getBoundingClientRect();
      const cuts = (how) => how === "hidden" || how === "clip";
      const isMeant = style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none";
      if (cuts(style.overflowX) && !isMeant && (right > own.right + 2 || left < own.left - 2)) fault("cut", element);
      if (cuts(style.overflowY) && !isMeant && (bottom > own.bottom + 4 || top < own.top - 4)) fault("cut", element);
      left = Math.max(left, own.left);
      right = Math.min(right, own.right);
      top = Math.max(top, own.top);
      bottom = Math.min(bottom, own.bottom);
      if (right - left < 1 || bottom - top < 1) return null;
      if (style.position === "fixed") break;
    }
    return { left, right, top, bottom };
  }

  const boxes = [];
  function add(rect, element, isText) {
    if (rect.width < 1 || rect.height < 1) return;
    const box = visible(rect, element);
    if (!box) return;
    if (box.left < -1 || box.right > innerWidth + 1) fault("outside of the window", element);
    // Lines of a text may touch: a letter fills the middle of its line.
    const trim = isText ? (box.bottom - box.top) * 0.28 : 1;
    boxes.push({ element, isText, left: box.left + 1, right: box.right - 1, top: box.top + trim, bottom: box.bottom - trim });
  }

  const range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const parent = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !isShown(parent) || styleOf(parent).pointerEvents === "none") continue;
    range.selectNodeContents(texts.currentNode);
    for (const rect of range.getClientRects()) add(rect, parent, true);
  }
  for (const control of document.querySelectorAll("input:not([type=hidden]), select, textarea, button, .button, summary, img, canvas")) {
    if (isShown(control) && styleOf(control).pointerEvents !== "none") add(control.getBoundingClientRect(), control, false);
  }

  boxes.sort((one, other) => one.top - other.top);
  let open = [];
  for (const box of boxes) {
    open = open.filter((other) => other.bottom > box.top);
    for (const other of open) {
      if (other.left >= box.right || box.left >= other.right || other.bottom <= box.top || box.bottom <= other.top) continue;
      if (layerOf(box.element) !== layerOf(other.element)) continue;
      if (other.element.contains(box.element) || box.element.contains(other.element)) continue;
      fault("overlap", other.element, box.element);
    }
    open.push(box);
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  return faults.slice(0, 12);
}
