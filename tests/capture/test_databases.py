"""Databases of running programs: read without a trace, never their secrets, locked ones reported."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.service.capture.report import Captured
from support.captures import capture, events, native, said
from support.planes import plane_on

ROWS = json.loads((Path(__file__).parents[1] / "runtimes/fixtures/opencode/rows.json").read_text())
CANARY = "sk-canary-5f0c2a"


def opencode(person: Path) -> Path:
    path = person / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def made(path: Path, *, wal: bool = False) -> Path:
    """The database of the fixture: what OpenCode wrote in one session, and tables that are nobody's business."""
    with closing(sqlite3.connect(path)) as connection, connection:
        if wal:
            connection.execute("PRAGMA journal_mode=WAL")
        for table, rows in ROWS.items():
            names = list(dict.fromkeys(name for row in rows for name in row))
            connection.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            for row in rows:
                add(connection, table, row)
        for table in ("account", "credential", "auth", "account_state", "control_account"):
            connection.execute(f"CREATE TABLE {table} (id, access_token, refresh_token, data)")
            connection.execute(f"INSERT INTO {table} VALUES (1, '{CANARY}', '{CANARY}', '{CANARY}')")
    return path


def add(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def message(number: int, text: str) -> list[tuple[str, dict[str, Any]]]:
    """A prompt as rows."""
    session, at = ROWS["session"][0]["id"], 9_000_000_000_000 + number
    about = {"id": f"msg_z{number}", "session_id": session, "time_created": at, "time_updated": at}
    role = {"role": "user", "time": {"created": at}, "agent": "build", "model": {"providerID": "p", "modelID": "m"}}
    part = {"id": f"prt_z{number}", "message_id": about["id"], "session_id": session}
    times = {"time_created": at, "time_updated": at}
    return [
        ("message", {**about, "data": json.dumps(role)}),
        ("part", {**part, **times, "data": json.dumps({"type": "text", "text": text})}),
    ]


def say(path: Path, number: int, text: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, row in message(number, text):
            add(connection, table, row)


def go_on(path: Path) -> None:
    """What the program does when the next prompt comes after some were taken back: now they are gone."""
    with closing(sqlite3.connect(path)) as connection, connection:
        [(id, revert)] = connection.execute("SELECT id, revert FROM session WHERE revert IS NOT NULL")
        for table, column in (("part", "message_id"), ("message", "id")):
            connection.execute(
                f"DELETE FROM {table} WHERE session_id = ? AND {column} >= ?", (id, json.loads(revert)["messageID"])
            )
        connection.execute("UPDATE session SET revert = NULL")


def beside(path: Path) -> dict[str, tuple[int, int]]:
    """Every file of the folder, with its size and when it was written."""
    return {one.name: (one.stat().st_size, one.stat().st_mtime_ns) for one in path.parent.iterdir()}


def first(reports: list[Captured]) -> Captured:
    """The report of the session that messages are added to."""
    return next(report for report in reports if report.path.endswith(f"#{ROWS['session'][0]['id']}"))


@contextmanager
def program(path: Path, *statements: str, kill: bool = False) -> Iterator[None]:
    """Another process that has carried out these statements and still has the database open, or was killed."""
    code = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for statement in sys.argv[2:]: connection.execute(statement)\n"
        "print('done', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path), *statements], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        try:
            if kill:
                process.send_signal(signal.SIGKILL)
                process.wait()
            yield
        finally:
            process.kill()


TITLE = f"UPDATE session SET title = 'written' WHERE id = '{ROWS['session'][0]['id']}'"


@pytest.mark.parametrize("wal", [False, True])
def test_a_database_is_read_without_a_trace(plane: Plane, person: Path, wal: bool) -> None:
    path = made(opencode(person), wal=wal)
    before = beside(path)
    reports = capture(plane, person)
    assert {report.status for report in reports} == {"new"}
    assert len(reports) == len(ROWS["session"])
    assert beside(path) == before
    assert {report.status for report in capture(plane, person)} == {"same"}
    assert beside(path) == before


@pytest.mark.parametrize("kill", [False, True])
def test_what_is_only_in_the_write_ahead_log_is_captured(plane: Plane, person: Path, kill: bool) -> None:
    path = made(opencode(person), wal=True)
    with program(path, "PRAGMA wal_autocheckpoint=0", TITLE, kill=kill):
        before = beside(path)
        assert before["opencode.db-wal"][0] > 0
        report = first(capture(plane, person))
        assert plane.client.call("show", session=report.session).session.title == "written"
        assert beside(path) == before


def test_a_write_ahead_log_without_its_index_is_reported(plane: Plane, person: Path) -> None:
    path = made(opencode(person), wal=True)
    with program(path, "PRAGMA wal_autocheckpoint=0", TITLE, kill=True):
        path.with_name("opencode.db-shm").unlink()
        before = beside(path)
        [report] = capture(plane, person)
        assert report.status == "failed"
        assert "write-ahead log" in str(report.error)
        assert beside(path) == before


@pytest.mark.parametrize(
    "statements", [("BEGIN EXCLUSIVE", TITLE), ("PRAGMA locking_mode=EXCLUSIVE", TITLE)], ids=["begin", "mode"]
)
def test_a_locked_database_is_reported_soon_and_the_others_are_captured(
    plane: Plane, person: Path, statements: tuple[str, ...]
) -> None:
    path = made(opencode(person))
    other = made(path.with_name("opencode-beta.db"))
    with closing(sqlite3.connect(other)) as connection, connection:
        # Sessions of its own, and not those of the first database once more.
        for table, column in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
            connection.execute(f"UPDATE {table} SET {column} = {column} || 'beta'")
    with program(path, *statements):
        start = time.monotonic()
        reports = capture(plane, person)
        assert time.monotonic() - start < 20
        failed = [report for report in reports if report.status == "failed"]
        assert [(one.path, one.error) for one in failed] == [(str(path), "database is locked")]
        assert {report.status for report in reports if report.path.startswith(str(other))} == {"new"}
    assert first([report for report in capture(plane, person) if report.path.startswith(str(path))]).error is None
    # Nothing that was never committed is in the log.
    assert ("written" in {session.title for session in plane.sessions()}) == ("BEGIN EXCLUSIVE" not in statements)


def test_a_database_does_not_hold_up_its_program(plane: Plane, person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.store.native_files.updates import apply_updates

    path = made(opencode(person))

    def writing(*given: Any, **named: Any) -> Any:
        # While we are busy with our own log, the program writes to its database, and does not wait for us.
        with closing(sqlite3.connect(path, timeout=0)) as connection, connection:
            connection.execute(TITLE)
        return apply_updates(*given, **named)

    monkeypatch.setattr("clew.service.capture.commit_batch.apply_updates", writing)
    assert not [report for report in capture(plane, person) if report.error]


def test_secrets_are_read_by_nobody(person: Path, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    path = made(opencode(person))
    ide = person / ".config/Cursor/User/globalStorage/state.vscdb"
    ide.parent.mkdir(parents=True)
    with closing(sqlite3.connect(ide)) as connection, connection:
        connection.execute("CREATE TABLE ItemTable (key, value)")
        connection.execute("CREATE TABLE cursorDiskKV (key, value)")
        for key in ("cursorAuth/accessToken", "secret://x", "cursorAuth/refreshToken"):
            connection.execute("INSERT INTO ItemTable VALUES (?, ?)", (key, CANARY))
            connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, CANARY))
        composer = {"composerId": "c1", "fullConversationHeadersOnly": [{"bubbleId": "b1", "type": 1}], "name": "n"}
        connection.execute("INSERT INTO cursorDiskKV VALUES ('composerData:c1', ?)", (json.dumps(composer),))
        bubble = json.dumps({"bubbleId": "b1", "type": 1, "text": "hello cursor"})
        connection.execute("INSERT INTO cursorDiskKV VALUES ('bubbleId:c1:b1', ?)", (bubble,))
    assert CANARY.encode() in path.read_bytes()
    with plane_on(f"sqlite:///{folder / 'clew.db'}") as plane:
        reports = capture(plane, person)
        assert not [report for report in reports if report.error]
        assert {report.runtime for report in reports} == {"opencode", "cursor"}
        [cursor] = [report for report in reports if report.runtime == "cursor"]
        assert said(plane, cursor.session) == ["hello cursor"]
        for one in reports:
            assert CANARY not in native(plane, one.session).decode()
    with closing(sqlite3.connect(folder / "clew.db")) as connection:
        dump = "\n".join(connection.iterdump())
    assert CANARY not in dump
    import zstandard

    for file in folder.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert CANARY.encode() not in data
            if file.parent.parent.name == "blobs":
                assert CANARY.encode() not in zstandard.decompress(data)


def test_rows_that_come_change_and_go(plane: Plane, person: Path) -> None:
    path = made(opencode(person))
    before = said(plane, first(capture(plane, person)).session)
    go_on(path)
    say(path, 1, "one")
    say(path, 2, "two")
    report = first(capture(plane, person))
    assert report.status == "grown"
    assert said(plane, report.session) == [*before, "one", "two"]
    with closing(sqlite3.connect(path)) as connection, connection:
        data = json.dumps({"type": "text", "text": "ONE"})
        connection.execute("UPDATE part SET data = ?, time_updated = 9100000000000 WHERE id = 'prt_z1'", (data,))
    report = first(capture(plane, person))
    assert said(plane, report.session) == [*before, "ONE", "two"]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM part WHERE id = 'prt_z2'")
        connection.execute("DELETE FROM message WHERE id = 'msg_z2'")
    report = first(capture(plane, person))
    assert said(plane, report.session) == [*before, "ONE"]
    say(path, 3, "three")
    report = first(capture(plane, person))
    assert said(plane, report.session) == [*before, "ONE", "three"]
    assert all(verified.ok for verified in plane.verify())
    assert any(getattr(event.body, "text", "") == "two" for event in events(plane, report.session))


def test_what_was_taken_back_and_brought_back_is_said_again(plane: Plane, person: Path) -> None:
    path = made(opencode(person))
    [(revert,)] = [(row["revert"],) for row in ROWS["session"] if row.get("revert")]
    cut = said(plane, first(capture(plane, person)).session)
    for value in (None, revert, None, revert):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE session SET revert = ? WHERE id = ?", (value, ROWS["session"][0]["id"]))
        report = first(capture(plane, person))
        whole = said(plane, report.session)
        assert (whole == cut) == (value is not None)
        assert whole[: len(cut)] == cut


def test_a_session_that_was_removed_stays_in_the_log(plane: Plane, person: Path) -> None:
    path = made(opencode(person))
    report = first(capture(plane, person))
    whole = native(plane, report.session)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, column in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (ROWS["session"][0]["id"],))
    assert not [one for one in capture(plane, person) if one.session == report.session]
    assert native(plane, report.session) == whole


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"SQLite format 3\0" + b"\0" * 84, id="only-a-beginning"),
        pytest.param(b"SQLite format 3\0" + random.Random(1).randbytes(20_000), id="garbage"),
        pytest.param(b"no database at all", id="text"),
    ],
)
def test_what_is_no_database_is_reported(plane: Plane, person: Path, data: bytes) -> None:
    path = opencode(person)
    path.write_bytes(data)
    made(path.with_name("opencode-good.db"))
    reports = capture(plane, person)
    assert len([report for report in reports if report.status == "new"]) == len(ROWS["session"])
    assert [report.path for report in reports if report.error] == [str(path)] * bool(data)


def test_a_damaged_page_costs_only_what_is_on_it(plane: Plane, person: Path) -> None:
    path = made(opencode(person))
    data = bytearray(path.read_bytes())
    for at in range(4096 * 3, len(data) - 4096, 4096 * 7):
        data[at : at + 4096] = random.Random(at).randbytes(4096)
    path.write_bytes(data)
    made(path.with_name("opencode-good.db"))
    reports = capture(plane, person)
    assert {report.status for report in reports if "opencode-good" in report.path} == {"new"}


ODD = [7, 1.5, b"\xff\0", "a\0b", "x" * 300, "a/../../b", "ü🧵", "", None]


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize(
    "column", ["id", "directory", "title", "parent_id", "agent", "version", "time_created", "revert"]
)
def test_any_value_in_any_column_is_captured_or_reported(plane: Plane, person: Path, column: str, value: Any) -> None:
    path = made(opencode(person))
    made(path.with_name("opencode-good.db"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE session SET {column} = ? WHERE rowid = 1", (value,))
    reports = capture(plane, person)
    assert {report.status for report in reports if "opencode-good" in report.path} == {"new"}
    for one in reports:
        if one.session:
            native(plane, one.session)
    assert all(verified.ok for verified in plane.verify())


def test_text_that_is_not_utf_8_and_json_over_several_lines_are_captured(plane: Plane, person: Path) -> None:
    path = made(opencode(person))
    before = said(plane, first(capture(plane, person)).session)
    go_on(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        [(_, about), (_, part)] = message(1, "ü")
        add(connection, "message", {**about, "data": json.dumps(json.loads(about["data"]), indent=4)})
        add(connection, "part", part)
        broken = part["data"].replace("\\u00fc", "ü").encode("latin-1")
        connection.execute("UPDATE part SET data = CAST(? AS TEXT) WHERE id = ?", (broken, part["id"]))
    report = first(capture(plane, person))
    assert report.error is None
    assert said(plane, report.session) == [*before, "\ufffd"]
    assert "msg_z1" in native(plane, report.session).decode()


def test_a_name_of_odd_bytes_is_a_database_like_any_other(plane: Plane, person: Path) -> None:
    path = made(opencode(person))
    os.rename(path, os.path.join(os.fsencode(path.parent), b"opencode-\xff?#%20.db"))
    reports = capture(plane, person)
    assert {report.status for report in reports} == {"new"}
    assert {report.status for report in capture(plane, person)} == {"same"}


def test_what_was_erased_is_not_captured_again(plane: Plane, person: Path) -> None:
    path = made(opencode(person))
    session = first(capture(plane, person)).session
    plane.client.call("erase", session=session, with_forks=True)
    say(path, 1, "again")
    assert first(capture(plane, person)).status == "erased"


def test_an_archived_session_goes_on_in_a_fork(plane: Plane, person: Path) -> None:
    path = made(opencode(person))
    go_on(path)
    archived = first(capture(plane, person)).session
    words = said(plane, archived)
    plane.client.call("close", session=archived)
    plane.client.call("archive", session=archived)
    for number in (1, 2):
        say(path, number, f"word {number}")
        fork = first(capture(plane, person)).session
        assert said(plane, fork) == [*words, *(f"word {i + 1}" for i in range(number))]
    assert said(plane, archived) == words
    assert [(session.id, session.parent) for session in plane.sessions() if session.parent] == [(fork, archived)]
    assert {report.status for report in capture(plane, person)} == {"same"}


def test_a_subagent_in_a_database_names_who_called_it(plane: Plane, person: Path) -> None:
    made(opencode(person))
    reports = capture(plane, person)
    parent = first(reports).session
    [child] = [report.session for report in reports if report.session != parent]
    assert plane.client.call("show", session=child).subagent_of == parent
    assert plane.client.call("show", session=parent).subagents == [child]


def test_a_copy_of_a_database_is_a_second_session_if_both_go_on(plane: Plane, person: Path, tmp_path: Path) -> None:
    path = made(opencode(person))
    first = {one.session for one in capture(plane, person)}
    copy = opencode(tmp_path / "backup")
    copy.write_bytes(path.read_bytes())
    for _ in range(2):
        reports = capture(plane, tmp_path / "backup")
        assert {one.status for one in reports} == {"same"}
        assert {one.session for one in reports} == first
    # The copy is used and grows: the session goes on there, and what was left behind is the copy now.
    say(copy, 1, "one")
    for status in ("grown", "same"):
        reports = capture(plane, tmp_path / "backup")
        assert {one.status for one in reports} >= {status}
        assert {one.session for one in reports} == first
        assert {one.status for one in capture(plane, person)} == {"same"}
    assert len(plane.sessions(empty=True)) == len(first)
    # Both go on differently: they are two sessions from then on.
    say(path, 2, "two")
    assert not {one.session for one in capture(plane, person) if one.status == "new"} & first
    assert len(plane.sessions(empty=True)) == len(first) + 1
