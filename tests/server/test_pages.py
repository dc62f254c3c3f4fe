"""Pages: what is stored stays text, secrets stay home, and nothing comes from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path

import httpx2
import pytest

from clew.service import call
from server.running import Running, writer

EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(1)>' onload=x javascript:alert(1) &amp; \x1b[31m</title>"
OUR_PICTURES = ("icon", "heat chart", "stacks chart", "family chart", "ticks", "lane", "strip")
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def evil(running: Running) -> str:
    """A session in which every text that can be stored is markup."""
    owner = running.owner
    id = str(call(owner, "open", {"title": EVIL, "agent": EVIL, "project": EVIL}).id)
    drafts = [
        {"kind": "message_added", "role": EVIL, "text": EVIL},
        {"kind": "message_added", "role": "assistant", "model": EVIL, "parts": [
            {"type": "text", "text": EVIL}, {"type": "thinking", "text": EVIL}]},
        {"kind": "call_made", "call": EVIL, "tool": EVIL, "input": {EVIL: EVIL}},
        {"kind": "call_returned", "call": EVIL, "output": EVIL, "failed": True},
        {"kind": "call_made", "call": "open", "tool": "sh"},
        {"kind": "fact_learned", "fact": "f", "text": EVIL},
        {"kind": "decision_made", "decision": "d", "choice": EVIL, "why": EVIL},
        {"kind": "progress_noted", "done": EVIL, "next": EVIL},
        {"kind": "my.kind", "anything": EVIL},
        {"kind": "message_added", "role": "user", "text": f"my token is {SECRET}", "said_at": 2**62},
    ]  # fmt: skip
    call(owner, "append", {"session": id, "drafts": drafts})
    call(owner, "fork", {"session": id})
    return id


def test_stored_text_is_never_markup(evil: str, client: httpx2.Client) -> None:
    every_event = [f"/sessions/{evil}/events/{seq}" for seq in range(1, 13)]
    for path in ("/", f"/?project={evil}", "/?q=alert", f"/?{httpx2.QueryParams(q=EVIL)}", f"/sessions/{evil}",
                 f"/sessions/{evil}?{httpx2.QueryParams(after=EVIL)}", f"/sessions/{evil}?part=turns", "/sessions",
                 f"/sessions?{httpx2.QueryParams(filter=EVIL)}", f"/sessions?{httpx2.QueryParams(project=EVIL)}",
                 f"/usage?{httpx2.QueryParams(model=EVIL)}", f"/search?{httpx2.QueryParams(q=EVIL)}",
                 f"/sessions/{evil}/family", f"/sessions/{evil}/continue?in=codex", f"/sessions/{evil}/rename",
                 f"/sessions/{evil}/fork?{httpx2.QueryParams(title=EVIL)}", f"/compare?a={evil}&b={evil}",
                 f"/files?{httpx2.QueryParams(path=EVIL)}", f"/files?{httpx2.QueryParams(file=EVIL, of=EVIL)}",
                 "/timeline?range=hour", f"/timeline?{httpx2.QueryParams(filter=EVIL)}", "/agents", "/people",
                 f"/people?{httpx2.QueryParams(who=EVIL)}", f"/access?{httpx2.QueryParams(who=EVIL, what=EVIL)}",
                 f"/keys?{httpx2.QueryParams(who=EVIL)}", f"/audit?{httpx2.QueryParams(filter=EVIL)}", "/settings",
                 f"/settings?{httpx2.QueryParams(part='redaction', project=EVIL)}",
                 *every_event):  # fmt: skip
        page = client.get(path)
        assert page.headers["content-type"].startswith("text/html")
        for tag, attributes in Tags(page.text).found:
            assert tag not in ("img", "iframe", "object", "embed", "base", "foreignobject", "use"), path
            assert tag != "svg" or attributes["class"] in OUR_PICTURES, path
            assert not any(name.startswith("on") or name == "style" for name in attributes), (path, attributes)
            if tag == "script":
                assert str(attributes["src"]).startswith("/assets/")
            for name in ("href", "src", "action"):
                assert re.match(r"/|\?|#|data:,$", attributes.get(name) or "/"), attributes
    assert "\x1b" not in client.get(f"/sessions/{evil}").text


def test_a_page_shows_what_happened(evil: str, client: httpx2.Client) -> None:
    assert "alert(1)" in client.get("/").text
    page = client.get(f"/sessions/{evil}?tab=knowledge").text
    for text in ("Thinking", "no return", "failed", "Decisions", "Facts", "my.kind"):
        assert text in page
    assert client.get("/sessions/zzzz").status_code == 404
    assert "No sessions yet" not in client.get("/").text


def test_secrets_are_masked_in_pages_answers_and_streams(evil: str, client: httpx2.Client) -> None:
    for path in (f"/sessions/{evil}", "/?q=token", f"/sessions/{evil}/events/11",
                 f"/v1/sessions/{evil}/events", "/v1/search?query=token&flat=1",
                 "/v1/events", f"/v1/sessions/{evil}/export?form=jsonl"):  # fmt: skip
        assert SECRET not in client.get(path).text, path
    assert "REDACTED" in client.get(f"/v1/sessions/{evil}/events").text
    with client.stream("GET", f"/v1/sessions/{evil}/stream") as answer:
        text = ""
        for line in answer.iter_lines():
            text += line
            if '"seq":11,' in line:
                break
    assert "my token is" in text
    assert SECRET not in text


def test_a_browser_is_told_to_take_nothing_from_elsewhere(client: httpx2.Client) -> None:
    for path in ("/", "/login", "/docs", "/errors/denied"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in policy
    for name in ("clew.css", "clew.js", "docs.js", "login.js"):
        asset = client.get(f"/assets/{name}")
        assert asset.status_code == 200, name
        text = asset.text
        assert "//" not in re.sub(r"^//.*$", "", text, flags=re.MULTILINE), name


def test_long_sessions_are_shown_a_page_at_a_time(running: Running, client: httpx2.Client) -> None:
    id = call(running.owner, "open", {}).id
    drafts = [{"kind": "message_added", "role": "user", "text": f"number {n}"} for n in range(700)]
    call(running.owner, "append", {"session": id, "drafts": drafts})
    seen: list[str] = []
    path = f"/sessions/{id}"
    while path:
        page = client.get(path).text
        seen += re.findall(r"<p>(number \d+)</p>", page)
        later = re.search(r'href="(\?after=\d+)">Later', page)
        path = f"/sessions/{id}{later[1]}" if later else ""
    assert seen == [f"number {n}" for n in range(700)]


def test_what_a_rewind_took_back_is_not_shown(running: Running, client: httpx2.Client) -> None:
    id = call(running.owner, "open", {}).id
    drafts = [
        {"kind": "message_added", "role": "user", "text": "first", "source": "a"},
        {"kind": "message_added", "role": "user", "text": "regretted"},
        {"kind": "rewound", "to": "a"},
        {"kind": "call_made", "call": "1", "tool": "sh"},
        {"kind": "call_returned", "call": "1", "output": "result"},
    ]
    call(running.owner, "append", {"session": id, "drafts": drafts})
    for query in ("", "?after=0", "?backward=7", "?at=6"):
        page = client.get(f"/sessions/{id}{query}").text
        assert "regretted" not in page
        assert "1 event was taken back by a rewind" in page
        assert all(f'id="e{seq}"' in page for seq in (1, 2, 4, 5, 6))


def test_an_erased_or_forbidden_session_and_an_unknown_address_are_pages(
    running: Running, client: httpx2.Client
) -> None:
    browser = {"Accept": "text/html"}
    id = call(running.owner, "open", {"title": "to be erased", "project": "shut"}).id
    call(running.owner, "append", {"session": id, "drafts": [
        {"kind": "message_added", "role": "user", "text": "a word that goes"}]})  # fmt: skip
    with running.client(running.key("person:bo", writer("person:bo", project="open"))) as bo:
        for path in (f"/sessions/{id}", f"/sessions/{id}/events/1"):
            forbidden = bo.get(path, headers=browser)
            assert forbidden.status_code == 404
            assert "<h1>Nothing here</h1>" in forbidden.text
    call(running.owner, "erase", {"session": id})
    for path in (f"/sessions/{id}", "/sessions", "/"):
        erased = client.get(path, headers=browser)
        assert erased.status_code == 200
        assert "a word that goes" not in erased.text
    assert "this session was erased" in client.get(f"/sessions/{id}").text
    unknown = client.get("/nothing/there", headers=browser)
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "content-security-policy" in unknown.headers
    assert client.get("/nothing/there").headers["content-type"] == "application/problem+json"


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    secret = "a secret of this browser alone, of a good length"
    url = f"sqlite:///{tmp_path / 'clew.db'}"
    with Running(url, str(tmp_path), own_secret=secret) as running, running.own_browser() as browser:
        for path in ("/", "/sessions", "/files"):
            page = browser.get(path)
            assert page.status_code == 200
            assert "clew capture" in page.text
        for path in ("/usage", "/search", "/search?q=word", "/_design", "/?part=spent", "/sessions?runtime=codex",
                     "/timeline", "/agents", "/people", "/access", "/keys", "/audit", "/settings"):  # fmt: skip
            assert browser.get(path).status_code == 200, path
