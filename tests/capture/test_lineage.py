"""Which session a file of lines belongs to: forks, copies, moved files, rewritten ones, and files of one session."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.model.events import MessageAdded
from clew.service.capture import capture as engine
from clew.service.capture import chunked_lines
from clew.store import Store
from support import claude
from support.captures import capture, capture_paths, events, native, only, said

FIXTURES = Path(__file__).parents[1] / "runtimes" / "fixtures"


def id_of(number: int) -> str:
    return f"{number:08d}-2222-4333-8444-555555555555"


def put(home: Path, number: int, records: list[dict[str, Any]]) -> Path:
    path = claude.transcript(home, session=id_of(number))
    path.write_bytes(claude.lines({**one, "sessionId": id_of(number)} for one in records))
    return path


def talk(*names: str) -> list[dict[str, Any]]:
    return [claude.says(one, names[i - 1] if i else None, one) for i, one in enumerate(names)]


def by_number(plane: Plane, home: Path) -> dict[int, Any]:
    return {int(Path(one.path).stem[:8]): one for one in capture(plane, home)}


def own(plane: Plane, session: str) -> list[str]:
    """What was said in this session itself, not in the one it forked from."""
    found = [event for event in events(plane, session) if event.session == session]
    return [event.body.text for event in found if isinstance(event.body, MessageAdded)]


def test_a_fork_of_a_fork_hangs_on_the_fork(plane: Plane, person: Path) -> None:
    put(person, 1, talk("a", "b", "c"))
    put(person, 2, talk("a", "b", "d", "e"))
    put(person, 3, talk("a", "b", "d", "f"))
    found = by_number(plane, person)
    assert [own(plane, found[i].session) for i in (1, 2, 3)] == [["a", "b", "c"], ["d", "e"], ["f"]]
    assert [said(plane, found[i].session) for i in (2, 3)] == [["a", "b", "d", "e"], ["a", "b", "d", "f"]]
    parents = {one.id: one.parent for one in plane.sessions()}
    assert parents[found[3].session] == found[2].session
    assert {one.records for one in found.values()} == {3, 4}


def test_a_fork_that_is_captured_first_is_linked_too(plane: Plane, person: Path) -> None:
    put(person, 2, talk("a", "b", "d"))
    by_number(plane, person)
    put(person, 1, talk("a", "b", "c", "e"))
    found = by_number(plane, person)
    assert said(plane, found[1].session) == ["a", "b", "c", "e"]
    assert own(plane, found[1].session) == ["c", "e"]
    put(person, 1, talk("a", "b", "c", "e", "g"))
    put(person, 2, talk("a", "b", "d", "h"))
    found = by_number(plane, person)
    assert [said(plane, found[i].session)[-1] for i in (1, 2)] == ["g", "h"]


@pytest.mark.parametrize("chunk_bytes", [600, 1500, 100_000])
def test_a_fork_longer_than_a_chunk_repeats_nothing(
    plane: Plane, person: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(chunked_lines, "CHUNK_BYTES", chunk_bytes)
    names = [f"n{i}" for i in range(20)]
    put(person, 1, talk(*names))
    put(person, 2, talk(*names[:15], "own", "more"))
    found = by_number(plane, person)
    assert own(plane, found[2].session) == ["own", "more"]
    assert said(plane, found[2].session) == [*names[:15], "own", "more"]


def test_what_a_fork_adds_before_it_says_anything_is_kept(plane: Plane, person: Path) -> None:
    put(person, 1, talk("a", "b"))
    put(person, 2, [{"type": "mode", "mode": "plan"}, *talk("a", "b", "c")])
    found = by_number(plane, person)
    kinds = [event.kind for event in events(plane, found[2].session) if event.session == found[2].session]
    assert "claude-code.mode" in kinds
    assert own(plane, found[2].session) == ["c"]


def test_the_same_file_in_two_homes_is_one_session(plane: Plane, person: Path, tmp_path: Path) -> None:
    path = put(person, 1, talk("a", "b"))
    first = only(plane, person)
    other = tmp_path / "other"
    shutil.copytree(person, other)
    for _ in range(2):
        copy = only(plane, other)
        assert (copy.status, copy.session, copy.note) == ("same", first.session, f"a copy of {path}")
    assert len(plane.sessions(empty=True)) == 1
    assert native(plane, first.session) == path.read_bytes()


def test_an_older_copy_is_the_same_session(plane: Plane, person: Path, tmp_path: Path) -> None:
    put(person, 1, talk("a", "b", "c"))
    first = only(plane, person)
    older = put(tmp_path / "backup", 1, talk("a", "b"))
    torn = older.with_name("torn") / older.name
    torn.parent.mkdir()
    torn.write_bytes(older.read_bytes()[:-20])
    for path in (older, torn):
        [copy] = capture_paths(plane, path)
        assert (copy.status, copy.session) == ("same", first.session)
    assert said(plane, first.session) == ["a", "b", "c"]


def test_a_copy_that_says_more_goes_on_with_the_session_at_its_new_path(
    plane: Plane, person: Path, tmp_path: Path
) -> None:
    put(person, 1, talk("a", "b"))
    first = only(plane, person)
    other = tmp_path / "other"
    shutil.copytree(person, other)
    path = put(other, 1, talk("a", "b", "c"))
    grown = only(plane, other)
    assert (grown.status, grown.session) == ("grown", first.session)
    assert said(plane, first.session) == ["a", "b", "c"]
    assert native(plane, first.session) == path.read_bytes()
    assert only(plane, person).status == "same", "what is left behind is a copy"
    assert only(plane, other).status == "same"
    put(person, 1, talk("a", "b", "c", "d"))
    assert (only(plane, person).session, said(plane, first.session)) == (first.session, ["a", "b", "c", "d"])
    assert len(plane.sessions(empty=True)) == 1


def test_two_copies_that_go_on_differently_are_a_session_and_its_fork(
    plane: Plane, person: Path, tmp_path: Path
) -> None:
    put(person, 1, talk("a", "b"))
    first = only(plane, person)
    other = tmp_path / "other"
    shutil.copytree(person, other)
    put(person, 1, talk("a", "b", "c"))
    only(plane, person)
    put(other, 1, talk("a", "b", "d"))
    fork = only(plane, other)
    assert {one.id: one.parent for one in plane.sessions()}[fork.session] == first.session
    assert (said(plane, first.session), said(plane, fork.session)) == (["a", "b", "c"], ["a", "b", "d"])


def codex(home: Path) -> tuple[Path, Path]:
    """A rollout and its fork, which names it and the bytes it goes on from; by name the fork comes first."""
    fork = (FIXTURES / "codex" / "fork.jsonl").read_bytes()
    about = json.loads(fork.splitlines()[0])["payload"]["history_base"]
    parent = (FIXTURES / "codex" / "tools.jsonl").read_bytes()
    first = json.loads(parent.splitlines()[0])["payload"]["id"]
    fork = fork.replace(about["thread_id"].encode(), first.encode())
    fork = fork.replace(b'"end_byte_offset":%d' % about["end_byte_offset"], b'"end_byte_offset":%d' % len(parent))
    folder = home / ".codex" / "sessions" / "2026" / "11" / "16"
    folder.mkdir(parents=True)
    late = folder / f"rollout-2026-11-16T12-00-00-{first}.jsonl"
    early = folder / f"rollout-2026-11-16T10-00-00-{json.loads(fork.splitlines()[0])['payload']['id']}.jsonl"
    late.write_bytes(parent)
    early.write_bytes(fork)
    return late, early


def test_a_fork_that_names_its_parent_finds_it_whichever_comes_first(plane: Plane, person: Path) -> None:
    parent, fork = codex(person)
    found = {one.path: one for one in capture(plane, person)}
    assert not [one for one in found.values() if one.error]
    parents = {one.id: one.parent for one in plane.sessions()}
    assert parents[found[str(fork)].session] == found[str(parent)].session
    assert {one.status for one in capture(plane, person)} == {"same"}


def test_a_fork_whose_parent_is_nowhere_is_a_session(plane: Plane, person: Path) -> None:
    parent, fork = codex(person)
    parent.unlink()
    [report] = capture(plane, person)
    assert (report.status, report.error) == ("new", None)
    assert native(plane, report.session) == fork.read_bytes()


def test_a_file_that_only_moved_is_the_same_session(plane: Plane, person: Path) -> None:
    path = put(person, 1, talk("a", "b"))
    first = only(plane, person)
    elsewhere = path.parent.with_name("-home-me-elsewhere")
    path.parent.rename(elsewhere)
    report = only(plane, person)
    assert (report.status, report.session, report.records) == ("same", first.session, 2)
    assert len(plane.sessions()) == 1
    assert [one.status for one in capture(plane, person)] == ["same"]


def test_a_file_that_moved_to_a_place_of_odd_bytes_is_the_same_session(plane: Plane, person: Path) -> None:
    path = put(person, 1, talk("a", "b"))
    first = only(plane, person)
    os.rename(path.parent, os.path.join(os.fsencode(path.parent.parent), b"-odd-\xff"))
    assert only(plane, person).session == first.session
    assert (only(plane, person).status, len(plane.sessions())) == ("same", 1)


def test_an_edit_before_the_part_that_grew_is_seen(plane: Plane, person: Path) -> None:
    names = [f"n{i}" for i in range(100)]
    path = put(person, 1, talk(*names))
    only(plane, person)
    data = path.read_bytes()
    middle = data.index(b'"content": "n50"')
    path.write_bytes(data[:middle] + b'"content": "N50"' + data[middle + 16 :])
    with path.open("ab") as file:
        file.write(claude.lines([claude.says("n100", "n99", "n100")]))
    report = only(plane, person)
    assert report.status == "rewritten"
    assert native(plane, report.session) == path.read_bytes()
    assert said(plane, report.session) == [*names[:50], "N50", *names[51:], "n100"]


def test_a_file_that_was_cut_and_went_on_says_what_it_says_now(plane: Plane, person: Path) -> None:
    put(person, 1, talk("a", "b", "c", "d"))
    session = only(plane, person).session
    for names in (("a", "b"), ("a", "b", "e", "f"), ("a", "b", "c", "d"), ("a",)):
        path = put(person, 1, talk(*names))
        report = only(plane, person)
        assert (report.session, report.records) == (session, len(names))
        assert said(plane, session) == list(names)
        assert native(plane, session) == path.read_bytes()
    assert {"a", "b", "c", "d", "e", "f"} == set(own(plane, session))


def test_the_counts_stay_the_same_when_nothing_changes(plane: Plane, person: Path) -> None:
    path = put(person, 1, talk("a", "b"))
    with path.open("ab") as file:
        file.write(b'{"type":"mo')
    first = only(plane, person)
    assert (first.records, first.quarantined) == (3, 1)
    again = only(plane, person)
    assert (again.status, again.records, again.quarantined) == ("same", 3, 1)
    os.utime(path, ns=(1, 1))
    again = only(plane, person)
    assert (again.status, again.records, again.quarantined) == ("same", 3, 1)
    with path.open("ab") as file:
        file.write(b'de"}\n{"x')
    again = only(plane, person)
    assert (again.status, again.records, again.quarantined) == ("grown", 4, 1)


def test_a_file_that_was_emptied_leaves_what_was_captured(plane: Plane, person: Path) -> None:
    path = put(person, 1, talk("a", "b"))
    data, first = path.read_bytes(), only(plane, person)
    path.write_bytes(b"")
    report = only(plane, person)
    assert (report.status, report.session, report.records) == ("empty", first.session, 0)
    assert native(plane, first.session) == data
    path.write_bytes(data)
    assert only(plane, person).session == first.session
    assert said(plane, first.session) == ["a", "b"]


def test_two_files_of_one_session_grow_at_once(plane: Plane, person: Path) -> None:
    put(person, 1, talk("a"))
    silent = claude.transcript(person, session=id_of(1), folder="-home-me-silent")
    capture(plane, person)
    silent.write_bytes(claude.lines([{"type": "mode", "mode": "plan", "sessionId": id_of(1)}]))
    assert len({one.session for one in capture(plane, person)}) == 1
    put(person, 1, talk("a", "b"))
    with silent.open("ab") as file:
        file.write(claude.lines([{"type": "mode", "mode": "normal", "sessionId": id_of(1)}]))
    reports = capture(plane, person)
    assert {(one.status, one.error, one.records) for one in reports} == {("grown", None, 2)}
    assert all(one.ok for one in plane.verify())


def test_what_retention_removed_is_not_captured_again(plane: Plane, person: Path, store: Store) -> None:
    from clew.store.log import retention

    path = put(person, 1, [*talk("a", "b"), {"type": "mode", "mode": "plan"}])
    session = only(plane, person).session
    plane.client.call("retention_set", project="app", keep_days=1)
    later = store.head(store.session(session)).at + 3 * 86_400_000_000
    assert retention.apply_policies(store, actor="person:ada", now=later)
    before = len(events(plane, session))
    os.utime(path, ns=(1, 1))
    assert only(plane, person).status == "same"
    assert len(events(plane, session)) == before
    with path.open("ab") as file:
        file.write(claude.lines([claude.says("c", "b", "c")]))
    report = only(plane, person)
    assert (report.status, report.session, report.records) == ("grown", session, 4)
    assert own(plane, session) == ["c"]


def test_a_paused_session_that_goes_on_is_resumed_once(plane: Plane, person: Path) -> None:
    put(person, 1, talk("a"))
    session = only(plane, person).session
    plane.client.call("pause", session=session)
    put(person, 1, talk("a", "b"))
    only(plane, person)
    put(person, 1, talk("a", "b", "c"))
    only(plane, person)
    kinds = [event.kind for event in events(plane, session)]
    assert kinds.count("session_resumed") == 1
    assert said(plane, session) == ["a", "b", "c"]


def test_a_session_over_its_budget_is_captured_all_the_same(plane: Plane, person: Path) -> None:
    put(person, 1, [claude.says("a", None, "a"), claude.answers("b", "a", claude.text("b"))])
    session = only(plane, person).session
    plane.client.call("budget", session=session, tokens=150)
    for i in range(2):
        with claude.transcript(person, session=id_of(1)).open("ab") as file:
            file.write(claude.lines([claude.answers(f"c{i}", "b" if not i else "c0", claude.text(f"c{i}"))]))
        assert only(plane, person).status == "grown"
    assert said(plane, session) == ["a", "b", "c0", "c1"]
    assert plane.client.call("show", session=session).session.state == "paused"


def test_a_file_that_did_not_change_is_not_even_opened(
    plane: Plane, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(person, 1, talk("a"))
    only(plane, person)

    def refuse(path: str) -> Any:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(engine, "open_file", refuse)
    assert only(plane, person).status == "same"
    put(person, 1, talk("a", "b"))
    [report] = capture(plane, person)
    assert "was opened" in str(report.error)
