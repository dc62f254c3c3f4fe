"""Nothing that is stored runs in a browser, leaves it, or breaks a page."""

from typing import Any
from urllib.parse import quote

import pytest

from clew.service import call
from web.conftest import Site

HARMLESS = ("/", "?", "#", "https://", "http://", "mailto:", "data:,")
PATHS = (
    "/", "/sessions", "/sessions/{id}", "/sessions/{id}?event=5", "/sessions/{id}?part=turns", "/search?q=hacked",
    "/search?q=evil",
    "/usage?by=session&when=this+year", "/sessions/{id}/rename", "/sessions/{id}/erase",
    "/files", "/files?file={path}", "/timeline?range=hour", "/agents", "/people", "/people?who=mallory",
    "/keys?who=mallory", "/access", "/audit", "/settings", "/sessions/{id}/continue?in=codex",
    "/sessions/{id}/export", "/sessions/{id}/family", "/compare?a={id}",
    "/compare?a={id}&b={session}",
    *(f"/sessions/{{id}}/events/{seq}" for seq in (1, 2, 4, 10, 20, 24)),
)  # fmt: skip


@pytest.mark.parametrize("width", [390, 1400])
def test_no_stored_text_runs_or_leaves(width: int, site: Site, new_tab: Any) -> None:
    tab = new_tab(viewport={"width": width, "height": 900})
    [touched] = [file.path for file in call(site.context, "files", {"path": "*"}) if file.session == site.hostile]
    for path in PATHS:
        page = tab.page
        page.goto(site.address + path.format(id=site.hostile, session=site.session, path=quote(touched)))
        page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        assert page.evaluate("window.hacked") is None, path
        assert not tab.is_wider_than_its_window(), path
        addresses = page.evaluate(
            "['href', 'src', 'action', 'hx-get'].flatMap(name =>"
            " [...document.querySelectorAll(`[${name}]`)].map(element => element.getAttribute(name)))"
        )
        assert all(address.startswith(HARMLESS) for address in addresses)
        foreign = page.locator("a[href^='http']")
        assert all("noopener" in (link.get_attribute("rel") or "") for link in foreign.all())
        assert page.locator("main img, main iframe, main style, main script, [style], [hx-on\\:click]").count() == 0
        for character in ("\x1b", "\u202e", "\u2066", "\x07"):
            assert character not in page.content(), (path, character)
    assert not tab.complaints


def test_a_line_of_ten_million_characters_is_cut_and_can_be_read_whole(site: Site, new_tab: Any) -> None:
    tab = new_tab()
    page = tab.open(f"/sessions/{site.hostile}")
    assert len(page.content()) < 1_500_000
    page.locator(".said.user .rest a").last.click()
    assert "characters 1 to 200,000 of 10,000,000" in page.locator("main").inner_text()
    page.get_by_role("link", name="Later part").click()
    assert "characters 200,001 to 400,000" in page.locator("main").inner_text()
