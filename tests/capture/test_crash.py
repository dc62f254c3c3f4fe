"""Capture cut off anywhere, several captures at once, and files that grow meanwhile: nothing lost, nothing twice."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from support import claude
from support.captures import capture, events, log, native, only
from support.children import environment
from support.planes import plane_on

# A capture in a process of its own, with commits as small as can be; it ends itself as told.
CHILD = """
import os, signal, sys
from clew.service.capture import chunked_lines, commit_batch
from clew.store.native_files import updates
from support.planes import plane_on

url, home, when, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
chunked_lines.CHUNK_BYTES = commit_batch.BATCH_BYTES = 3000

def ending(function, after):
    def call(*given, **named):
        global count
        count -= 1
        if not count and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = function(*given, **named)
        if not count:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return call

if when == "committed":
    commit_batch.apply_updates = ending(commit_batch.apply_updates, True)
if when == "writing":
    updates._record = ending(updates._record, False)
if when == "written":
    updates._record = ending(updates._record, True)
if when == "prepared":
    updates.segments.cut = ending(updates.segments.cut, True)
with plane_on(url) as plane:
    for one in plane.capture(home=home):
        if getattr(one, "error", None):
            print(one)
"""


def child(url: str, home: Path, when: str = "", count: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, url, str(home), when, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def ended(process: subprocess.Popen[str], code: int = 0) -> None:
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, out, errors) == (code, "", ""), (process.returncode, out, errors)


def talk(name: str, count: int, size: int = 300) -> list[dict[str, Any]]:
    names = [f"{name}{i}" for i in range(count)]
    return [claude.says(one, names[i - 1] if i else None, f"{one} " + "x" * size) for i, one in enumerate(names)]


def machine(home: Path) -> dict[str, bytes]:
    """A home with a bit of everything: long and short files, a fork, a document, a database."""
    files: dict[str, bytes] = {}

    def session(number: int, records: list[dict[str, Any]]) -> None:
        id = f"{number:08d}-2222-4333-8444-555555555555"
        path = claude.transcript(home, session=id)
        path.write_bytes(claude.lines({**record, "sessionId": id} for record in records))
        files[id] = path.read_bytes()

    session(1, talk("long", 60))
    session(2, [*talk("long", 60)[:40], claude.says("other", "long39", "another way"), *talk("own", 20)])
    session(3, claude.story())
    session(4, talk("short", 3))
    chats = home / ".gemini" / "tmp" / "app" / "chats"
    chats.mkdir(parents=True)
    said = [{"id": f"g{i}", "timestamp": "2026-11-15T10:00:00Z", "type": "user", "content": f"g {i}"} for i in range(9)]
    document = {"sessionId": "gem", "projectHash": "h", "startTime": "", "lastUpdated": "", "messages": said}
    (chats / "session-2026-11-15-gem.json").write_text(json.dumps(document))
    files["gem"] = json.dumps(document).encode()
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    rows = json.loads((Path(__file__).parents[1] / "runtimes/fixtures/opencode/rows.json").read_text())
    with sqlite3.connect(folder / "opencode.db") as connection:
        for table, found in rows.items():
            names = list(dict.fromkeys(name for row in found for name in row))
            connection.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            for row in found:
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))
    connection.close()
    return files


def overview(plane: Plane) -> list[tuple[str, list[dict[str, Any]]]]:
    """Every session by the native id its metadata tells; two stores of the same machine show the same."""
    found = []
    for one in plane.sessions(limit=200):
        told = [{**event, "parent": ""} if "parent" in event else event for event in log(plane, one.id)]
        opened = [{key: value for key, value in event.items() if key != "digest"} for event in told]
        found.append((json.loads(bytes(one.metadata))["native"], opened))
    return sorted(found, key=lambda one: (one[0], json.dumps(one[1])))


def check(plane: Plane, home: Path, files: dict[str, bytes], expected: Any) -> None:
    """Capture what is left, and find everything there once, as in a capture that nothing came between."""
    assert not [report for report in capture(plane, home) if report.error]
    again = capture(plane, home)
    assert {report.status for report in again} == {"same"}
    assert overview(plane) == expected
    for one in again:
        name = Path(one.path).stem
        if name in files:
            assert native(plane, one.session) == files[name]
    assert not [problem for verified in plane.verify() for problem in verified.problems]


@pytest.fixture
def expected(tmp_path: Path, person: Path) -> tuple[dict[str, bytes], Any]:
    files = machine(person)
    with plane_on(f"sqlite:///{tmp_path / 'expected.db'}") as plane:
        assert not [report for report in capture(plane, person) if report.error]
        return files, overview(plane)


@pytest.mark.parametrize("when", ["committed", "writing", "written", "prepared"])
def test_a_capture_that_is_killed_is_finished_by_the_next(
    when: str, store_url: str, person: Path, expected: tuple[dict[str, bytes], Any]
) -> None:
    files, told = expected
    for count in (1, 2, 3, 5):
        ended(child(store_url, person, when, count), -signal.SIGKILL)
    with plane_on(store_url) as plane:
        check(plane, person, files, told)


def test_a_capture_that_is_killed_at_any_moment_is_finished_by_the_next(
    store_url: str, person: Path, expected: tuple[dict[str, bytes], Any]
) -> None:
    chance = random.Random(5)
    for _ in range(6):
        process = child(store_url, person)
        try:
            process.communicate(timeout=chance.uniform(0.25, 0.9))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    with plane_on(store_url) as plane:
        check(plane, person, *expected)


def test_a_long_file_of_which_a_part_was_taken_is_not_the_same(store_url: str, person: Path) -> None:
    path = claude.transcript(person)
    path.write_bytes(claude.lines(talk("long", 60)))
    ended(child(store_url, person, "committed", 2), -signal.SIGKILL)
    with plane_on(store_url) as plane:
        report = only(plane, person)
        assert (report.status, report.records) == ("grown", 60)
        assert native(plane, report.session) == path.read_bytes()


def test_a_rewritten_file_whose_reading_was_killed_has_nothing_twice(store_url: str, person: Path) -> None:
    path = claude.transcript(person)
    records = talk("long", 60)
    # Records without an identity of their own are told apart by where they are.
    for i in range(0, 60, 5):
        records.insert(i, {"type": "mode", "mode": f"m{i}", "sessionId": claude.SESSION})
    path.write_bytes(claude.lines(records))
    ended(child(store_url, person))
    path.write_bytes(claude.lines(records[1:]))
    ended(child(store_url, person, "committed", 2), -signal.SIGKILL)
    with plane_on(store_url) as plane:
        report = only(plane, person)
        assert report.records == len(records) - 1
        kinds = [event.kind for event in events(plane, report.session)]
        assert kinds.count("claude-code.mode") == 12
        assert kinds.count("message_added") == 60
        assert native(plane, report.session) == path.read_bytes()


def test_several_captures_at_once_take_everything_once(
    store_url: str, person: Path, expected: tuple[dict[str, bytes], Any]
) -> None:
    plane_on(store_url).close()
    for process in [child(store_url, person) for _ in range(3)]:
        ended(process)
    with plane_on(store_url) as plane:
        check(plane, person, *expected)


def test_a_file_that_grows_while_it_is_captured_is_there_in_the_end(store_url: str, person: Path) -> None:
    path = claude.transcript(person)
    records = talk("grows", 400)
    path.write_bytes(claude.lines(records[:1]))

    def grow() -> None:
        chance = random.Random(3)
        data = claude.lines(records[1:])
        with path.open("ab", buffering=0) as file:
            while data:
                cut = chance.randrange(1, 2000)
                file.write(data[:cut])
                data = data[cut:]
                stop.wait(0.002)

    stop = threading.Event()
    writer = threading.Thread(target=grow)
    plane_on(store_url).close()
    writer.start()
    try:
        for _ in range(3):
            for process in [child(store_url, person) for _ in range(2)]:
                ended(process)
    finally:
        stop.set()
        writer.join()
    with plane_on(store_url) as plane:
        report = only(plane, person)
        assert report.records == 400
        assert native(plane, report.session) == path.read_bytes()
        said = [event.source for event in events(plane, report.session) if event.kind == "message_added"]
        assert said == [claude.id_of(f"grows{i}") for i in range(400)]
