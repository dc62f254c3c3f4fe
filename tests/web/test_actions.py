"""Acting with a browser: in a dialog, without scripts, by keys alone, and two people at once."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from clew.service import call
from support.talks import opened
from web.conftest import OWN, Site, Tab


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
    page.locator(".more-actions summary").click()
    expect(page.get_by_role("link", name="Tag", exact=True)).to_be_visible()
    page.get_by_role("heading", level=1).click()
    expect(page.get_by_role("link", name="Tag", exact=True)).to_be_hidden()
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

    go_to("Skip to the content")
    page.keyboard.press("Enter")
    go_to("More")
    page.keyboard.press("Enter")
    go_to("Tag")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Tag")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    menu = page.locator(".more-actions summary")
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Tag", exact=True)).to_be_hidden()
    page.keyboard.press("Enter")
    go_to("Tag")
    page.keyboard.press("Enter")
    expect(dialog.get_by_label("Tags")).to_be_focused()
    page.keyboard.type("work, client/acme")
    page.keyboard.press("Enter")
    expect(page.locator(".about")).to_contain_text("#client/acme")
    assert set(shown(site, id).session.tags) == {"work", "client/acme"}
    expect(page.locator(".more-actions summary")).to_be_focused()


def test_each_action_of_a_session(site: Site, tab: Tab) -> None:
    id = said(site, "every action")
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
    expect(page.get_by_role("status")).to_contain_text(["Erased"])
    expect(page.locator("#transcript")).not_to_contain_text("go")
    assert shown(site, id).session.state == "erased"
    tab.expect_refusals(1)


def test_a_session_is_continued_elsewhere_with_what_that_costs_told_first(
    site: Site, tab: Tab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / ".codex"))
    page = tab.open(f"/sessions/{site.session}")
    page.get_by_role("link", name="Continue in …").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Continue in Claude Code")
    page.get_by_role("navigation", name="Programs").get_by_role("link", name="Codex CLI").click()
    report = page.locator(".fidelity")
    expect(report).to_contain_text("Carried")
    expect(report).to_contain_text("written as Codex CLI names them")
    expect(page.locator("#command")).to_have_text(f"clew resume {site.session[:10]} --in codex")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.address)
    page.get_by_role("button", name="Copy the command").click()
    expect(page.get_by_role("status")).to_contain_text(["Copied"])
    page.get_by_role("link", name="Write it on this machine").click()
    dialog = page.get_by_role("dialog", name="Write it on this machine")
    expect(dialog.get_by_label("Program")).to_have_value("codex")
    dialog.get_by_label("Folder to work in").fill(str(tmp_path))
    dialog.get_by_role("button", name="Write it on this machine").click()
    written = page.get_by_role("dialog", name="Written")
    command = written.locator("#made-command").inner_text()
    assert command.startswith(f"cd {tmp_path} && codex resume ")
    [file] = (tmp_path / ".codex").rglob("*.jsonl")
    expect(written).to_contain_text(file.name)
    written.get_by_role("link", name="The fork it belongs to").click()
    expect(page.locator(".about")).to_contain_text("codex")


def test_a_session_is_forked_at_the_event_that_is_looked_at(site: Site, tab: Tab) -> None:
    id = said(site, "many ways", *(f"step {number}" for number in range(9)))
    page = tab.open(f"/sessions/{id}")
    row = page.locator("article#e5")
    row.hover()
    row.get_by_label("Fork here, at event 5").click()
    dialog = page.get_by_role("dialog", name="Fork")
    expect(dialog.get_by_label("Last event to share")).to_have_value("5")
    dialog.get_by_role("button", name="Fork").click()
    expect(page.get_by_role("status")).to_contain_text(["Forked"])
    child = page.url.rpartition("/")[2]
    assert shown(site, child).session.upto == 5
    page.goto(f"{site.address}/sessions/{id}/events/3")
    page.get_by_role("link", name="Fork here").click()
    expect(page.get_by_role("dialog", name="Fork").get_by_label("Last event to share")).to_have_value("3")


def test_a_family_is_a_picture_and_a_list_and_two_of_it_are_compared(site: Site, new_tab: Any) -> None:
    id = said(site, "the first way", "look at it", "use a lock", "measure")
    child = call(site.context, "fork", {"session": id, "at": 2, "title": "the second way"}).id
    edit = {"kind": "call_made", "call": "1", "tool": "Edit", "input": {"file_path": "a.py", "old_string": "1"}}
    for session, file in ((id, "a.py"), (child, "b.py")):
        drafts = [
            {"kind": "message_added", "role": "user", "text": f"now {file}"},
            edit | {"input": {"file_path": file, "old_string": "1", "new_string": "2"}},
            edit | {"call": "2", "input": {"file_path": "both.py", "old_string": "1", "new_string": "2"}},
            {"kind": "fact_learned", "fact": file, "text": f"{file} is slow"},
        ]
        call(site.context, "append", {"session": session, "drafts": drafts})
    for has_scripts in (True, False):
        page = new_tab(java_script_enabled=has_scripts).page
        page.goto(f"{site.address}/sessions/{child}")
        choose(page, "Family and compare")
        picture = page.locator("svg.family")
        expect(picture.get_by_role("link", name="the first way")).to_be_visible()
        expect(picture).to_contain_text("forked after event 2")
        kin = page.get_by_role("region", name="The family as a list")
        expect(kin.locator("b")).to_have_text("the second way")
        kin.get_by_role("link", name="compare").click()
        expect(page.locator("main")).to_contain_text("The two share the events 1 to 2")
        facts = page.get_by_role("row", name="Facts it alone has").get_by_role("cell")
        expect(facts.first).to_contain_text("b.py is slow")
        expect(facts.last).to_contain_text("a.py is slow")
        expect(page.get_by_role("row", name="Files it alone touched")).to_contain_text("b.py")
        expect(page.get_by_role("row", name="Files both touched")).to_contain_text("both.py")
        right = page.locator("#right")
        expect(right).to_contain_text("use a lock")
        expect(right).not_to_contain_text("look at it")
        expect(page.locator("#left")).not_to_contain_text("use a lock")
        page.get_by_role("link", name="Change sides").click()
        expect(page.locator("#left")).to_contain_text("use a lock")


def test_a_session_is_taken_along_in_each_form(site: Site, tab: Tab) -> None:
    page = tab.open(f"/sessions/{site.session}")
    choose(page, "Export")
    dialog = page.get_by_role("dialog", name="Export")
    with page.expect_download() as told:
        dialog.get_by_role("link", name="Markdown").click()
    text = Path(told.value.path()).read_text()
    assert told.value.suggested_filename.endswith(".md")
    assert "database is locked" in text


FOREIGN = """<!doctype html><title>foreign</title>
<form method="post" action="{target}"><input name="title" value="forged"><button>Win a prize</button></form>
<script>
const body = new URLSearchParams({{title: "forged"}});
const sent = fetch("{target}", {{method: "POST", mode: "no-cors", credentials: "include", body}}).catch(() => 0);
sent.then(() => document.title = "sent");
</script>"""


class Elsewhere(BaseHTTPRequestHandler):
    """A page of somebody else, on another port of the same machine: browsers send it our cookie's requests, too."""

    page = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def test_a_page_of_another_program_on_this_machine_cannot_act(site: Site, browser: Browser) -> None:
    id = said(site, "not forged")
    Elsewhere.page = FOREIGN.format(target=f"{site.address}/sessions/{id}/rename").encode()
    foreign = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    Thread(target=foreign.serve_forever, daemon=True).start()
    context = browser.new_context()
    try:
        context.add_cookies([{"name": site.running.application.identity.cookie, "value": OWN, "url": site.address}])
        page = context.new_page()
        for host in ("127.0.0.1", "localhost"):
            page.goto(f"http://{host}:{foreign.server_port}/")
            expect(page).to_have_title("sent")
            page.get_by_role("button").click()
            expect(page.get_by_role("alert").or_(page.locator("#login"))).to_be_visible()
            assert shown(site, id).session.title == "not forged"
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    finally:
        context.close()
        foreign.shutdown()
        foreign.server_close()
