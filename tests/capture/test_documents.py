"""Documents that are written anew each time: growth, corrections, removals, half of one, moved ones."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.model.events import MessageAdded
from support.captures import capture, capture_paths, events, native, said


def gemini(texts: list[str]) -> bytes:
    said = [
        {"id": f"g{i}", "timestamp": "2026-11-15T10:00:00Z", "type": "user", "content": text}
        for i, text in enumerate(texts)
    ]
    about = {"sessionId": "gem", "projectHash": "h", "startTime": "2026-11-15T10:00:00Z", "lastUpdated": ""}
    return json.dumps({**about, "messages": said}).encode()


def cline(texts: list[str]) -> bytes:
    return json.dumps([{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]).encode()


def swe_agent(texts: list[str]) -> bytes:
    history = [{"role": "user", "content": text, "message_type": "observation"} for text in texts]
    return json.dumps({"environment": "e", "history": history, "trajectory": [], "info": {}}).encode()


def atif(texts: list[str]) -> bytes:
    steps = [{"step_id": i + 1, "source": "user", "message": text} for i, text in enumerate(texts)]
    agent = {"name": "a", "version": "1"}
    return json.dumps({"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": steps}).encode()


def aider(texts: list[str]) -> bytes:
    return (
        "\n# aider chat started at 2026-11-15 10:00:00\n\n" + "".join(f"#### {t}\n\nok {t}\n\n" for t in texts)
    ).encode()


Document = tuple[str, Callable[[list[str]], bytes]]
DOCUMENTS = [
    pytest.param((".gemini/tmp/app/chats/session-2026-11-15-gem.json", gemini), id="gemini"),
    pytest.param(("tasks/1700000000000/api_conversation_history.json", cline), id="cline"),
    pytest.param(("runs/one/one.traj", swe_agent), id="swe-agent"),
    pytest.param(("trajectory.json", atif), id="atif"),
    pytest.param((".aider.chat.history.md", aider), id="aider"),
]
JSON = DOCUMENTS[:-1]


@pytest.fixture(params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> Document:
    found: Document = request.param
    return found


def put(person: Path, document: Document, texts: list[str]) -> Path:
    path = person / document[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document[1](texts))
    return path


def asked(plane: Plane, session: str) -> list[str]:
    return [one for one in said(plane, session) if not one.startswith("ok ")]


def test_a_document_that_grows_is_one_session(plane: Plane, person: Path, document: Document) -> None:
    texts: list[str] = []
    sessions = set()
    for i in range(4):
        texts.append(f"text {i}")
        path = put(person, document, texts)
        [report] = capture_paths(plane, path)
        sessions.add(report.session)
        assert (report.error, report.status) == (None, "grown" if i else "new")
        assert asked(plane, report.session) == texts
        assert native(plane, report.session) == path.read_bytes()
    assert len(sessions) == 1
    assert len(plane.sessions()) == 1


def test_a_document_that_was_touched_is_the_same(plane: Plane, person: Path, document: Document) -> None:
    path = put(person, document, ["one", "two"])
    [first] = capture_paths(plane, path)
    os.utime(path, ns=(1, 1))
    before = len(events(plane, first.session))
    [second] = capture_paths(plane, path)
    assert (second.status, second.session, second.records) == ("same", first.session, first.records)
    assert [one.status for one in capture_paths(plane, path)] == ["same"]
    assert len(events(plane, first.session)) == before


def test_a_correction_stands_in_the_place_of_what_it_corrects(plane: Plane, person: Path, document: Document) -> None:
    for texts in (["one", "two", "end"], ["one", "TWO", "end"], ["one", "two", "end"], ["one", "two", "end", "more"]):
        path = put(person, document, texts)
        [report] = capture_paths(plane, path)
        assert report.error is None
        assert asked(plane, report.session) == texts
        assert native(plane, report.session) == path.read_bytes()
    before = len(events(plane, report.session))
    os.utime(path, ns=(1, 1))
    capture_paths(plane, path)
    put(person, document, [*texts, "even more"])
    capture_paths(plane, path)
    # Only what was added: nothing that was corrected and put back comes again.
    assert len(events(plane, report.session)) - before <= 4


@pytest.mark.parametrize("document", JSON)
def test_what_was_removed_at_the_end_is_no_longer_said(plane: Plane, person: Path, document: Document) -> None:
    for texts in (["1", "2", "3", "4"], ["1", "2"], ["1", "2", "3"], ["1", "2", "3", "new", "newer"], ["1"]):
        path = put(person, document, texts)
        [report] = capture_paths(plane, path)
        assert asked(plane, report.session) == texts
        assert report.records == report.events + report.opaque + report.quarantined
    kept = [e.body.text for e in events(plane, report.session) if isinstance(e.body, MessageAdded)]
    assert {"1", "2", "3", "4", "new", "newer"} <= set(kept)


@pytest.mark.parametrize("document", JSON)
def test_half_a_document_waits_for_the_rest(plane: Plane, person: Path, document: Document) -> None:
    path = put(person, document, ["one", "two"])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    [report] = capture_paths(plane, path, runtime=_runtime(document))
    assert (report.session, report.quarantined, bool(report.note), report.error) == ("", 1, True, None)
    assert not plane.sessions()
    path.write_bytes(whole)
    [report] = capture_paths(plane, path)
    assert (report.status, report.quarantined, report.note) == ("new", 0, "")
    # Cut off again, at a place that looks like an end: what was whole stays.
    more = document[1](["one", "two", "three"])
    cut = more[: more.rindex(b"}", 0, -3) + 1]
    path.write_bytes(cut)
    [torn] = capture_paths(plane, path, runtime=_runtime(document))
    assert (torn.session, torn.quarantined, bool(torn.note)) == (report.session, 1, True)
    assert native(plane, report.session) == whole
    path.write_bytes(more)
    [after] = capture_paths(plane, path)
    assert (after.status, after.session, after.quarantined) == ("grown", report.session, 0)
    assert asked(plane, report.session) == ["one", "two", "three"]


@pytest.mark.parametrize("document", JSON)
@pytest.mark.parametrize("damage", [b'{"a": nonsense}', b"\0" * 100, b'"text"', b"[" * 100_000, b"[]", b"{}", b"null"])
def test_a_damaged_document_is_kept_and_accounted_for(
    plane: Plane, person: Path, document: Document, damage: bytes
) -> None:
    path = put(person, document, ["one"])
    path.write_bytes(damage)
    [report] = capture_paths(plane, path, runtime=_runtime(document))
    if report.session:
        assert native(plane, report.session) == damage
    put(person, document, ["one", "two"])
    [report] = capture_paths(plane, path)
    assert (report.error, report.quarantined) == (None, 0)
    assert asked(plane, report.session) == ["one", "two"]


@pytest.mark.parametrize("data", [b"", b" \n\t\n"])
def test_an_empty_document_is_no_session(plane: Plane, person: Path, document: Document, data: bytes) -> None:
    path = put(person, document, ["one"])
    path.write_bytes(data)
    [report] = capture_paths(plane, path, runtime=_runtime(document))
    assert (report.status, report.session, report.records) == ("empty", "", 0)


def test_a_document_that_moved_is_the_same_session(plane: Plane, person: Path, document: Document) -> None:
    path = put(person, document, ["one"])
    [first] = capture_paths(plane, path)
    elsewhere = person / "elsewhere"
    (person / document[0].split("/")[0]).rename(elsewhere)
    moved = elsewhere.joinpath(*document[0].split("/")[1:])
    if document[1] in (aider, atif):
        moved = moved.rename(person / "deeper.json" if document[1] is atif else path)
    moved.write_bytes(document[1](["one", "two"]))
    [second] = capture_paths(plane, moved)
    if document[1] in (gemini, cline, atif):
        assert second.session == first.session
    assert asked(plane, second.session) == ["one", "two"]


def test_two_documents_that_begin_alike_are_two_sessions(plane: Plane, person: Path, document: Document) -> None:
    found = []
    for place in ("a", "b"):
        path = put(
            person / place, (document[0].replace("1700000000000", f"170000000000{place}"), document[1]), ["same", place]
        )
        found += capture_paths(plane, path)
    assert len({one.session for one in found}) == 2
    assert [asked(plane, one.session) for one in found] == [["same", "a"], ["same", "b"]]


@pytest.mark.parametrize("document", JSON)
def test_a_copy_of_a_document_is_no_second_session(plane: Plane, person: Path, document: Document) -> None:
    [first] = capture_paths(plane, put(person / "a", document, ["one", "two"]))
    for texts in (["one", "two"], ["one"]):
        [copy] = capture_paths(plane, put(person / "b", document, texts))
        assert (copy.status, copy.session) == ("same", first.session)
        assert "a copy of" in copy.note
    assert len(plane.sessions(empty=True)) == 1
    assert asked(plane, first.session) == ["one", "two"]


def test_a_document_beyond_all_measure_is_refused(
    plane: Plane, person: Path, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.service.capture import capture_document

    monkeypatch.setattr(capture_document, "LARGEST_DOCUMENT_BYTES", 100)
    path = put(person, document, ["x" * 200])
    [report] = capture_paths(plane, path)
    assert (report.status, report.records) == ("failed", 0)
    assert "100" in str(report.error)


def test_every_field_of_a_document_may_hold_anything(plane: Plane, person: Path, document: Document) -> None:
    for value in ("a\0b", "\ud800", 7, None, [], {}, 1e300, -1, "🧵" * 2000):
        texts: list[Any] = ["one", value, "three"]
        path = person / document[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document[1](texts) if document[1] is not aider else b"#### \xff\xfe\0\n")
        [report] = capture_paths(plane, path, runtime=_runtime(document))
        assert report.error is None
        assert native(plane, report.session) == path.read_bytes()
    assert capture(plane, person) is not None


def _runtime(document: Document) -> str:
    names = {gemini: "gemini-cli", cline: "cline", swe_agent: "swe-agent", atif: "atif", aider: "aider"}
    return names[document[1]]
