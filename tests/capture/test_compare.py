"""A file against what is stored of it: grown, rewritten, moved or the same."""

import io
import os
from pathlib import Path

import pytest

from clew.client import Plane
from clew.service.capture import compare
from clew.service.capture.compare import begins_with_stored, equals_stored, find_moved
from clew.service.capture.discovery import format_of, session_file_at
from clew.service.capture.run import CaptureRun, source_of
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import END_BYTES, NativeFile
from support import claude
from support.captures import only


@pytest.fixture
def run(plane: Plane) -> CaptureRun:
    return CaptureRun(plane.client.context)


@pytest.fixture
def data(person: Path) -> bytes:
    """The bytes of the person's only session file; longer than both ends that are hashed."""
    names = [f"n{i}" for i in range(60)]
    records = [claude.says(name, names[i - 1] if i else None, name) for i, name in enumerate(names)]
    claude.transcript(person).write_bytes(claude.lines(records))
    return claude.transcript(person).read_bytes()


@pytest.fixture
def stored(plane: Plane, run: CaptureRun, person: Path, data: bytes) -> NativeFile:
    session = run.store.session(only(plane, person).session)
    [stored] = files_of(run.store, session)
    return stored


def begins(run: CaptureRun, data: bytes, stored: NativeFile) -> bool:
    return begins_with_stored(run, io.BytesIO(data), len(data), stored)


def changed_in_the_middle(data: bytes) -> bytes:
    middle = len(data) // 2
    assert min(middle, len(data) - middle) > END_BYTES
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def test_a_file_that_grew_begins_with_what_is_stored(run: CaptureRun, data: bytes, stored: NativeFile) -> None:
    assert begins(run, data, stored)
    assert begins(run, data + b"more\n", stored)
    assert not begins(run, data[:-1], stored)


def test_a_change_in_the_middle_is_seen(run: CaptureRun, data: bytes, stored: NativeFile) -> None:
    assert not begins(run, changed_in_the_middle(data), stored)
    assert not begins(run, changed_in_the_middle(data) + b"more\n", stored)


def test_of_a_file_that_is_long_and_grew_only_the_ends_are_compared(
    run: CaptureRun, data: bytes, stored: NativeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "COMPARED_BYTES", len(data) - 1)
    changed = changed_in_the_middle(data)
    assert begins(run, changed + b"more\n", stored)
    assert not begins(run, changed, stored)
    assert not begins(run, b"X" + data[1:] + b"more\n", stored)


def test_only_the_same_bytes_are_equal(run: CaptureRun, data: bytes, stored: NativeFile) -> None:
    assert equals_stored(run, data, stored)
    for other in (data + b"\n", data[:-1], changed_in_the_middle(data), b""):
        assert not equals_stored(run, other, stored)


def test_a_file_is_moved_only_if_nothing_is_left_and_its_content_is_recognised(
    run: CaptureRun, person: Path, data: bytes, stored: NativeFile
) -> None:
    path, elsewhere = claude.transcript(person), claude.transcript(person, folder="-elsewhere")

    def moved(recognised: bool) -> NativeFile | None:
        session_file = session_file_at(str(elsewhere), "claude-code", "lines")
        assert session_file is not None
        source = source_of(run, session_file, format_of(session_file), session_file.fingerprint)
        return find_moved(run, source, claude.SESSION, lambda candidate: recognised and candidate.key == stored.key)

    elsewhere.write_bytes(data)
    assert moved(True) is None
    os.unlink(path)
    assert moved(False) is None
    found = moved(True)
    assert found is not None
    assert (found.key, found.path, found.fingerprint) == (stored.key, str(elsewhere), "")
