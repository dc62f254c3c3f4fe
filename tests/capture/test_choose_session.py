"""The session that a new file is given, step by step, without capturing the file."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.client import Plane
from clew.model.session import Session
from clew.runtimes.contract import Identity, Reading
from clew.runtimes.records import read_lines
from clew.service.capture.choose_session import (
    Choice,
    NewFile,
    choose_session,
    postpone_until_parent_is_captured,
)
from clew.service.capture.discovery import format_of, session_file_at
from clew.service.capture.identity import identify
from clew.service.capture.reconcile import root_of
from clew.service.capture.run import CaptureRun, ParentNotCaptured, source_of
from clew.store.log.opening import Forking, Opening
from support import claude
from support.captures import only


def id_of(number: int) -> str:
    return f"{number:08d}-2222-4333-8444-555555555555"


def put(home: Path, number: int, *names: str, folder: str = "-home-me-app") -> Path:
    """Write a file in which these messages follow each other; files with the same names share their records."""
    path = claude.transcript(home, session=id_of(number), folder=folder)
    records = [claude.says(name, names[i - 1] if i else None, name) for i, name in enumerate(names)]
    path.write_bytes(claude.lines({**record, "sessionId": id_of(number)} for record in records))
    return path


def new_file(run: CaptureRun, path: Path, **identity: Any) -> NewFile:
    session_file = session_file_at(str(path), "claude-code", "lines")
    assert session_file is not None
    format = format_of(session_file)
    named = identify(format, session_file, path.read_bytes())
    drafts = read_lines(format, Reading("claude-code", named.native, format.state()), path.read_bytes()).drafts
    return NewFile(
        source=source_of(run, session_file, format, session_file.fingerprint),
        identity=msgspec.structs.replace(named, **identity),
        root=root_of(drafts),
        drafts=drafts,
        all_drafts=lambda: drafts,
    )


@pytest.fixture
def run(plane: Plane) -> CaptureRun:
    return CaptureRun(plane.client.context)


def choose(run: CaptureRun, path: Path, **identity: Any) -> Choice:
    return choose_session(run, new_file(run, path, **identity))


def test_a_file_that_repeats_nothing_opens_a_session_for_its_program_in_its_project(
    run: CaptureRun, person: Path
) -> None:
    into = choose(run, put(person, 1, "a", "b")).into
    assert isinstance(into, Opening)
    assert (into.project, into.agent) == ("app", "claude-code")
    assert msgspec.json.decode(into.metadata) == {"runtime": "claude-code", "native": id_of(1), "machine": "here"}


def test_a_file_that_repeats_a_beginning_forks_after_the_last_shared_event(
    plane: Plane, run: CaptureRun, person: Path
) -> None:
    put(person, 1, "a", "b", "c")
    session = only(plane, person).session
    choice = choose(run, put(person, 2, "a", "b", "d"))
    assert isinstance(choice.into, Forking)
    shared = list(run.store.read(choice.into.parent, upto=choice.into.at))
    assert choice.into.parent.id == session
    assert shared[-1].source == claude.id_of("b")
    assert choice.shared is not None
    assert {claude.id_of("a"), claude.id_of("b")} <= choice.shared.sources


def test_of_several_parents_the_one_that_shares_the_most_is_chosen(plane: Plane, run: CaptureRun, person: Path) -> None:
    put(person, 1, "a", "x")
    first = only(plane, person).session
    put(person, 2, "a", "b", "c")
    [longer] = [one.session for one in plane.capture(home=str(person)) if one.session != first]
    into = choose(run, put(person, 3, "a", "b", "c", "d")).into
    assert isinstance(into, Forking)
    assert into.parent.id == longer


def test_a_file_of_the_same_name_in_which_nobody_speaks_joins_the_session(
    plane: Plane, run: CaptureRun, person: Path
) -> None:
    put(person, 1, "a")
    session = only(plane, person).session
    twin = claude.transcript(person, session=id_of(1), folder="-home-me-other")
    twin.write_bytes(claude.lines([{"type": "mode", "mode": "plan", "sessionId": id_of(1)}]))
    into = choose(run, twin).into
    assert isinstance(into, Session)
    assert into.id == session


def test_a_file_of_the_same_name_that_says_something_else_is_a_session_of_its_own(
    plane: Plane, run: CaptureRun, person: Path
) -> None:
    put(person, 1, "a")
    only(plane, person)
    assert isinstance(choose(run, put(person, 1, "b", folder="-home-me-other")).into, Opening)


def test_a_twin_of_an_archived_session_goes_into_a_fork_of_it(plane: Plane, run: CaptureRun, person: Path) -> None:
    put(person, 1, "a")
    session = only(plane, person).session
    plane.client.call("close", session=session)
    plane.client.call("archive", session=session)
    twin = claude.transcript(person, session=id_of(1), folder="-home-me-other")
    twin.write_bytes(claude.lines([{"type": "mode", "mode": "plan", "sessionId": id_of(1)}]))
    into = choose(run, twin).into
    assert isinstance(into, Forking)
    assert (into.parent.id, into.at) == (session, run.store.head(into.parent).head)


def test_a_new_file_is_announced_to_the_files_after_it_by_its_name_and_its_first_record(
    run: CaptureRun, person: Path
) -> None:
    new = new_file(run, put(person, 1, "a", "b"))
    assert not run.batch.is_waiting(id_of(1))
    choose_session(run, new)
    assert run.batch.is_waiting(id_of(1))
    assert run.batch.is_waiting(new.root)


def test_a_fork_is_postponed_until_its_parent_is_captured_and_only_once(
    plane: Plane, run: CaptureRun, person: Path
) -> None:
    new = new_file(run, put(person, 2, "b"), fork_of=id_of(1))
    with pytest.raises(ParentNotCaptured):
        postpone_until_parent_is_captured(run, new.source, new.identity)
    run.batch.announce([id_of(1)])
    postpone_until_parent_is_captured(run, new.source, new.identity)
    alone = CaptureRun(plane.client.context)
    alone.is_last_pass = True
    postpone_until_parent_is_captured(alone, new.source, new.identity)


def test_a_fork_that_names_the_bytes_of_its_parent_begins_at_their_last_event(
    plane: Plane, run: CaptureRun, person: Path
) -> None:
    parent = put(person, 1, "a", "b", "c")
    session = only(plane, person).session
    end = parent.read_bytes().index(b"\n", parent.read_bytes().index(claude.id_of("b").encode())) + 1
    into = choose(run, put(person, 2, "other"), fork_of=id_of(1), fork_bytes=end).into
    assert isinstance(into, Forking)
    assert into.parent.id == session
    assert list(run.store.read(into.parent, upto=into.at))[-1].source == claude.id_of("b")


def test_an_identity_that_names_no_parent_is_not_postponed(run: CaptureRun, person: Path) -> None:
    new = new_file(run, put(person, 1, "a"))
    postpone_until_parent_is_captured(run, new.source, Identity(native=id_of(1)))
