"""Nothing that is stored runs in a browser, leaves it, or breaks a page."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import clew.server.web.pages
from clew.server.web.navigation import PAGES
from clew.service import call
from web.addresses import ASKING, filled_in, samples, unnamed
from web.conftest import Site, Tab
from web.hostile import CONTROLS, DEEP, HTML, LINKS, SVG

HARMLESS = ("/", "?", "#", "https://", "http://", "mailto:", "data:,")
WIDTHS = (1400, 390)
PATHS = (
    "/", "/sessions", "/sessions/{id}", "/sessions/{id}?event=5", "/sessions/{id}?part=turns",
    "/sessions/{id}?part=beside",
    *(f"/sessions/{{id}}?tab={tab}&at=20" for tab in ("knowledge", "files", "usage", "tools", "lineage", "audit")),
    "/sessions/{id}?q=hacked&at=25", "/search?q=hacked",
    "/search?q=evil", "/search?part=facets&q=hacked", "/search?part=results&q=hack", "/palette?q=hacked",
    "/?part=spent",
    "/usage?part=more&when=this+year", "/bulk/tag?session={id}", "/bulk/export?session={id}", "/sessions?sort=duration",
    "/usage?by=session&when=this+year", "/sessions/{id}/rename", "/sessions/{id}/erase",
    "/files", "/files?file={path}", "/timeline?range=hour", "/agents", "/people", "/people?who=mallory",
    "/keys?who=mallory", "/access", "/audit", "/settings",
    "/settings?part=snapshots", "/sessions/{id}/continue?in=codex",
    *(f"/sessions/{{id}}/workspace?{query}" for query in (
        "at={first}", "at={first}&path=line.js", "path=long.js", "path=mixed.txt&view=blame", "path=to", "path=x.svg",
        "path=caf%5Cxe9%5Cxff.png", "view=snapshots", "view=changes", "at={second}&path={deep}")),
    "/sessions/{id}/workspace/restore?at={first}", "/sessions/{id}/workspace/checkout?at={first}",
    "/sessions/{id}/export", "/sessions/{id}/family", "/compare?a={id}",
    "/compare?a={id}&b={session}",
    *(f"/sessions/{{id}}/events/{seq}" for seq in (1, 2, 4, 10, 20, 24)),
)  # fmt: skip


# What pages read from their address: an attack in each name of a value.
NAMES = {"session", "since", "project"} | {
    name
    for path in Path(clew.server.web.pages.__file__).parent.rglob("*.py")
    for name in re.findall(r"""query(?:\.get\(|\[)["'](\w+)["']""", path.read_text())
}


def test_no_stored_text_runs_or_leaves(site: Site, new_tab: Any) -> None:
    tab = new_tab()
    touched = next(file.path for file in call(site.context, "files", {"path": "*"}) if file.session == site.hostile)
    snapshots = call(site.context, "workspace_log", {"session": site.hostile})
    first, second = (str(seq) for seq in sorted(kept.seq for kept in snapshots)[-2:])
    about = {**samples(site), "id": site.hostile, "path": quote(touched), "deep": quote("/".join(DEEP))}
    about |= {"first": first, "second": second}
    named = [filled_in(path, about) for path in PATHS]
    others = [filled_in(path, samples(site, site.hostile)) for path in (*unnamed(list(PATHS)), *ASKING)]
    for address in (*named, *others):
        if tab.shows(address):
            look(tab, address, WIDTHS)
    assert not tab.complaints


def test_no_text_of_an_address_runs_or_leaves(site: Site, new_tab: Any) -> None:
    tab = new_tab(viewport={"width": 390, "height": 900})
    about = samples(site)
    attacked = []
    for entry in PAGES:
        for attack in (HTML + SVG, LINKS + CONTROLS):
            attacked.append(f"{filled_in(entry.path, about)}?{urlencode(dict.fromkeys(NAMES, attack))}")
        for name in about:
            if f"{{{name}}}" in entry.path:
                attacked.append(filled_in(entry.path, {**about, name: "%3Cscript%3Ewindow.hacked=1%3C%2Fscript%3E"}))
    for address in attacked:
        if tab.shows(address, may_refuse=True):
            look(tab, address)
    # A browser reports the status of a refusal as an error of its own.
    tab.complaints = [complaint for complaint in tab.complaints if "Failed to load resource" not in complaint]


def look(tab: Tab, address: str, widths: tuple[int, ...] = (390,)) -> None:
    """Open a page, unfold everything, and look whether what attacks is still text."""
    page = tab.page
    page.goto(tab.site.address + address)
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    page.wait_for_function("!document.querySelector('details[open] > .inside > noscript')")
    assert page.evaluate("window.hacked") is None, address
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert not tab.is_wider_than_its_window(), (address, width)
    addresses = page.evaluate(
        "['href', 'src', 'action', 'formaction', 'hx-get', 'hx-post'].flatMap(name =>"
        " [...document.querySelectorAll(`[${name}]`)].map(element => element.getAttribute(name)))"
    )
    assert all(found.startswith(HARMLESS) for found in addresses), address
    foreign = page.evaluate("[...document.querySelectorAll(\"a[href^='http']\")].map(link => link.rel)")
    assert all("noopener" in rel for rel in foreign), address
    assert (
        page.locator(
            "main img:not([src^='/sessions/']), main iframe, main style, main script, [style], [hx-on\\:click]"
        ).count()
        == 0
    )
    content = page.content()
    for character in ("\x1b", "\u202e", "\u2066", "\x07"):
        assert character not in content, (address, character)


def test_a_line_of_ten_million_characters_is_cut_and_can_be_read_whole(site: Site, new_tab: Any) -> None:
    tab = new_tab()
    page = tab.open(f"/sessions/{site.hostile}")
    assert len(page.content()) < 1_500_000
    page.locator(".said.user .rest a").last.click()
    assert "characters 1 to 200,000 of 10,000,000" in page.locator("main").inner_text()
    page.get_by_role("link", name="Later part").click()
    assert "characters 200,001 to 400,000" in page.locator("main").inner_text()
