"""Finding with a browser: the list and what is done with many, search while typing, the palette, usage, home."""

import re
import zipfile
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from clew.server.web.pages import exporting
from clew.service import call
from server.running import Running
from support.samples import UUID, samples
from support.talks import opened
from web.conftest import OWN, Site, Tab

# Without its clock a page changes by the stream of changes alone.
WITHOUT_POLLING = "window.setInterval = () => 0"


def say(site: Site, id: str, text: str) -> None:
    call(site.context, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": text}]})


def got(site: Site, path: str) -> httpx2.Response:
    cookie = f"{site.running.application.identity.cookie}={OWN}"
    return httpx2.get(site.address + path, headers={"cookie": cookie, "accept": "text/html"})


# The list -------------------------------------------------------------------------------------------------------------


def test_a_column_sorts_and_the_order_is_in_the_address(site: Site, tab: Tab) -> None:
    page = tab.open("/sessions?project=shop")
    page.get_by_role("columnheader", name="Turns").get_by_role("link").click()
    expect(page).to_have_url(f"{site.address}/sessions?project=shop&sort=turns")
    expect(page.get_by_role("columnheader", name="Turns")).to_have_attribute("aria-sort", "descending")
    turns = [int(text) for text in page.locator("tr[data-row] td:nth-child(7)").all_inner_texts()]
    assert turns == sorted(turns, reverse=True)
    assert len(set(turns)) > 1


def test_the_list_says_how_many_empty_sessions_it_hides(site: Site, tab: Tab) -> None:
    for number in range(2):
        opened(site.context, title="", project="bare", metadata=f'{{"runtime":"codex","native":"bare{number}"}}')
    say(site, opened(site.context, title="not bare", project="bare").id, "something")
    page = tab.open("/sessions?project=bare")
    expect(page.locator("#count")).to_have_text("1 session; 2 empty ones are hidden. Show all")
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("tr[data-row]")).to_have_count(3)


def test_many_sessions_are_tagged_at_once_by_key(site: Site, tab: Tab) -> None:
    for number in range(3):
        say(site, opened(site.context, title=f"bulk {number}", project="bulk").id, "something")
    page = tab.open("/sessions?project=bulk")
    expect(page.get_by_role("form", name="With the chosen sessions")).to_be_hidden()
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.locator("#bulk-count")).to_have_text("2 chosen:")
    page.get_by_role("button", name="Tag", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("bulk 2; bulk 1")
    dialog.get_by_label("Tags").fill("many/at-once")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="#many/at-once")).to_have_count(2)
    assert len(call(site.context, "sessions", {"tag": "many/at-once"})) == 2


def test_many_sessions_are_exported_as_one_archive(site: Site, tab: Tab) -> None:
    ids = [opened(site.context, title=f"kept {number}", project="kept").id for number in range(2)]
    for id in ids:
        say(site, id, f"words of {id}")
    page = tab.open("/sessions?project=kept")
    for key in "jxjx":
        page.keyboard.press(key)
    page.get_by_role("button", name="Export", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("dialog").get_by_role("link", name="Markdown").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        texts = {name.partition("/")[0]: archive.read(name).decode() for name in archive.namelist()}
    assert texts.keys() == set(ids)
    assert all(f"words of {id}" in text for id, text in texts.items())


def test_an_archive_that_no_memory_should_hold_is_refused(
    site: Site, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "MOST_BYTES", 100)
    id = opened(site.context, title="large", project="large").id
    say(site, id, "words " * 100)
    answer = tab.page.request.get(f"{site.address}/bulk/export?as=markdown&session={id}")
    assert answer.status == 413
    assert "choose fewer" in answer.text()


def test_without_scripts_many_are_chosen_with_a_form(site: Site, new_tab: Any) -> None:
    page = new_tab(java_script_enabled=False).page
    id = opened(site.context, title="by form", project="by-form").id
    say(site, id, "something")
    page.goto(f"{site.address}/sessions?project=by-form")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Star").click()
    page.get_by_role("button", name="Star").click()
    assert [line.starred for line in call(site.context, "sessions", {"project": "by-form"})] == [True]


def test_the_list_changes_as_sessions_do_and_keeps_what_is_chosen(site: Site, tab: Tab) -> None:
    first = opened(site.context, title="the first of a live list", project="live-list").id
    say(site, first, "something")
    tab.page.add_init_script(WITHOUT_POLLING)
    page = tab.open("/sessions?project=live-list")
    page.keyboard.press("j")
    page.keyboard.press("x")
    say(site, opened(site.context, title="one that comes in", project="live-list").id, "something")
    rows = page.locator("tr[data-row]")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("one that comes in")
    expect(rows.last.get_by_role("checkbox")).to_be_checked()
    expect(page.locator("#count")).to_have_text("2 sessions")


def test_a_view_follows_its_person_from_one_browser_to_another(site: Site, tab: Tab, new_tab: Any) -> None:
    other = new_tab(java_script_enabled=False).page
    other.goto(f"{site.address}/sessions?runtime=codex&sort=cost")
    other.get_by_label("Name of this view").fill("Codex, what cost most")
    other.keyboard.press("Enter")
    expect(other.locator("#saved [aria-current]")).to_have_text("Codex, what cost most")
    page = tab.open("/sessions")
    expect(page.get_by_label("Name of this view")).to_be_hidden()
    page.get_by_role("link", name="Codex, what cost most").click()
    expect(page).to_have_url(f"{site.address}/sessions?runtime=codex&sort=cost")
    expect(page.get_by_label("Name of this view")).to_be_hidden()
    page.get_by_role("button", name="Remove the view Codex, what cost most").click()
    expect(page.get_by_label("Name of this view")).to_be_visible()
    expect(page.get_by_role("link", name="Codex, what cost most")).to_have_count(0)


# Search ---------------------------------------------------------------------------------------------------------------


def test_results_come_while_somebody_types_and_the_address_has_them(site: Site, tab: Tab) -> None:
    page = tab.open("/search")
    page.keyboard.press("/")
    page.keyboard.type("lock fail proj", delay=5)
    page.keyboard.press("Control+a")
    page.keyboard.type("measu project:shop", delay=5)
    expect(page.locator("mark").first).to_have_text("measure", ignore_case=True)
    expect(page.get_by_role("list", name="Filters")).to_contain_text("project: shop")
    assert "measu" in page.url
    page.reload()
    expect(page.locator("mark").first).to_have_text("measure", ignore_case=True)


def test_facets_have_counts_and_narrow_down(site: Site, tab: Tab) -> None:
    page = tab.open("/search?q=lock")
    facets = page.get_by_role("complementary", name="Narrow down")
    returned = facets.get_by_role("listitem").filter(has_text="returned")
    count = int(returned.locator("small").inner_text())
    returned.get_by_role("link").click()
    expect(page.locator("#results .note").first).to_have_text(re.compile(rf"^{count} hits?$"))


def test_more_hits_of_a_session_come_without_leaving(site: Site, tab: Tab) -> None:
    page = tab.open("/search?q=lock")
    section = page.locator(".hits").filter(has=page.locator(f"h2 a[href='/sessions/{site.session}']"))
    before = section.locator("li").count()
    section.get_by_role("link", name="more in this session").click()
    expect(section.locator("li").nth(before)).to_be_visible()
    expect(page).to_have_url(f"{site.address}/search?q=lock")


# The palette ----------------------------------------------------------------------------------------------------------


def palette(page: Page, words: str) -> Any:
    page.keyboard.press("Control+k")
    page.keyboard.type(words, delay=5)
    return page.get_by_role("dialog", name="Go to")


def test_the_palette_leads_to_sessions_pages_and_operations(site: Site, tab: Tab) -> None:
    page = tab.open("/")
    dialog = palette(page, "usag")
    expect(dialog.get_by_role("link", name="Usage", exact=True)).to_have_attribute("aria-current", "true")
    expect(dialog.get_by_role("link", name="usage blocks")).to_have_attribute("href", "/docs#usage_blocks")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.address}/usage")
    dialog = palette(page, site.session[:8])
    expect(dialog.get_by_role("link").first).to_contain_text("Why does the lock test fail now and then?")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.address}/sessions/{site.session}")
    dialog = palette(page, "renam")
    expect(dialog).to_contain_text("On this page")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Title")).to_be_visible()


# Usage and home -------------------------------------------------------------------------------------------------------


def test_usage_has_weeks_budgets_windows_and_a_file_for_spreadsheets(site: Site, tab: Tab) -> None:
    page = tab.open("/usage?when=90+days&by=project")
    expect(page.get_by_role("heading", name="Budgets")).to_be_visible()
    expect(page.get_by_role("heading", name="Windows of five hours")).to_be_visible()
    days = page.locator(".stacks g").count()
    page.locator(".stacks .over").last.hover(timeout=5000)
    expect(page.locator(".tip.on")).to_contain_text("$")
    page.get_by_role("navigation", name="Each").get_by_role("link", name="week").click()
    expect(page.locator(".ends span").first).to_contain_text("-W")
    assert page.locator(".stacks g").count() < days
    table = got(site, page.get_by_role("link", name="CSV").get_attribute("href") or "")
    assert table.headers["content-disposition"] == 'attachment; filename="usage.csv"'
    heading, *rows = table.text.splitlines()
    assert heading.startswith("week,project,answers,input,output")
    assert rows
    assert not any("=" in row.split(",")[1][:1] for row in rows)


def test_home_shows_what_needs_somebody_and_when_agents_work(site: Site, tab: Tab) -> None:
    tab.page.add_init_script(WITHOUT_POLLING)
    page = tab.open("/")
    for name in ("Waiting for you", "Over budget", "Failed", "Running now", "By hour of the week"):
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.locator(".week rect")).to_have_count(7 * 24)
    failing = opened(site.context, title="one that has just failed").id
    say(site, failing, "do it")
    call(site.context, "close", {"session": failing, "outcome": "failed"})
    expect(page.locator("#needs").get_by_role("link", name="one that has just failed")).to_be_visible()


def test_an_empty_store_captures_what_is_on_the_machine(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    [(name, data)] = samples("pi").items()
    id = msgspec.json.decode(data.splitlines()[0])["id"]
    for number in range(30):
        path = tmp_path / ".pi/agent" / name.replace(UUID, f"{UUID[:-2]}{number:02}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.replace(id.encode(), f"{id[:-2]}{number:02}".encode()))
    with Running(f"sqlite:///{tmp_path / 'clew.db'}", str(tmp_path), own_secret=OWN) as running:
        page = browser.new_page()
        cookie = {"name": running.application.identity.cookie, "value": OWN, "url": running.address}
        page.context.add_cookies([cookie])  # type: ignore[list-item]  # The names of a cookie are those that it takes.
        page.goto(running.address)
        expect(page.get_by_role("heading", name="30 files of agent programs on this machine")).to_be_visible()
        page.get_by_role("button", name="Capture them").click()
        expect(page.get_by_role("heading", name="Recent work")).to_be_visible(timeout=20_000)
        assert len(call(running.authenticator.owner_context(), "sessions", {})) == 30
        page.context.close()
