"""Times as somebody who looks at a page has them: taken in the page, up to the frame that shows what was asked for."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from web_server import COOKIE, SECRET

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
    # Nothing is looked up: a page that wants something from elsewhere does not wait for it.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip
WINDOW = {"width": 1400, "height": 900}
PATIENCE_MS = 120_000

# `measured.shown` is the time of the frame in which the first match of the selector is there, and
# `measured.interactive` that of the first frame after all scripts of the page have run; both since the navigation.
_WATCH = """(selector) => {
  const measured = window.measured = {};
  const frame = (take) => requestAnimationFrame(() => setTimeout(() => take(performance.now())));
  const watcher = new MutationObserver(() => {
    if (!document.querySelector(selector)) return;
    watcher.disconnect();
    frame((now) => measured.shown = now);
  });
  watcher.observe(document, { childList: true, subtree: true, characterData: true });
  addEventListener("DOMContentLoaded", () => frame((now) => measured.interactive = now));
}"""

# Scrolls to the end of the transcript, where the page fetches the next piece.
_GO_ON = """() => new Promise((resolve, reject) => {
  const seq = (row) => Number(row.id.slice(1)) || 0;
  const last = Math.max(0, ...[...document.querySelectorAll("[id^=e]")].map(seq));
  const began = performance.now();
  const watcher = new MutationObserver(look);
  const timer = setTimeout(() => { watcher.disconnect(); reject(new Error(`nothing came after ${last}`)); }, 60000);
  function look() {
    if (![...document.querySelectorAll("[id^=e]")].some((row) => seq(row) > last)) return;
    watcher.disconnect();
    clearTimeout(timer);
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
  }
  watcher.observe(document, { childList: true, subtree: true });
  // The page drops rows far from the window, so a reader scrolls to its end to get more.
  scrollTo(0, document.documentElement.scrollHeight);
})"""


@contextmanager
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no browser: install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield opened
        opened.close()


def visitor(browser: Browser, address: str) -> BrowserContext:
    """A person with an empty cache; logged in, if the address is that of clew."""
    # What measures is evaluated in the page, which its policy forbids to others.
    context = browser.new_context(viewport=WINDOW, bypass_csp=True)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{"name": COOKIE, "value": SECRET, "url": address}])
    return context


def opening(page: Page, url: str, selector: str) -> dict[str, float]:
    """Open a page: the milliseconds until its first paint, until the selector is shown, until it can be used."""
    page.goto("about:blank")
    page.add_init_script(f"({_WATCH})({selector!r})")
    page.goto(url, wait_until="commit")
    page.wait_for_function("window.measured?.shown && window.measured?.interactive")
    # A page can be there before the browser has noted when it painted.
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    measured: dict[str, float] = page.evaluate(
        "({...window.measured, paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime})"
    )
    return measured


def opened(context: BrowserContext, url: str, selector: str) -> dict[str, float]:
    """Open a page in a new tab; a script that was added to a tab stays in it."""
    page = context.new_page()
    try:
        return opening(page, url, selector)
    finally:
        page.close()


def nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def next_page(page: Page) -> float:
    """Go on in a transcript: the milliseconds until later events are shown."""
    return float(page.evaluate(_GO_ON))


def keystroke(page: Page, key: str, results: str) -> float:
    """Press a key in the box that has the focus: the milliseconds until the results change."""
    page.evaluate(
        """(results) => {
          window.typed = null;
          const input = document.activeElement;
          input.addEventListener("input", () => {
            const began = performance.now();
            const watcher = new MutationObserver(() => {
              watcher.disconnect();
              requestAnimationFrame(() => setTimeout(() => window.typed = performance.now() - began));
            });
            watcher.observe(document.querySelector(results), { childList: true, subtree: true });
          }, { once: true });
        }""",
        results,
    )
    page.keyboard.press(key)
    return float(page.wait_for_function("window.typed").json_value())


def arrival(page: Page, text: str, say: Any) -> float:
    """Say something elsewhere: the milliseconds from when it was in the log until it is on the page."""
    page.evaluate(
        """(text) => {
          window.arrived = null;
          const watcher = new MutationObserver(() => {
            if (!document.getElementById("transcript").textContent.includes(text)) return;
            watcher.disconnect();
            requestAnimationFrame(() => setTimeout(() => window.arrived = Date.now()));
          });
          const watched = { childList: true, subtree: true, characterData: true };
          watcher.observe(document.getElementById("transcript"), watched);
        }""",
        text,
    )
    said: float = say()
    arrived = float(page.wait_for_function("window.arrived").json_value())
    return max(0.0, arrived - said * 1000)


def settle(page: Page, seconds: float = 0.3) -> None:
    """Let what a page does after it is shown be done, so that it disturbs no measure."""
    page.wait_for_load_state("load")
    time.sleep(seconds)
