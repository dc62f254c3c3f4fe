"""Pages act: as who is logged in, only for a page of this server, once, and with a reason where they do not."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from clew.server.options import LOOPBACK_NAMES
from clew.server.web.action import Servers
from clew.server.web.navigation import ACTIONS
from clew.service import call
from clew.service.access.key_text import new_token
from clew.service.kernel.registry import operation_named
from server.running import OWNER, Running, viewer, writer

PAGE = {"Accept": "text/html"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """What `clew up` serves."""
    home = tmp_path_factory.mktemp("own")
    with Running(
        f"sqlite:///{home / 'clew.db'}", str(home), own_secret=new_token("up").text, hosts=LOOPBACK_NAMES
    ) as running:
        yield running


@contextmanager
def browser_of(running: Running, principal: str = OWNER) -> Iterator[httpx2.Client]:
    """The browser of somebody who is logged in at a server of a team."""
    assert running.owner
    secret = running.authenticator.new_login_secret(principal, given_by=OWNER)
    with running.client() as browser:
        browser.headers["Origin"] = running.address
        assert browser.post("/login", json={"token": secret}).status_code == 200
        yield browser


def titled(running: Running, title: str = "before", **fields: str) -> str:
    return str(call(running.owner, "open", {"title": title, **fields}).id)


def title_of(running: Running, id: str) -> str:
    return str(call(running.owner, "show", {"session": id}).session.title)


def test_an_action_is_declared_with_what_its_operation_takes() -> None:
    keys = [action.key for action in ACTIONS]
    assert len(set(keys)) == len(keys)
    for action in ACTIONS:
        operation = operation_named(action.operation)
        known = {parameter.name for parameter in operation.parameters}
        named = {field.name for field in action.fields} | set(action.fixed) | set(re.findall(r"\{(\w+)\}", action.path))
        named |= {action.each} - {""}
        assert named <= known, action.path
        needed = {parameter.name for parameter in operation.parameters if parameter.required}
        assert needed <= named, action.path
        assert not operation.route.startswith("GET "), action.path
        assert action.will.endswith("."), action.path


def test_no_page_of_another_site_acts(running: Running, own: Running) -> None:
    """Not with a form, a script or a frame, nor under a name that it made point here."""
    port = own.address.rpartition(":")[2]
    with browser_of(running) as browser, own.own_browser() as mine:
        for client, server in ((browser, running), (mine, own)):
            id = titled(server)
            form = {"title": "forged"}
            origin = {"Origin": "https://evil.example"}
            attempts: list[dict[str, str]] = [
                origin, {"Origin": "null"}, {"Origin": f"{server.address}.evil.example"},
                {"Origin": f"http://127.0.0.1:{int(port) % 60000 + 1}"},
                {"Origin": server.address, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
                {"Origin": server.address, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
            ]  # fmt: skip
            for headers in attempts:
                answer = client.post(f"/sessions/{id}/rename", data=form, headers={**PAGE, **headers})
                assert answer.status_code == 403, headers
                assert "a page of another site" in answer.text
                assert answer.headers["content-type"].startswith("text/html")
            present = client.headers.pop("Origin")
            assert client.post(f"/sessions/{id}/rename", data=form).status_code == 403
            assert title_of(server, id) == "before"
            client.headers["Origin"] = present
            simple = client.post(
                f"/sessions/{id}/rename", content="title=forged", headers={"Content-Type": "text/plain"}
            )
            assert simple.status_code == 400
            assert client.post(f"/sessions/{id}/rename", data={"title": "after"}).status_code == 303
            assert title_of(server, id) == "after"
        rebound = f"evil.example:{port}"
        answer = mine.post(
            f"/sessions/{id}/rename", data=form, headers={"Host": rebound, "Origin": f"http://{rebound}"}
        )
        assert answer.status_code == 403
        assert title_of(own, id) == "after"


def test_a_link_asks_and_never_acts(running: Running) -> None:
    id = titled(running)
    with browser_of(running) as browser:
        for action in ACTIONS:
            if action.servers is Servers.OWN:
                continue
            path = action.address({"session": id, "note": "n", "grant": "1", "key": "k", "job": "j"})
            answer = browser.get(f"{path}?title=forged&typed={id[:10]}", headers=PAGE)
            assert answer.status_code in (200, 405), path
    detail = call(running.owner, "show", {"session": id})
    assert (detail.session.title, detail.session.state, detail.session.head) == ("before", "opened", 1)


def test_nobody_acts_without_a_login(running: Running) -> None:
    id = titled(running)
    with running.client() as nobody:
        nobody.headers["Origin"] = running.address
        for answer in (nobody.get(f"/sessions/{id}/erase"), nobody.post(f"/sessions/{id}/erase", data={"typed": id})):
            assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert title_of(running, id) == "before"


def test_who_may_only_read_is_offered_nothing_and_refused_with_the_reason(running: Running) -> None:
    id = titled(running, project="p")
    call(running.owner, "append", {"session": id, "drafts": [{"kind": "message_added", "role": "user", "text": "go"}]})
    running.key("person:ann", viewer("person:ann", project="p"))
    running.key("person:far", writer("person:far", project="q"))
    with browser_of(running, "person:ann") as ann, browser_of(running, "person:far") as far:
        page = ann.get(f"/sessions/{id}").text
        assert not re.search(rf"/sessions/{id}/(fork|rename|note|pause|close|erase|link)\"", page)
        for part in (page, ann.get(f"/sessions/{id}?part=turns").text):
            assert f"/sessions/{id}/fork?at=" not in part  # Fork here, beside each event.
        assert f"/sessions/{id}/export" in page
        refused = ann.post(f"/sessions/{id}/rename", data={"title": "hers"}, headers=PAGE)
        assert refused.status_code == 403
        assert "title was refused" in refused.text
        assert 'value="hers"' in refused.text
        assert far.post(f"/sessions/{id}/rename", data={"title": "theirs"}, headers=PAGE).status_code == 404
    assert title_of(running, id) == "before"


def test_what_a_page_does_is_recorded_as_done_by_who_is_logged_in(running: Running) -> None:
    id = titled(running, project="p")
    running.key("person:ben", writer("person:ben", project="p"))
    with browser_of(running, "person:ben") as ben, browser_of(running) as owner:
        assert ben.post(f"/sessions/{id}/note", data={"text": "looked at it"}).status_code == 303
        [note] = call(running.owner, "notes", {"session": id}).notes
        assert (note.by, note.text) == ("person:ben", "looked at it")
        assert owner.post(f"/sessions/{id}/erase", data={"typed": "before"}).status_code == 303
    recorded = call(running.owner, "audit_log", {"limit": 5})
    assert any((entry.operation, entry.target) == ("erase", id) for entry in recorded.entries)


def test_a_form_that_is_sent_twice_acts_once(running: Running) -> None:
    id = titled(running)
    with browser_of(running) as browser:
        asked = browser.get(f"/sessions/{id}/fork").text
        once = re.search(r'name="once" value="(\w+)"', asked)
        assert once is not None
        form = {"at": "1", "title": "", "once": once[1]}
        first, second = (browser.post(f"/sessions/{id}/fork", data=form) for _ in range(2))
        assert first.status_code == second.status_code == 303
        assert first.headers["location"] == second.headers["location"]
        refused = browser.post(f"/sessions/{id}/fork", data={"at": "99", "once": "another"}, headers=PAGE)
        assert refused.status_code >= 400
        assert browser.post(f"/sessions/{id}/fork", data={"at": "1", "once": "another"}).status_code == 303
    assert len(call(running.owner, "show", {"session": id}).forks) == 2


def test_the_second_of_two_people_sees_why_they_were_refused(running: Running) -> None:
    id = titled(running)
    running.key("person:bo", writer("person:bo"))
    with browser_of(running) as one, browser_of(running, "person:bo") as two:
        seen = {"title": "by one", "before_title": "before"}
        assert one.post(f"/sessions/{id}/rename", data=seen).status_code == 303
        refused = two.post(f"/sessions/{id}/rename", data={**seen, "title": "by two"}, headers=PAGE)
        assert refused.status_code == 409
        assert "somebody changed it while you looked at it: Title is now &#39;by one&#39;" in refused.text
        assert 'value="by two"' in refused.text
        again = {"title": "by two", "before_title": "by one"}
        assert two.post(f"/sessions/{id}/rename", data=again).status_code == 303
        assert one.post(f"/sessions/{id}/close", data={"outcome": "completed"}).status_code == 303
        refused = two.post(f"/sessions/{id}/pause", data={"reason": "wait"}, headers=PAGE)
        assert refused.status_code == 409
        assert "The session is closed now" in refused.text


def test_a_fault_in_a_form_is_said_where_it_was_filled_in(running: Running) -> None:
    id = titled(running)
    with browser_of(running) as browser:
        for path, form, words in (
            ("rename", {"title": "  "}, "the title is empty"),
            ("rename", {"title": "x" * 300}, "at most 200"),
            ("rename", {"title": "t", "owner": "me"}, "no field owner"),
            ("fork", {"at": "soon"}, "whole number"),
            ("fork", {"at": "77"}, "77"),
            ("tag", {"tags": "fine, <b>"}, "&lt;b&gt;"),
            ("erase", {"typed": "wrong", "reason": ""}, "nothing was done: type before to confirm"),
            ("erase", {"reason": ""}, "nothing was done"),
            ("close", {"outcome": "completed", "summary": "\x00"}, ""),
        ):  # fmt: skip
            answer = browser.post(f"/sessions/{id}/{path}", data=form, headers=PAGE)
            assert 400 <= answer.status_code < 500, (path, form)
            assert words in answer.text, (path, form)
        assert browser.post(f"/sessions/{id}/note", data={"text": "x" * 600_000}, headers=PAGE).status_code == 413
        broken = browser.post(f"/sessions/{id}/rename", content=b"title=%ff%zz", headers={**PAGE, **FORM})
        assert broken.status_code in (303, 400)
    assert call(running.owner, "show", {"session": id}).session.state == "opened"


def test_a_title_that_no_browser_sends_back_unchanged_can_be_replaced(running: Running) -> None:
    id = titled(running, "\x1b[31mred \u202e")
    with browser_of(running) as browser:
        before = re.search(r'name="before_title" value="([^"]*)"', browser.get(f"/sessions/{id}/rename").text)
        assert before is not None
        form = {"title": "calm", "before_title": before[1]}
        assert browser.post(f"/sessions/{id}/rename", data=form).status_code == 303
    assert title_of(running, id) == "calm"


def test_what_is_typed_to_confirm_can_be_typed(running: Running) -> None:
    for title in ("x" * 100, "", "emoji \N{GRINNING FACE}", "\x1b[31mred"):
        id = titled(running, title)
        with browser_of(running) as browser:
            assert f'<b dir="auto">{id[:10]}</b>' in browser.get(f"/sessions/{id}/erase").text


def test_a_server_is_added_shared_with_and_removed_and_its_key_is_shown_nowhere(running: Running, own: Running) -> None:
    key = running.key()
    titled(own, project="shared-here")
    page = "/settings?part=remotes"
    with own.own_browser() as mine, browser_of(running) as team:
        assert "Add a server" in mine.get(page).text
        assert 'type="password"' in mine.get("/settings/remotes/add?key=clew_planted").text
        assert "clew_planted" not in mine.get("/settings/remotes/add?key=clew_planted").text
        form = {"url": running.address, "key": "clew_wrong", "name": "work"}
        refused = mine.post("/settings/remotes/add", data=form, headers=PAGE)
        assert (refused.status_code, "clew_wrong" in refused.text) == (401, False)
        assert running.address in refused.text
        in_the_clear = mine.post("/settings/remotes/add", data={**form, "url": "http://example.org"}, headers=PAGE)
        assert "in the clear" in in_the_clear.text
        assert "/settings/remotes/add" in mine.get("/palette?q=add+a+server").text
        assert "/settings?part=remotes" in mine.get("/palette?q=remotes").text
        assert "/settings/remotes" not in team.get("/palette?q=add+a+server").text
        assert mine.post("/settings/remotes/add", data={**form, "key": key}).headers["location"] == page
        assert f"{running.address}</small>" in mine.get(page).text
        for action, sent in (("share", {"project": "shared-here", "name": "work"}), ("push", {"remote": "work"})):
            assert mine.post(f"/settings/remotes/{action}", data=sent, headers=PAGE).status_code == 303, action
        assert call(running.owner, "sessions", {"project": "shared-here"})
        for action, sent in (("unshare", {"what": "shared-here", "name": "work"}), ("remove", {"name": "work"})):
            assert mine.post(f"/settings/remotes/{action}", data=sent, headers=PAGE).status_code == 303, action
        assert running.address not in mine.get(page).text
        assert mine.post("/settings/remotes/remove", data={"name": "work"}, headers=PAGE).status_code == 404
        # A server for a team sends nothing of its people to another one.
        assert team.get("/settings/remotes/add").status_code == 404
        assert team.post("/settings/remotes/add", data={**form, "key": key}).status_code == 404
    assert key not in own.log.getvalue() + running.log.getvalue()
    assert not any(key in str(entry) for entry in call(own.owner, "audit_log", {"limit": 100}).entries)


def test_a_link_to_share_is_shown_once_and_opens_the_session(running: Running, own: Running) -> None:
    id = titled(running)
    with browser_of(running) as browser, running.client() as guest:
        form = {"days": "3", "once": "only"}
        made = browser.post(f"/sessions/{id}/link", data=form, headers=PAGE)
        link = re.search(rf"{running.address}/login#(\w+)", made.text)
        assert link is not None
        assert guest.post("/login", json={"token": link[1]}).status_code == 200
        assert guest.get(f"/sessions/{id}").status_code == 200
        again = browser.post(f"/sessions/{id}/link", data=form, headers=PAGE)
        assert again.status_code == 409
        assert link[1] not in again.text
    with own.own_browser() as mine:
        assert mine.get(f"/sessions/{titled(own)}/link").status_code == 404


def test_a_secret_in_a_title_is_masked_where_an_action_names_it(running: Running) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    id = titled(running, f"my token is {secret}")
    with browser_of(running) as browser:
        for path in ("rename", "erase", "fork"):
            assert secret not in browser.get(f"/sessions/{id}/{path}").text
