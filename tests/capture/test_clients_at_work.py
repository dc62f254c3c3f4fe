"""What clients and machines do while sessions are captured: updates, two versions at once, clocks, network disks."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from clew import app
from clew.client import Plane
from clew.model.events import Event, MessageAdded, RuntimeAttached
from clew.runtimes.rounds import text_of
from clew.service.capture.report import Captured
from support import claude
from support.captures import capture

HOUR_S = 3600


def only(plane: Plane, person: Path) -> Captured:
    [report] = capture(plane, person)
    assert report.error is None, report
    return report


def events(plane: Plane, session: str) -> list[Event]:
    found: list[Event] = plane.client.call("events", session=session)
    return found


def said(plane: Plane, session: str) -> list[str]:
    return [text_of(one.body.content) for one in events(plane, session) if isinstance(one.body, MessageAdded)]


def versions(plane: Plane, session: str) -> list[str]:
    return [one.body.runtime_version for one in events(plane, session) if isinstance(one.body, RuntimeAttached)]


def test_a_client_that_is_updated_while_it_runs_goes_on_in_its_session(tmp_path: Path, person: Path) -> None:
    path = claude.transcript(person)
    old = [claude.says("1", None, "one"), claude.answers("2", "1", claude.text("two"))]
    new: list[dict[str, Any]] = [
        {"type": "mind-map", "sessionId": claude.SESSION, "nodes": []},
        claude.says("3", "2", "three", version="999.0.1", mood="calm"),
        claude.answers("4", "3", claude.text("four"), version="999.0.1"),
    ]
    (tmp_path / "own").mkdir()
    with app.connect(home=tmp_path / "own") as plane:
        path.write_bytes(claude.lines(old))
        first = only(plane, person)
        # The newer client writes the whole file anew, as it now would, and appends to it.
        path.write_bytes(claude.lines([*({**one, "mood": "calm"} for one in old), *new]))
        report = only(plane, person)
        assert (report.session, report.quarantined) == (first.session, 0)
        assert said(plane, report.session)[-4:] == ["one", "two", "three", "four"]
        assert versions(plane, report.session)[-1] == "999.0.1"
        found = {(one.what, one.name) for one in plane.client.call("drift")}
        assert found == {("kind", "mind-map"), ("field", "mood"), ("version", "999.0.1")}


def test_two_versions_of_a_client_at_work_keep_their_sessions_apart(plane: Plane, person: Path) -> None:
    sessions = {version: f"{version[0] * 8}-2222-4333-8444-555555555555" for version in ("1.0.95", "2.1.328")}
    told: dict[str, list[dict[str, Any]]] = {version: [] for version in sessions}
    for number in range(3):
        for version, session in sessions.items():
            about = {"version": version, "sessionId": session}
            parent = f"{version}{number - 1}" if number else None
            told[version].append(claude.says(f"{version}{number}", parent, f"{version} says {number}", **about))
            claude.transcript(person, session=session).write_bytes(claude.lines(told[version]))
            reports = capture(plane, person)
            assert [one.error for one in reports] == [None] * len(reports)
    for version, session in sessions.items():
        [report] = [one for one in reports if session in one.path]
        assert said(plane, report.session) == [f"{version} says {number}" for number in range(3)]
        assert set(versions(plane, report.session)) == {version}


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_file_whose_clock_is_an_hour_off_is_captured_as_it_grows(plane: Plane, person: Path, hours: int) -> None:
    """The clock of a server that holds the home, and the clock of the client that wrote the records."""
    path = claude.transcript(person)
    story: list[dict[str, Any]] = []
    for number in range(3):
        # The client's clock was set back in the middle: a later record has an earlier time.
        stamp = f"2026-11-15T{10 + hours * (number % 2):02}:00:00.000Z"
        story.append(claude.says(str(number), str(number - 1) if number else None, f"say {number}", timestamp=stamp))
        path.write_bytes(claude.lines(story))
        os.utime(path, times=(time.time() + hours * HOUR_S,) * 2)
        report = only(plane, person)
        assert said(plane, report.session) == [f"say {told}" for told in range(number + 1)]
        assert only(plane, person).status == "same"


def test_a_home_that_comes_back_with_other_file_numbers_has_nothing_new(plane: Plane, person: Path) -> None:
    """As after a network disk was mounted again: the same bytes and times, another inode."""
    path = claude.transcript(person)
    path.write_bytes(claude.lines(claude.story()))
    first = only(plane, person)
    before = events(plane, first.session)
    status, again = path.stat(), path.with_name("again")
    again.write_bytes(path.read_bytes())
    os.utime(again, ns=(status.st_atime_ns, status.st_mtime_ns))
    again.replace(path)
    assert path.stat().st_ino != status.st_ino
    report = only(plane, person)
    assert (report.status, report.session, report.records) == ("same", first.session, first.records)
    assert [one.source for one in events(plane, report.session)] == [one.source for one in before]
