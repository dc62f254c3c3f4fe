"""Files that nobody knows, files that are damaged, and files of which no record is known: none is a silent success."""

import json
import os
from pathlib import Path

import pytest

from clew.client import Plane
from clew.model.errors import InvalidInput
from support import claude
from support.captures import capture, capture_paths


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_a_file_of_unknown_records_is_a_warning(plane: Plane, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines({"a": 1}, {"b": 2}))
    [report] = capture_paths(plane, path)
    assert (report.status, report.opaque) == ("new", 2)
    assert report.note == (
        "nothing in it is understood: no reader knows any of its 2 records; it is kept as it is; name the program that "
        "wrote it, if clew reads that"
    )
    assert [(again.status, again.note) for again in capture_paths(plane, path)] == [("same", report.note)]


@pytest.mark.parametrize(("folder", "program"), [(".grok/sessions/x/s-1", "Grok CLI"), (".hermes/sessions", "hermes")])
def test_the_warning_names_the_program_whose_folder_it_is(
    plane: Plane, tmp_path: Path, folder: str, program: str
) -> None:
    path = tmp_path / folder / "updates.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines({"method": "session/update"}))
    [report] = capture_paths(plane, path)
    assert f"its folder is that of {program}" in report.note


def test_a_program_that_changed_its_form_is_a_warning_with_what_to_do(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(lines({"type": "utterance", "uuid": "u1", "sessionId": "s"}))
    os.utime(path, (1_790_000_000, 1_790_000_000))  # What was written just now may go on.
    [report] = capture(plane, person)
    assert "the reader of Claude Code (proven with 2." in report.note
    assert "does not know its only record" in report.note
    assert "update clew" in report.note


def test_a_file_that_only_keeps_books_is_no_surprise(plane: Plane, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(lines({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}))
    os.utime(path, (1_790_000_000, 1_790_000_000))
    [report] = capture(plane, person)
    assert (report.opaque, report.events, report.note) == (1, 0, "")


def test_damaged_json_and_json_of_nobody_are_told_apart(plane: Plane, tmp_path: Path) -> None:
    damaged, foreign = tmp_path / "a.json", tmp_path / "b.json"
    damaged.write_bytes(b'{"history": [{"mess')
    foreign.write_bytes(b'{"name": "x", "version": 1}')
    with pytest.raises(InvalidInput, match=r"a\.json is damaged: it ends in the middle; export or copy it again"):
        capture_paths(plane, damaged)
    with pytest.raises(InvalidInput, match=r"b\.json is JSON with `name`, `version`, but not a session file of any"):
        capture_paths(plane, foreign)
    finds = plane.client.call("capture_find", paths=[str(tmp_path)])
    assert finds.foreign_json == 1
    assert [(one.path, one.error) for one in finds.damaged] == [(str(damaged), "damaged: it ends in the middle")]
