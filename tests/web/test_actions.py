"""Acting with a browser: in a dialog, without scripts, by keys alone, and two people at once."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from clew.service import call
from support.talks import opened
from web.conftest import Site, Tab


def said(site: Site, title: str, *texts: str) -> str:
    """A session in which somebody said something."""
    id = opened(site.context, title=title, project="acting").id
    drafts = [{"kind": "message_added", "role": "user", "text": text} for text in texts or ("go",)]
    call(site.context, "append", {"session": id, "drafts": drafts})
    return str(id)


def shown(site: Site, id: str) -> Any:
    return call(site.context, "show", {"session": id})


def choose(page: Page, name: str) -> None:
    """Choose an action of the page, in the menu if it is there."""
    actions = page.get_by_role("navigation", name="Actions")
    if not actions.get_by_text(name, exact=True).is_visible():
        actions.get_by_text("More", exact=True).click()
    actions.get_by_text(name, exact=True).click()


def test_an_action_opens_where_it_was_asked_for_and_the_page_says_what_was_done(site: Site, tab: Tab) -> None:
    id = said(site, "called wrongly")
    page = tab.open(f"/sessions/{id}")
    page.evaluate("window.stays = true")
    choose(page, "Rename")
    dialog = page.get_by_role("dialog", name="Rename")
    expect(dialog).to_contain_text("Gives the session a title of your own")
    expect(dialog.get_by_label("Title")).to_be_focused()
    dialog.get_by_label("Title").fill("called rightly")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text(["Renamed"])
    expect(page.get_by_role("heading", level=1)).to_have_text("called rightly")
    expect(dialog).to_be_hidden()
    assert shown(site, id).session.title == "called rightly"
    assert page.evaluate("window.stays"), "the page was loaded again"
    page.reload()
    expect(page.locator("#toasts p")).to_have_count(0)


def test_without_scripts_an_action_is_a_page_that_asks(site: Site, new_tab: Any) -> None:
    id = said(site, "no scripts")
    tab = new_tab(java_script_enabled=False)
    page = tab.page
    page.goto(f"{site.address}/sessions/{id}")
    choose(page, "Note")
    expect(page.get_by_role("heading", level=1)).to_have_text("Note")
    page.get_by_label("Note").fill("first line\nsecond line")
    page.get_by_role("button", name="Note").click()
    expect(page.get_by_role("status").filter(has_text="Noted")).to_be_visible()
    assert page.url == f"{site.address}/sessions/{id}"
    assert [note.text for note in shown(site, id).notes] == ["first line\nsecond line"]
    page.goto(f"{site.address}/sessions/{id}/erase")
    page.get_by_label("Type no scripts to confirm").fill("no script")
    page.get_by_role("button", name="Erase").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was done: type no scripts")
    page.get_by_label("Type no scripts to confirm").fill("no scripts")
    page.get_by_role("button", name="Erase").click()
    expect(page.get_by_role("status").filter(has_text="Erased")).to_be_visible()
    assert shown(site, id).session.state == "erased"
    page.goto(f"{site.address}/sessions/{id}")
    expect(page.get_by_role("navigation", name="Actions")).to_have_count(0)
    tab.expect_refusals(1)


def test_a_star_needs_no_question(site: Site, tab: Tab) -> None:
    id = said(site, "starry")
    page = tab.open(f"/sessions/{id}")
    page.get_by_role("button", name="Star").click()
    expect(page.get_by_role("button", name="Take the star away")).to_be_visible()
    assert shown(site, id).session.starred
    page.get_by_role("button", name="Take the star away").click()
    expect(page.get_by_role("button", name="Star", exact=True)).to_be_visible()
    assert not shown(site, id).session.starred


def test_a_refusal_is_said_in_place_and_loses_nothing(site: Site, tab: Tab) -> None:
    id = said(site, "contested")
    page = tab.open(f"/sessions/{id}")
    choose(page, "Pause")
    dialog = page.get_by_role("dialog", name="Pause")
    dialog.get_by_label("Why").fill("for lunch")
    call(site.context, "close", {"session": id})
    dialog.get_by_role("button", name="Pause").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The session is closed now")
    dialog.get_by_text("Back").click()
    expect(dialog).to_be_hidden()
    page.reload()
    choose(page, "Rename")
    call(site.context, "title", {"session": id, "title": "by somebody else"})
    dialog = page.get_by_role("dialog", name="Rename")
    dialog.get_by_label("Title").fill("mine")
    dialog.get_by_role("button", name="Rename").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Title is now 'by somebody else'")
    expect(dialog.get_by_label("Title")).to_have_value("mine")
    dialog.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("mine")
    tab.expect_refusals(2)


def test_a_lost_connection_keeps_what_was_written(site: Site, tab: Tab) -> None:
    id = said(site, "far away")
    page = tab.open(f"/sessions/{id}")
    choose(page, "Note")
    dialog = page.get_by_role("dialog", name="Note")
    dialog.get_by_label("Note").fill("a long thought")
    page.context.set_offline(True)
    dialog.get_by_role("button", name="Note").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The server did not answer")
    page.context.set_offline(False)
    dialog.get_by_role("button", name="Note").click()
    expect(page.locator(".notes")).to_contain_text("a long thought")
    assert len(shown(site, id).notes) == 1
    tab.expect_refusals(1)


def test_a_session_is_worked_with_by_keys_alone(site: Site, tab: Tab) -> None:
    id = said(site, "by keys")
    page = tab.open(f"/sessions/{id}")

    def go_to(name: str) -> None:
        for _ in range(60):
            if page.evaluate("document.activeElement?.textContent.trim()") == name:
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {name}")

    go_to("More")
    page.keyboard.press("Enter")
    go_to("Tag")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Tag")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.locator("body").press("Home")
    go_to("More")
    page.keyboard.press("Enter")
    go_to("Tag")
    page.keyboard.press("Enter")
    expect(dialog.get_by_label("Tags")).to_be_focused()
    page.keyboard.type("work, client/acme")
    page.keyboard.press("Enter")
    expect(page.locator(".about")).to_contain_text("#client/acme")
    assert set(shown(site, id).session.tags) == {"work", "client/acme"}


@pytest.mark.parametrize("has_scripts", [True, False], ids=["with scripts", "without"])
def test_each_action_of_a_session(has_scripts: bool, site: Site, new_tab: Any) -> None:
    id = said(site, "every action")
    tab = new_tab(java_script_enabled=has_scripts)
    page = tab.page
    page.goto(f"{site.address}/sessions/{id}")

    def do(name: str, button: str = "", **fields: str) -> None:
        choose(page, name)
        form = page.locator("form.act")
        for label, value in fields.items():
            field = form.get_by_label(label.replace("_", " "))
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(label=value)
            else:
                field.fill(value)
        form.get_by_role("button", name=button or name, exact=True).click()
        expect(form).to_have_count(0)

    do("Tag", Tags="one two")
    do("Take a tag away", Tag="one")
    do("Remember a fact", Fact="the build needs node 22", Where_it_holds="its project")
    do("Pause", Why="waiting for the review")
    do("Resume", Why="it came")
    do("Note", Note="ask bo")
    page.get_by_label("Remove this note").click()
    page.locator("form.act").get_by_role("button", name="Remove the note").click()
    expect(page.locator(".notes")).to_have_count(0)
    do("Close", Outcome="failed", Summary="gave up")
    detail = shown(site, id)
    assert (detail.session.tags, detail.session.state, detail.session.outcome) == (("two",), "closed", "failed")
    assert [fact.text for fact in detail.facts] == ["the build needs node 22"]
    assert not detail.notes
    do("Archive")
    assert shown(site, id).session.state == "archived"
    do("Fork", Last_event_to_share="2", Title="the other way")
    expect(page.get_by_role("heading", level=1)).to_have_text("the other way")
    assert page.url != f"{site.address}/sessions/{id}"
    assert shown(site, id).forks[0][1] == 2
    page.goto(f"{site.address}/sessions/{id}")
    choose(page, "Erase")
    form = page.locator("form.act")
    expect(form).to_contain_text("1 session was forked from it")
    form.get_by_label("Type every action to confirm").fill("every action")
    form.get_by_role("button", name="Erase").click()
    expect(form.get_by_role("alert")).to_contain_text("erase the forks first")
    form.get_by_label("Erase the sessions that were forked from it, too").check()
    form.get_by_role("button", name="Erase").click()
    expect(form).to_have_count(0)
    assert shown(site, id).session.state == "erased"
    tab.expect_refusals(1)
