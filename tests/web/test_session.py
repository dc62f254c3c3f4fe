"""The page of one session: its pieces, map, tabs and images, looking back, and a connection that is lost."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from msgspec import Raw
from playwright.sync_api import expect

from clew.model import events as e
from clew.model.session import Session
from clew.service import call
from clew.store.objects import objects
from server.running import Running
from support.talks import add, opened
from web.conftest import OWN, Site, Tab

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c626001000000ffff03000006000557bfabd40000000049454e44ae426082"
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"><script>window.hacked=1</script></svg>'


def said(text: str) -> e.Body:
    return e.MessageAdded(role="user", text=text)


def called(id: str, tool: str, *, failed: bool = False, message: str = "", path: str = "") -> list[e.Body]:
    touched = (e.Touch(what=path, how="written"),) if path else ()
    edit = Raw(b'{"file_path":"/a.py","old_string":"a","new_string":"b"}')
    return [
        e.CallMade(call=id, tool=tool, message=message, touched=touched, input=edit if path else Raw(b"{}")),
        e.CallReturned(call=id, output=Raw(b'"done %s"' % id.encode()), failed=failed),
    ]


@pytest.fixture(scope="module")
def long(site: Site) -> Session:
    """400 events with a prompt in each turn of ten, one error, one edit and one decision far apart."""
    session = opened(site.context, title="a long one")
    bodies: list[e.Body] = []
    for turn in range(45):
        bodies.append(said(f"prompt number {turn}"))
        for number in range(4):
            id = f"{turn}-{number}"
            is_error, is_edit = id == "20-1", id == "30-2"
            bodies += called(id, "Edit" if is_edit else "Bash", failed=is_error, path="/a.py" if is_edit else "")
        if turn == 40:
            bodies.append(e.DecisionMade(decision="d", choice="the lock stays", why="it is simple"))
    add(site.context, session, *bodies)
    return session


def seqs(page: Any) -> list[int]:
    """The events that have a row, in their order on the page."""
    found: list[int] = page.evaluate("[...document.querySelectorAll('.piece [id^=e]')].map(row => +row.id.slice(1))")
    return found


def test_further_pieces_come_as_one_reads_and_nothing_is_there_twice(site: Site, long: Session, tab: Tab) -> None:
    page = tab.open(f"/sessions/{long.id}")
    head = page.locator(".piece").first.get_attribute("data-head")
    to_end = "() => { scrollTo(0, document.documentElement.scrollHeight); return later.hidden }"
    page.wait_for_function(to_end, polling=50)
    expect(page.locator("#stretch")).to_contain_text(f"to {head} of {head}")
    expect(page.get_by_text("prompt number 44")).to_be_visible()
    assert seqs(page) == sorted(set(seqs(page)))
    assert page.evaluate("document.getElementsByTagName('*').length") < 2000
    expect(page.get_by_text("prompt number 0", exact=True)).to_have_count(0)
    page.locator("#earlier a").last.click()
    expect(page.get_by_text("prompt number 0", exact=True)).to_be_visible()


def test_the_next_error_edit_and_decision_are_a_key_away_wherever_they_are(site: Site, long: Session, tab: Tab) -> None:
    page = tab.open(f"/sessions/{long.id}")
    page.keyboard.press("e")
    expect(page.locator(".call.failed.current")).to_be_in_viewport()
    page.keyboard.press("w")
    expect(page.locator(".call.current .tool")).to_have_text("Edit")
    page.keyboard.press("d")
    expect(page.locator(".mark.current")).to_contain_text("the lock stays")
    page.keyboard.press("E")
    expect(page.locator(".call.failed.current")).to_be_in_viewport()
    page.keyboard.press("n")
    expect(page.locator("[data-prompt].current")).to_contain_text("prompt number 21")


def test_the_map_leads_to_what_is_clicked_and_shows_where_one_is(site: Site, long: Session, tab: Tab) -> None:
    page = tab.open(f"/sessions/{long.id}")
    assert page.locator("#map").inner_text().replace("\n", " ").startswith("45 prompts")
    before = float(page.locator("#map .here").get_attribute("x") or 0)
    page.locator("#map a[href*=event]").nth(30).click()
    expect(page.locator(".current")).to_be_in_viewport()
    assert float(page.locator("#map .here").get_attribute("x") or 0) > before + 500
    assert "event=" in page.url


def test_a_session_is_shown_as_it_was_at_an_event(site: Site, new_tab: Any) -> None:
    tab = new_tab()
    page = tab.open(f"/sessions/{site.session}")
    page.locator(".scrub input").fill("14")
    page.wait_for_url("**?at=14")
    then = page.locator(".then")
    expect(then).to_contain_text("As of event 14 of")
    expect(then).to_contain_text("$0.19")
    assert max(seqs(page)) <= 14
    expect(page.locator("#live")).to_be_hidden()
    page.get_by_role("link", name="Knowledge").click()
    expect(page.locator("#inspector")).to_contain_text("Read outside of the lock")
    expect(page.locator("#inspector")).not_to_contain_text("400 times")
    assert "at=14" in page.url
    assert "tab=knowledge" in page.url
    page.get_by_role("link", name="Now", exact=True).click()
    expect(page.get_by_text("Measure it before and after")).to_be_visible()
    reader = new_tab(java_script_enabled=False).page
    reader.goto(f"{site.address}/sessions/{site.session}?at=14&tab=knowledge")
    assert "As of event 14" in reader.locator(".then").inner_text()
    assert "Read outside of the lock" in reader.locator("#inspector").inner_text()


def test_each_tab_says_what_it_is_for_and_leads_into_the_transcript(site: Site, tab: Tab) -> None:
    page = tab.open(f"/sessions/{site.session}")
    inspector = page.locator("#inspector")
    for name, words in (
        ("Working set", "src/store.py"), ("Usage", "turn at 3"), ("Lineage", "this session"),
        ("Access", "granted to person:owner on everything"), ("Audit", "chain verified"), ("Tools", "Bash"),
    ):  # fmt: skip
        inspector.get_by_role("link", name=name, exact=True).click()
        expect(inspector).to_contain_text(words)
        assert not tab.is_wider_than_its_window()
    inspector.get_by_title("the last one that failed").click()
    expect(page.locator(".call.failed.current")).to_contain_text("database is locked")
    call(site.context, "audit_checkpoint", {})
    inspector.get_by_role("link", name="Audit", exact=True).click()
    expect(inspector).to_contain_text("verified to checkpoint 1")


def test_calls_at_once_are_together_and_reads_are_one_line(site: Site, tab: Tab) -> None:
    looks = [body for number in range(4) for body in called(f"r{number}", "Read" if number else "Grep")]
    at_once = [e.CallMade(call=id, tool="Bash", message="one answer") for id in ("a", "b")]
    backs = [e.CallReturned(call=id, output=Raw(b'"x"')) for id in ("a", "b")]
    session = opened(site.context, said("look"), *looks, *at_once, *backs, title="together")
    page = tab.open(f"/sessions/{session.id}")
    folded = page.locator(".looks")
    expect(folded).to_contain_text("Grep, Read 3:")
    expect(page.locator(".looks .call").first).to_be_hidden()
    folded.locator("summary").first.click()
    expect(page.locator(".looks .call")).to_have_count(4)
    expect(page.locator(".gathered")).to_contain_text("2 calls at once")
    expect(page.locator(".gathered .call")).to_have_count(2)


def test_the_list_beside_shows_what_begins_and_goes_on(site: Site, tab: Tab) -> None:
    call(site.context, "append", {"session": site.session, "drafts": [
        {"kind": "message_added", "role": "user", "text": "so that it is among the newest"}]})  # fmt: skip
    tab.page.add_init_script("window.setInterval = () => 0")  # What comes in comes by the stream alone.
    page = tab.open(f"/sessions/{site.session}")
    id = call(site.context, "open", {"title": "it began beside"}).id
    call(site.context, "append", {"session": id, "drafts": [
        {"kind": "message_added", "role": "user", "text": "go"}]})  # fmt: skip
    expect(page.get_by_role("complementary", name="Sessions").get_by_text("it began beside")).to_be_visible()
    expect(page.locator("#beside .here")).to_have_count(1)


def test_the_list_beside_stays_from_one_session_to_the_next(site: Site, new_tab: Any) -> None:
    tab = new_tab(viewport={"width": 1400, "height": 500})
    page = tab.open(f"/sessions/{site.session}")
    beside = page.locator(".beside")
    beside.evaluate("list => list.scrollTop = 300")
    page.locator(".beside li a").nth(8).click()
    expect(page.locator(".beside .here")).to_be_in_viewport()
    assert beside.evaluate("list => list.scrollTop") > 100
    here = page.url
    page.keyboard.press("]")
    page.wait_for_url(lambda url: url != here)
    page.set_viewport_size({"width": 390, "height": 800})
    expect(beside).to_be_hidden()


# Images ---------------------------------------------------------------------------------------------------------------


def image(site: Site, data: bytes, media_type: str, name: str) -> e.ImagePart:
    return e.ImagePart(blob=objects.put(site.context.store, [data]), media_type=media_type, name=name)


def test_images_are_shown_from_this_server_and_only_pixels(site: Site, new_tab: Any) -> None:
    parts = (image(site, PNG, "image/png", "pixels"), image(site, SVG, "image/svg+xml", "drawing"))
    lie = image(site, SVG, "image/png", "a lie")
    made = e.CallMade(call="1", tool="screenshot")
    shot = e.CallReturned(call="1", output=Raw(b'"taken"'), parts=(image(site, PNG, "image/png", "shot"),))
    session = opened(
        site.context, e.MessageAdded(role="user", text="see", parts=parts), made, shot,
        e.MessageAdded(role="user", text="![x](https://evil.example/x.png) ![y](data:image/png;base64,AAAA)"),
        e.MessageAdded(role="user", text="", parts=(lie,)),
    )  # fmt: skip
    tab = new_tab()
    page = tab.open(f"/sessions/{session.id}")
    expect(page.get_by_role("img", name="image png pixels")).to_have_js_property("naturalWidth", 1)
    page.locator(".call summary").click()
    expect(page.get_by_role("img", name="image png shot")).to_have_js_property("naturalWidth", 1)
    assert page.get_by_text("image svg+xml drawing").is_visible()
    sources = page.evaluate("[...document.images].map(image => image.getAttribute('src'))")
    assert len(sources) == 3
    assert all(source.startswith(f"/sessions/{session.id}/events/") for source in sources)
    page.get_by_role("img", name="a lie").scroll_into_view_if_needed()
    with httpx2.Client(base_url=site.address, headers={"authorization": f"Bearer {OWN}"}) as client:
        good, bad = client.get(sources[0]), client.get(sources[-1])
        assert (good.status_code, good.headers["content-type"]) == (200, "image/png")
        assert good.headers["x-content-type-options"] == "nosniff"
        assert good.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert client.get(sources[0], headers={"if-none-match": good.headers["etag"]}).status_code == 304
        assert bad.status_code == 415
        other = sources[0].replace(session.id, site.session)
        assert client.get(other).status_code == 404
    assert all("415" in complaint for complaint in tab.complaints)
    tab.complaints.clear()


# A lost connection ----------------------------------------------------------------------------------------------------


@pytest.fixture
def own_site(tmp_path: Any) -> Iterator[Site]:
    """A server that a test may stop."""
    running = Running(f"sqlite:///{tmp_path / 'clew.db'}", str(tmp_path), own_secret=OWN)
    with running:
        context = running.authenticator.owner_context()
        yield Site(running, context, opened(context, said("the first"), title="live").id, "", "")


def test_a_lost_connection_is_said_and_the_session_goes_on_by_itself(own_site: Site, browser: Any) -> None:
    context = browser.new_context()
    name = own_site.running.application.identity.cookie
    context.add_cookies([{"name": name, "value": OWN, "url": own_site.address}])
    page = context.new_page()
    page.goto(f"{own_site.address}/sessions/{own_site.session}")
    expect(page.locator("#live:visible #live-text")).to_have_text("live")
    own_site.running.stop()
    expect(page.locator("#lost")).to_be_visible()
    expect(page.locator("#lost")).to_contain_text("The connection was lost")
    own_site.running.start()
    again = own_site.running.authenticator.owner_context()
    add(again, again.store.session(own_site.session), said("while it was away"))
    expect(page.locator("#lost")).to_be_hidden(timeout=20_000)
    expect(page.get_by_text("while it was away")).to_be_visible()
    for text in ("the first", "while it was away"):
        assert page.get_by_text(text, exact=True).count() == 1
    context.close()
