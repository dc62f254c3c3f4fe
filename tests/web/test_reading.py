"""Reading with a browser: keys, times, themes, links to events, what comes in live."""

from typing import Any

from playwright.sync_api import expect

from clew.server.web.navigation import MENU
from clew.service import call
from support.talks import opened
from web.conftest import Site, Tab


def test_a_person_finds_and_opens_a_session_with_keys_alone(site: Site, tab: Tab) -> None:
    page = tab.open("/sessions")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.locator("tr[data-row]").first
    expect(first).to_have_class("current")
    path = first.get_by_role("link").first.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site.address}{path}")
    page.keyboard.press("/")
    page.keyboard.type("locked")
    page.keyboard.press("Enter")
    expect(page.locator("mark").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("u")
    expect(page.get_by_role("heading", level=1)).to_have_text("Usage")


def test_the_next_error_and_prompt_are_a_key_away(site: Site, tab: Tab) -> None:
    page = tab.open(f"/sessions/{site.session}")
    page.keyboard.press("e")
    expect(page.locator(".call.failed")).to_have_class("call failed current")
    page.keyboard.press("Enter")
    expect(page.locator(".call.failed")).to_have_attribute("open", "")
    page.keyboard.press("n")
    expect(page.locator("[data-prompt].current")).to_contain_text("Measure it before and after")


def test_a_search_inside_a_session_leads_to_the_place_without_leaving(site: Site, tab: Tab) -> None:
    page = tab.open(f"/sessions/{site.session}")
    page.keyboard.press("f")
    page.keyboard.type("database locked")
    expect(page.locator("#found mark").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".call.failed.current")).to_have_attribute("open", "")
    assert page.url.startswith(f"{site.address}/sessions/{site.session}?event=")


def test_a_link_to_an_event_opens_what_it_is_in(site: Site, tab: Tab) -> None:
    page = tab.open(f"/sessions/{site.session}?event=10#e10")
    failed = page.locator(".call.failed")
    expect(failed).to_have_attribute("open", "")
    expect(failed.get_by_text("database is locked")).to_be_in_viewport()


def test_times_are_those_of_the_reader(site: Site, new_tab: Any) -> None:
    shown = set()
    for zone in ("Asia/Kathmandu", "America/New_York"):
        page = new_tab(timezone_id=zone).open(f"/sessions/{site.session}")
        time = page.locator(".inspector time").first
        shown.add(time.inner_text())
        assert "UTC" not in time.inner_text()
        assert time.get_attribute("title")
    assert len(shown) == 2


def test_a_theme_stays_chosen(site: Site, new_tab: Any) -> None:
    tab = new_tab(color_scheme="light")
    page = tab.open("/")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Change between light and dark").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    assert tab.open("/usage").evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_on_a_phone_the_menu_leads_to_each_page(site: Site, new_tab: Any) -> None:
    tab = new_tab(viewport={"width": 390, "height": 800})
    for name in (*(entry.name for entry in MENU if entry.path != "/"), "Home"):
        page = tab.page if tab.page.url.startswith("http") else tab.open("/")
        page.get_by_label("Menu", exact=True).click()
        page.get_by_role("navigation", name="Menu on a phone").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_what_happens_in_a_session_comes_in_and_a_pause_holds_it(site: Site, tab: Tab) -> None:
    id = opened(site.context, title="a live one").id
    say = lambda text: call(site.context, "append", {"session": id, "drafts": [  # noqa: E731
        {"kind": "message_added", "role": "user", "text": text}]})  # fmt: skip
    say("the first")
    page = tab.open(f"/sessions/{id}")
    expect(page.locator("#live:visible #live-text")).to_have_text("live")
    say("the second")
    expect(page.get_by_text("the second")).to_be_visible()
    call(site.context, "append", {"session": id, "drafts": [{"kind": "call_made", "call": "1", "tool": "slow"}]})
    call_row = page.locator(".call")
    expect(call_row).to_contain_text("no return")
    call_row.locator("summary").click()
    call(site.context, "append", {"session": id, "drafts": [
        {"kind": "call_returned", "call": "1", "output": "it is done"}]})  # fmt: skip
    expect(page.get_by_text("it is done")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    say("the third")
    expect(page.locator("#live-text")).to_have_text("1 new event")
    assert page.get_by_text("the third").count() == 0
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("the third")).to_be_visible()
    assert [page.get_by_text(text, exact=True).count() for text in ("the second", "the third")] == [1, 1]


def test_a_turn_longer_than_a_page_grows_at_its_end(site: Site, tab: Tab) -> None:
    id = opened(site.context, title="a long turn").id
    calls = [{"kind": "call_made", "call": str(number), "tool": f"tool{number}"} for number in range(150)]
    call(site.context, "append", {"session": id, "drafts": [
        {"kind": "message_added", "role": "user", "text": "go"}, *calls]})  # fmt: skip
    page = tab.open(f"/sessions/{id}?backward=9999")
    expect(page.locator("#live:visible #live-text")).to_have_text("live")
    rows = page.locator(".call").count()
    call(
        site.context, "append", {"session": id, "drafts": [{"kind": "call_made", "call": "x", "tool": "the last one"}]}
    )
    expect(page.locator(".call").last).to_contain_text("the last one")
    assert page.locator(".call").count() == rows + 1


def test_older_sessions_come_as_they_are_needed(site: Site, tab: Tab) -> None:
    for number in range(60):
        opened(site.context, title=f"many {number}", project="many")
    page = tab.open("/sessions?project=many&empty=yes")
    rows = page.locator("tr[data-row]")
    expect(rows).to_have_count(50)
    page.locator(".more a").scroll_into_view_if_needed()
    expect(rows).to_have_count(60)
    expect(page.locator(".more")).to_have_count(0)


def test_filters_are_written_as_on_the_command_line(site: Site, tab: Tab) -> None:
    page = tab.open("/sessions")
    page.get_by_label("Filter", exact=True).fill("runtime:claude-code error:yes")
    page.keyboard.press("Enter")
    chips = page.get_by_role("list", name="Filters")
    expect(chips).to_contain_text("runtime: claude-code")
    expect(chips).to_contain_text("failed: true")
    assert set(page.locator("td [data-runtime]:visible").all_inner_texts()) == {"claude-code"}
    page.get_by_role("link", name="Without failed").click()
    expect(page.get_by_role("list", name="Filters")).not_to_contain_text("failed")


def test_a_subagent_unfolds_where_it_was_called(site: Site, tab: Tab) -> None:
    mother = opened(site.context, title="a mother", metadata='{"runtime":"x","native":"mother"}')
    child = opened(site.context, title="a child", metadata='{"runtime":"x","native":"child","parent":"mother"}')
    for session, text in ((mother, "ask somebody"), (child, "what the child was asked")):
        call(site.context, "append", {"session": session.id, "drafts": [
            {"kind": "message_added", "role": "user", "text": text}]})  # fmt: skip
    page = tab.open(f"/sessions/{mother.id}")
    page.locator(".subagent > summary").click()
    expect(page.locator(".nested")).to_contain_text("what the child was asked")
