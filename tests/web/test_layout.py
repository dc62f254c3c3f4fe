"""Every page in a browser: at each width, in light and dark, with nothing wider than the window and nothing to mend."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from web.conftest import Site

WIDTHS = (390, 768, 1400, 2200)
# A phone in one theme and a desk in the other: it takes most of the time of these tests.
AXE_AT = {"light": 390, "dark": 1400}
# Rows of a transcript, entries of a list and cards that lie over the one before, or are larger than their place.
OVERLAPS = """[...document.querySelectorAll('.turn > *, .list > li, .card, .hits')].filter(element => {
  const before = element.previousElementSibling?.getBoundingClientRect(), own = element.getBoundingClientRect();
  const spills = getComputedStyle(element).overflowY === 'visible' && element.scrollHeight > element.clientHeight + 2;
  const beside = before?.height && own.height && before.left < own.right && own.left < before.right;
  return spills || beside && before.bottom > own.top + 1 && own.bottom > before.top + 1;
}).map(element => element.outerHTML.slice(0, 200))"""
PAGES = {
    "home": "/", "sessions": "/sessions", "filtered": "/sessions?runtime=codex&since=2020",
    "session": "/sessions/{session}",
    "hostile": "/sessions/{hostile}", "event": "/sessions/{session}/events/12", "search": "/search?q=lock",
    "usage": "/usage", "usage of sessions": "/usage?by=session&when=this+year", "design": "/_design", "docs": "/docs",
    "login": "/login", "an action": "/sessions/{session}/close",
    "continue": "/sessions/{session}/continue?in=codex", "family": "/sessions/{hostile}/family",
    "compare": "/compare?a={session}&b={hostile}",
    "files": "/files?of=shop&file=/home/ada/shop/src/store.py", "timeline": "/timeline?range=month",
    "agents": "/agents", "access": "/access?who=bo&what=shop", "audit": "/audit", "health": "/settings?part=doctor",
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_can_be_read_by_all(name: str, site: Site, new_tab: Any) -> None:
    path = PAGES[name].format(session=site.session, hostile=site.hostile)
    for theme in ("light", "dark"):
        tab = new_tab(color_scheme=theme)
        page = tab.open(path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert not tab.is_wider_than_its_window(), (theme, width)
            assert not page.evaluate(OVERLAPS), (theme, width)
            if width == AXE_AT[theme]:
                found = Axe().run(page)
                assert found.violations_count == 0, (theme, width, found.generate_report())


def test_an_address_that_is_none_is_a_page(site: Site, new_tab: Any) -> None:
    tab = new_tab()
    for path in ("/nothing", "/sessions/zzzzzz", f"/sessions/{site.session}/events/9999", "/sessions?since=nonsense"):
        page = tab.open(path)
        assert page.get_by_role("alert").is_visible()
        assert page.get_by_role("link", name="Home").first.is_visible()
    # A browser reports the status of an answer as an error of its own.
    assert all("Failed to load resource" in complaint for complaint in tab.complaints)
    tab.complaints.clear()


def test_without_scripts_everything_can_be_read(site: Site, new_tab: Any) -> None:
    tab = new_tab(java_script_enabled=False)
    page = tab.page
    page.goto(f"{site.address}/sessions?project=shop")
    page.get_by_role("link", name="Why does the lock test fail now and then?").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Why does the lock test fail now and then?"
    assert page.locator("time").first.inner_text()
    failed = page.locator(".call.failed").first
    failed.locator("summary").click()
    assert failed.get_by_text("database is locked").is_visible()
    page.goto(f"{site.address}/search?q=locked")
    assert page.locator("mark").first.is_visible()
    assert page.locator("[data-theme-toggle]").is_hidden()
