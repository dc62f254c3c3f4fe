"""Sessions that were put away and whose files grow all the same: nothing is lost, what is archived stays as it is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.model.events import RuntimeAttached, SessionResumed
from support import claude
from support.captures import capture_paths, events, log, native, only, said


def lines(texts: list[str]) -> bytes:
    return claude.lines(claude.says(one, texts[i - 1] if i else None, one) for i, one in enumerate(texts))


def marked(texts: list[str]) -> bytes:
    """Lines of which every second is known by nothing but its place."""
    return b"".join(
        claude.lines([claude.says(text, parent, text), {"type": "mode", "mode": text, "sessionId": claude.SESSION}])
        for parent, text in zip([None, *texts], texts, strict=False)
    )


def gemini(texts: list[str]) -> bytes:
    said = [{"id": f"g{i}", "timestamp": "", "type": "user", "content": text} for i, text in enumerate(texts)]
    return json.dumps({"sessionId": "gem", "projectHash": "h", "startTime": "", "messages": said}).encode()


def cline(texts: list[str]) -> bytes:
    return json.dumps([{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]).encode()


Source = tuple[str, Callable[[list[str]], bytes]]


@pytest.fixture(
    params=[
        (f"{claude.SESSION}.jsonl", lines),
        (f"{claude.SESSION}.jsonl", marked),
        ("session-2026-11-15-gem.json", gemini),
        ("tasks/1700000000000/api_conversation_history.json", cline),
    ],
    ids=["lines", "marked", "gemini", "cline"],
)
def source(request: pytest.FixtureRequest, person: Path) -> tuple[Path, Callable[[list[str]], bytes]]:
    name, made = request.param
    (person / name).parent.mkdir(parents=True, exist_ok=True)
    return person / name, made


def taken(plane: Plane, path: Path, data: bytes) -> Any:
    """Capture a file that holds this now."""
    path.write_bytes(data)
    [report] = capture_paths(plane, path)
    assert report.error is None, report
    return report


def archive(plane: Plane, session: str) -> list[dict[str, Any]]:
    """Put a session away; returns what its log says."""
    plane.client.call("close", session=session)
    plane.client.call("archive", session=session)
    return log(plane, session)


def own(plane: Plane, session: str) -> list[str]:
    found = [event for event in events(plane, session) if event.session == session]
    return [event.kind for event in found]


def test_what_is_said_after_a_session_was_archived_goes_into_one_fork(
    plane: Plane, source: tuple[Path, Callable[[list[str]], bytes]]
) -> None:
    path, made = source
    archived = taken(plane, path, made(["one", "two"])).session
    before = archive(plane, archived)
    words = ["one", "two"]
    forks = set()
    for more in ("three", "four"):
        words.append(more)
        report = taken(plane, path, made(words))
        assert report.status == "grown"
        forks.add(report.session)
        assert capture_paths(plane, path)[0].status == "same"
    [fork] = forks
    shown = plane.client.call("show", session=fork).session
    assert (shown.parent, shown.state) == (archived, "active")
    assert said(plane, fork) == words
    assert own(plane, fork).count("message_added") == 2
    assert native(plane, fork) == path.read_bytes()
    # The archived one is as it was put away.
    assert (log(plane, archived), native(plane, archived)) == (before, made(["one", "two"]))
    noted = [
        event.body for event in events(plane, fork) if event.session == fork and isinstance(event.body, RuntimeAttached)
    ]
    assert {(one.native, one.machine) for one in noted} == {(json.loads(bytes(shown.metadata))["native"], "here")}
    assert not [problem for verified in plane.verify() for problem in verified.problems]


def test_a_fork_that_was_archived_too_goes_on_in_the_next(plane: Plane, person: Path) -> None:
    path, words, sessions = person / f"{claude.SESSION}.jsonl", ["a"], []
    for more in "bcd":
        sessions.append(taken(plane, path, lines(words)).session)
        archive(plane, sessions[-1])
        words.append(more)
    sessions.append(taken(plane, path, lines(words)).session)
    assert [said(plane, session) for session in sessions] == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    parents = {session.id: session.parent for session in plane.sessions()}
    assert [parents[session] for session in sessions] == [None, *sessions[:-1]]


def test_a_file_that_is_moved_and_rewritten_afterwards_goes_on_in_the_same_fork(plane: Plane, person: Path) -> None:
    path = person / f"{claude.SESSION}.jsonl"
    archived = taken(plane, path, lines(["a", "b"])).session
    archive(plane, archived)
    fork = taken(plane, path, lines(["a", "b", "c"])).session
    there = person / "elsewhere" / path.name
    there.parent.mkdir()
    path.rename(there)
    assert taken(plane, there, lines(["a", "b", "c", "d"])).session == fork
    assert taken(plane, there, lines(["b", "c", "d", "e"])).session == fork
    assert said(plane, fork)[-1] == "e"
    assert {session.id for session in plane.sessions()} == {archived, fork}


def test_a_file_that_went_on_is_told_with_all_its_records_when_nothing_is_new(plane: Plane, person: Path) -> None:
    path = person / f".claude/projects/-home-me-app/{claude.SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    archive(plane, taken(plane, path, lines(["a"])).session)
    grown = taken(plane, path, lines(["a", "b", "c"]))
    for _ in range(2):
        same = only(plane, person)
        assert (same.status, same.session, same.records) == ("same", grown.session, 3)


def test_a_fork_that_was_erased_is_not_captured_again(plane: Plane, person: Path) -> None:
    path = person / f"{claude.SESSION}.jsonl"
    archived = taken(plane, path, lines(["a"])).session
    archive(plane, archived)
    fork = taken(plane, path, lines(["a", "b"])).session
    plane.client.call("erase", session=fork)
    report = taken(plane, path, lines(["a", "b", "c"]))
    assert (report.status, report.session) == ("erased", fork)
    assert native(plane, archived) == lines(["a"])
    assert {session.id for session in plane.sessions()} == {archived}


def test_an_archived_session_whose_file_says_nothing_new_has_no_fork(plane: Plane, person: Path) -> None:
    path = person / f"{claude.SESSION}.jsonl"
    archived = taken(plane, path, lines(["a"])).session
    archive(plane, archived)
    path.touch()
    assert taken(plane, path, lines(["a"])).status == "same"
    assert [session.id for session in plane.sessions()] == [archived]


@pytest.mark.parametrize("state", ["pause", "close"])
def test_a_paused_or_closed_session_goes_on_and_says_why(plane: Plane, person: Path, state: str) -> None:
    path = person / f"{claude.SESSION}.jsonl"
    session = taken(plane, path, lines(["a"])).session
    plane.client.call(state, session=session)
    report = taken(plane, path, lines(["a", "b"]))
    assert (report.session, said(plane, session)) == (session, ["a", "b"])
    [resumed] = [event.body for event in events(plane, session) if isinstance(event.body, SessionResumed)]
    assert (resumed.reason, resumed.runtime) == ("it went on in its runtime", "claude-code")
