"""Exports that hold many sessions in one document: each is a session, and a newer export adds what is new."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from support.captures import capture_paths, native, said
from support.program_samples import SAMPLES


def claude_ai(*conversations: dict[str, Any]) -> bytes:
    return json.dumps([*conversations]).encode()


def talk(id: str, *texts: str) -> dict[str, Any]:
    messages = [
        {"uuid": f"{id}-{i}", "sender": "human", "text": text, "created_at": "2026-11-16T10:00:00Z"}
        for i, text in enumerate(texts)
    ]
    return {"uuid": id, "name": id, "created_at": "2026-11-16T10:00:00Z", "chat_messages": messages}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return tmp_path / "conversations.json"


@pytest.mark.parametrize("name", ["chatgpt", "claude-ai"])
def test_every_conversation_of_an_export_is_a_session(plane: Plane, export: Path, name: str) -> None:
    [data] = SAMPLES[name]().values()
    export.write_bytes(data)
    reports = capture_paths(plane, export)
    assert [(one.runtime, one.status, one.error) for one in reports] == [(name, "new", None)] * 2
    assert len({one.session for one in reports}) == 2
    assert all(one.quarantined == 0 for one in reports)


def test_a_newer_export_adds_what_is_new(plane: Plane, export: Path) -> None:
    export.write_bytes(claude_ai(talk("a", "one"), talk("b", "x")))
    first, other = capture_paths(plane, export)
    export.write_bytes(claude_ai(talk("b", "x"), talk("a", "one", "two"), talk("c", "y")))
    reports = {one.path.rpartition("#")[2]: one for one in capture_paths(plane, export)}
    assert {name: one.status for name, one in reports.items()} == {"a": "grown", "b": "same", "c": "new"}
    assert (reports["a"].session, reports["b"].session) == (first.session, other.session)
    assert said(plane, first.session) == ["one", "two"]


def test_a_conversation_comes_back_as_it_was_in_the_export(plane: Plane, export: Path) -> None:
    one = talk("a", "one")
    export.write_bytes(claude_ai(one, talk("b", "x")))
    session = capture_paths(plane, export)[0].session
    assert json.loads(native(plane, session)) == one


def test_half_of_an_export_is_refused_with_what_to_do(plane: Plane, export: Path) -> None:
    export.write_bytes(claude_ai(talk("a", "one"), talk("b", "x"))[:-40])
    [report] = capture_paths(plane, export)
    assert report.status == "failed"
    assert "export it again" in str(report.error)


def test_an_export_without_a_message_says_so(plane: Plane, export: Path) -> None:
    export.write_bytes(claude_ai(talk("a")))
    [report] = capture_paths(plane, export)
    assert "no conversation in it has a message" in str(report.error)
