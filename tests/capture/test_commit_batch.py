"""What was read from many files is committed at once, and every report is completed."""

from pathlib import Path

import pytest

from clew.client import Plane
from clew.service.capture import commit_batch
from clew.service.capture.capture_lines import Lines, capture_lines
from clew.service.capture.discovery import format_of, open_file, session_file_at
from clew.service.capture.report import RACED, Captured
from clew.service.capture.run import CaptureRun, source_of
from support import claude


@pytest.fixture
def run(plane: Plane) -> CaptureRun:
    return CaptureRun(plane.client.context)


def id_of(number: int) -> str:
    return f"{number:08d}-2222-4333-8444-555555555555"


def queue(run: CaptureRun, home: Path, number: int) -> Captured:
    """Capture a new file up to the commit."""
    path = claude.transcript(home, session=id_of(number))
    path.write_bytes(claude.lines([{**claude.says(f"n{number}", None, "hello"), "sessionId": id_of(number)}]))
    session_file = session_file_at(str(path), "claude-code", "lines")
    assert session_file is not None
    source = source_of(run, session_file, format_of(session_file), session_file.fingerprint)
    report = Captured(runtime="claude-code", path=str(path))
    with open_file(str(path)) as file:
        capture_lines(run, Lines(source=source, file=file, size=session_file.size), report)
    return report


def test_nothing_is_in_the_log_before_the_commit_and_all_of_it_after(
    plane: Plane, run: CaptureRun, person: Path
) -> None:
    reports = [queue(run, person, number) for number in range(3)]
    assert plane.sessions() == []
    assert {report.session for report in reports} == {""}
    run.batch.commit()
    assert {report.session for report in reports} == {session.id for session in plane.sessions()}
    assert [(report.status, report.records, report.events) for report in reports] == [("new", 1, 1)] * 3


def test_a_large_batch_is_committed_by_itself(
    plane: Plane, run: CaptureRun, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = queue(run, person, 0)
    monkeypatch.setattr(commit_batch, "BATCH_BYTES", Path(first.path).stat().st_size + 1)
    assert not first.session
    second, third = queue(run, person, 1), queue(run, person, 2)
    assert [bool(report.session) for report in (first, second, third)] == [True, True, False]


def test_only_a_waiting_name_makes_a_batch_commit(run: CaptureRun, person: Path) -> None:
    report = queue(run, person, 1)
    run.batch.commit_if_waiting(["another"])
    assert not report.session
    run.batch.commit_if_waiting(["another", id_of(1)])
    assert report.session
    assert not run.batch.is_waiting(id_of(1))


def test_a_file_that_another_capture_stored_first_is_reported_with_what_that_stored(
    plane: Plane, run: CaptureRun, person: Path
) -> None:
    slower, quicker = run, CaptureRun(plane.client.context)
    late = queue(slower, person, 1)
    first = queue(quicker, person, 1)
    quicker.batch.commit()
    slower.batch.commit()
    assert (late.status, late.note, late.error) == ("same", RACED, None)
    assert (late.session, late.records) == (first.session, 1)
    assert len(plane.sessions()) == 1
