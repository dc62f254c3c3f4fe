"""Every page in a browser: at each width, in light and dark, with nothing wider than the window and nothing to mend."""

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from web.addresses import ASKING, filled_in, samples, unnamed
from web.conftest import Site

WIDTHS = (390, 768, 1400, 2200)
# A phone in one theme and a desk in the other: it takes most of the time of these tests.
AXE_AT = {"light": 390, "dark": 1400}
LAYOUT = Path(__file__).with_name("layout.js").read_text()
PAGES = {
    "home": "/", "sessions": "/sessions", "filtered": "/sessions?runtime=codex&since=2020&sort=cost",
    "session": "/sessions/{session}", "looking back": "/sessions/{session}?at=14&q=lock&tab=tools",
    "who can see it": "/sessions/{hostile}?tab=access",
    "hostile": "/sessions/{hostile}", "event": "/sessions/{session}/events/12", "search": "/search?q=lock",
    "usage": "/usage?when=90+days", "palette": "/palette?q=lock",
    "many": "/bulk/tag?session={hostile}", "export of many": "/bulk/export?session={hostile}",
    "usage of sessions": "/usage?by=session&when=this+year", "design": "/_design", "docs": "/docs",
    "login": "/login", "an action": "/sessions/{session}/close",
    "continue": "/sessions/{session}/continue?in=codex", "family": "/sessions/{hostile}/family",
    "compare": "/compare?a={session}&b={hostile}",
    "files": "/files?of=shop&file=/home/ada/shop/src/store.py", "timeline": "/timeline?range=month",
    "its files": "/sessions/{kept}/workspace?at=15&path=src/basket.py&view=blame",
    "changes of its files": "/sessions/{kept}/workspace?view=changes&at=8",
    "hostile snapshots": "/sessions/{hostile}/workspace?view=snapshots",
    "agents": "/agents", "access": "/access?who=bo&what=shop", "audit": "/audit",
    "snapshots": "/settings?part=snapshots",
    "health": "/settings?part=doctor",
}  # fmt: skip


# Those of navigation.py that are not named above are looked at as they are.
PAGES |= {path: path for path in unnamed(list(PAGES.values()))}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_can_be_read_by_all(name: str, site: Site, new_tab: Any) -> None:
    address = filled_in(PAGES[name], {**samples(site), "hostile": site.hostile, "kept": site.kept})
    tab = new_tab(color_scheme="light")
    if not tab.shows(address):
        return
    page = tab.open(address)
    for theme, axe_at in AXE_AT.items():
        page.emulate_media(color_scheme=theme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            faults = page.evaluate(LAYOUT)
            assert not faults, (theme, width, faults)
            if width == axe_at:
                found = Axe().run(page)
                assert found.violations_count == 0, (theme, width, found.generate_report())


def test_each_page_that_asks_fits_its_window(site: Site, new_tab: Any) -> None:
    tab = new_tab()
    for path in ASKING:
        page = tab.open(filled_in(path, samples(site, site.hostile)))
        for width in (390, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            faults = page.evaluate(LAYOUT)
            assert not faults, (path, width, faults)


@pytest.mark.parametrize(
    ("fault", "body"),
    [
        ("overlap", "<p>one text</p><p style='margin-top: -2.5em'>another text</p>"),
        ("overlap", "<button>Yes</button><button style='margin-left: -2em'>No</button>"),
        ("cut", "<div style='width: 3em; overflow: hidden; white-space: nowrap'>much too long a text</div>"),
        ("cut", "<div style='height: 2em; overflow: clip'>a<br>b<br>c<br>d</div>"),
        ("outside of the window", "<p style='margin-left: -9em'>somewhere on the left</p>"),
        ("wide", "<p style='width: 500px; white-space: nowrap'>text</p>"),
        ("", "<p style='width: 3em; overflow: hidden; white-space: nowrap; text-overflow: ellipsis'>meant to be</p>"),
        ("", "<p style='width: 3em; overflow: auto; white-space: nowrap'>can be scrolled to</p>"),
        ("", "<p style='line-height: 1'>two lines<br>that touch</p><details><summary>more</summary>folded</details>"),
    ],
)
def test_a_fault_of_a_layout_is_found(fault: str, body: str, new_tab: Any) -> None:
    page = new_tab(viewport={"width": 390, "height": 800}).page
    page.set_content(f"<body>{body}")
    faults = page.evaluate(LAYOUT)
    assert fault in " ".join(faults) if fault else not faults


def test_a_page_whose_path_needs_what_no_sample_is_given_for_is_told() -> None:
    with pytest.raises(AssertionError, match="no sample of 'nothing'"):
        filled_in("/things/{nothing}", {})


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
    # Other tests fork it, under the same title.
    page.locator(f"main a[href='/sessions/{site.session}']").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Why does the lock test fail now and then?"
    assert page.locator("time").first.inner_text()
    failed = page.locator(".call.failed").first
    failed.locator("summary").click()
    assert "database is locked" in failed.locator(".returned").inner_text()
    page.goto(f"{site.address}/search?q=locked")
    assert page.locator("mark").first.is_visible()
    assert page.locator("[data-theme-toggle]").is_hidden()
