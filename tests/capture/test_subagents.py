"""What lies beside a session: subagents, each of which shows the session that called it, and results kept in files."""

from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.local import Local
from clew.model.access import Grant, Right
from clew.service import Context
from clew.store import Store
from support import claude
from support.captures import capture


def asked(name: str, agent: str) -> bytes:
    """What a subagent was asked."""
    return claude.lines([claude.says(name, None, name, isSidechain=True, agentId=agent)])


def shown(plane: Plane, session: str) -> tuple[str, list[str]]:
    detail = plane.client.call("show", session=session)
    return detail.subagent_of, detail.subagents


def by_name(plane: Plane, home: Path) -> dict[str, Any]:
    return {Path(report.path).stem: report.session for report in capture(plane, home)}


@pytest.fixture
def below(person: Path) -> Path:
    """Where Claude Code puts the subagents of a session."""
    folder = claude.transcript(person).with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    return folder


def test_a_session_and_its_subagents_name_each_other(plane: Plane, person: Path, below: Path) -> None:
    (below / "agent-1.jsonl").write_bytes(asked("one", "1"))
    found = by_name(plane, person)
    # The session itself is not there yet: all that is known of it is what its runtime calls it.
    assert shown(plane, found["agent-1"]) == (claude.SESSION, [])
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    claude.transcript(person, session="agent-2").write_bytes(asked("two", "2"))
    found = by_name(plane, person)
    parent, one, two = (found[name] for name in (claude.SESSION, "agent-1", "agent-2"))
    assert shown(plane, parent) == ("", [one, two])
    assert shown(plane, one) == shown(plane, two) == (parent, [])


def test_the_subagents_of_another_program_are_none_of_its_own(plane: Plane, person: Path, below: Path) -> None:
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    found = by_name(plane, person)
    metadata = {"runtime": "codex", "native": "x", "parent": claude.SESSION}
    other = plane.session("of another program", metadata=metadata)
    odd = plane.session("anything goes", metadata={"parent": 5, "native": ["x"], "runtime": {}})
    assert shown(plane, found[claude.SESSION]) == ("", [])
    assert shown(plane, other.id) == (claude.SESSION, [])
    assert shown(plane, odd.id) == ("", [])


def test_who_may_see_only_one_of_them_is_not_told_of_the_other(
    plane: Plane, person: Path, below: Path, store: Store
) -> None:
    claude.transcript(person).write_bytes(claude.lines(claude.story()))
    (below / "agent-1.jsonl").write_bytes(asked("one", "1"))
    found = by_name(plane, person)
    parent, child = found[claude.SESSION], found["agent-1"]
    plane.client.context.views.catch_up()
    for mine, told in ((parent, ("", [])), (child, (claude.SESSION, []))):
        right = Grant(principal="person:guest", rights=frozenset({Right.SEE, Right.READ}), session=mine)
        guest = Plane(Local(Context(store=store, unrestricted=store, principal="person:guest", grants=(right,))))
        assert shown(guest, mine) == told


# Results that were too large for the llm ------------------------------------------------------------------------------


def shortened(name: str, path: str) -> list[dict[str, Any]]:
    """A call whose result Claude Code kept in a file."""
    words = f"<persisted-output>\nOutput too large (976.6KB). Full output saved to: {path}\n\nPreview:\nxxx"
    return [
        claude.says("u1", None, "a lot"),
        claude.answers("a1", "u1", claude.calls("t1", "head"), message="m1"),
        claude.returns("r1", "a1", "t1", words),
    ]


def saved(plane: Plane, session: str) -> list[Any]:
    return [event.body for event in plane.client.call("events", session=session) if event.kind == "artifact_saved"]


def test_a_result_that_was_kept_in_a_file_is_kept_with_the_session(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    kept = path.with_suffix("") / "tool-results" / "b1.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("the whole " * 100)
    # Wherever the session says that it is: this home may be a copy.
    path.write_bytes(claude.lines(shortened("b1", "/home/other/.claude/projects/x/y/tool-results/b1.txt")))
    [report] = capture(plane, person)
    [artifact] = saved(plane, report.session)
    assert (artifact.name, artifact.size, artifact.media_type) == ("tool-results/b1.txt", 1000, "text/plain")
    opened = plane.client.call("object_open", session=report.session, object=artifact.name)
    assert b"".join(opened.pieces) == b"the whole " * 100
    # It is captured once, and outlives the file.
    path.write_bytes(path.read_bytes() + claude.lines([claude.says("u2", "r1", "and now?")]))
    kept.unlink()
    capture(plane, person)
    assert saved(plane, report.session) == [artifact]


@pytest.mark.parametrize("name", ["../../../../etc/passwd", "gone.txt", "link.txt", ".."])
def test_only_a_file_of_the_session_itself_is_kept(plane: Plane, person: Path, name: str) -> None:
    path = claude.transcript(person)
    folder = path.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    (folder / "link.txt").symlink_to("/etc/passwd")
    path.write_bytes(claude.lines(shortened("b1", f"/x/tool-results/{name}")))
    [report] = capture(plane, person)
    assert report.error is None
    assert saved(plane, report.session) == []
