"""Damaged files (T6): what was changed is found, or does no harm; nothing but errors of ours comes out."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from clew.model.errors import ClewError, Damaged, StoreError
from clew.model.events import Draft, Event, MessageAdded
from clew.model.session import Head, Session
from clew.store import Store, open_store
from clew.store.log.opening import Opening
from clew.store.log.verify import verify, verify_all
from support.drafts import message

FLIPS = 150
SESSIONS = 3


class Log(NamedTuple):
    """A log, with its last events still in the -wal, and what it holds."""

    folder: Path
    sessions: list[str]
    events: list[list[Event]]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A log as a process that was killed leaves it."""
    folder, copy = tmp_path_factory.mktemp("log"), tmp_path_factory.mktemp("copy") / "log"
    sessions = make_sessions(folder)
    with open_store(url(folder)) as store:
        for number in range(30, 45):
            append(store, sessions[number % SESSIONS], number)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm"))
        events = [list(store.read(store.session(session))) for session in sessions]
    assert (copy / "clew.db-wal").stat().st_size > 0
    return Log(copy, sessions, events)


def make_sessions(folder: Path) -> list[str]:
    """Write sessions and close the log, so that all of it is in the database file or in blobs."""
    with open_store(url(folder)) as store:
        sessions = [
            store.open(Opening(project="project", agent="agent", title=f"title {number}"), actor="person:test").id
            for number in range(SESSIONS)
        ]
        for number in range(30):
            append(store, sessions[number % SESSIONS], number)
    return sessions


def append(store: Store, session: str, number: int) -> None:
    """Append a text of a line, of some pages, or one that becomes a blob."""
    size = {7: 200_000, 3: 5_000}.get(number % 10, 150)
    store.append(store.session(session), [message(f"w-{number}", size)], actor="agent:w")


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/clew.db"


def damaged(log: Log, folder: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """A copy of the log with one file changed."""
    copy = folder / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(log.folder, copy)
    file = copy / name
    file.write_bytes(change(file.read_bytes()))
    return copy


def look(log: Log, folder: Path) -> list[list[Event]] | None:
    """The events of every session, or None if the damage was found on the way."""
    try:
        with open_store(url(folder), synchronous="OFF") as store:
            if store.database.check() or any(not found.ok for found in verify_all(store)):
                return None
            return [list(store.read(store.session(session))) for session in log.sessions]
    except ClewError:
        return None


def flip(chance: random.Random) -> Callable[[bytes], bytes]:
    """Change one byte, not one of the empty space between the rows, in one bit or altogether."""

    def change(data: bytes) -> bytes:
        offset = chance.choice([offset for offset, byte in enumerate(data) if byte])
        flipped = data[offset] ^ chance.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
        return data[:offset] + bytes([flipped]) + data[offset + 1 :]

    return change


def cut(keep: int) -> Callable[[bytes], bytes]:
    """Keep only so many bytes; less than nothing counts from the end."""
    return lambda data: data[:keep]


def blobs(log: Log) -> list[str]:
    return sorted(str(path.relative_to(log.folder)) for path in log.folder.glob("blobs/packs/??/*"))


def test_a_flipped_byte_of_the_database_is_found_or_harmless(intact: Log, chance: random.Random, scratch: Path) -> None:
    found = 0
    for _ in range(FLIPS):
        events = look(intact, damaged(intact, scratch, "clew.db", flip(chance)))
        assert events in (None, intact.events), "the log reads differently, and nothing says that it was damaged"
        found += events is None
    print(f"{found} of {FLIPS} flipped bytes were found, the others did no harm")
    assert found > FLIPS // 2


def test_a_flipped_byte_of_a_blob_is_found(intact: Log, chance: random.Random, scratch: Path) -> None:
    for name in blobs(intact) * 5:
        assert look(intact, damaged(intact, scratch, name, flip(chance))) is None


def test_a_flipped_byte_of_the_wal_never_changes_an_event(intact: Log, chance: random.Random, scratch: Path) -> None:
    """SQLite takes a damaged -wal for one that a crash cut short: its end is gone, and all before it is as it was."""
    for _ in range(FLIPS // 3):
        events = look(intact, damaged(intact, scratch, "clew.db-wal", flip(chance)))
        assert events is None or is_beginning(events, intact.events)


def is_beginning(shorter: list[list[Event]], longer: list[list[Event]]) -> bool:
    """Whether these are the first events of the log, whole and in order."""
    positions = sorted(event.position for events in shorter for event in events)
    return positions == list(range(1, len(positions) + 1)) and all(
        events == more[: len(events)] for events, more in zip(shorter, longer, strict=True)
    )


@pytest.mark.parametrize("keep", [100, 4095, 4096, 12_288, 20_000, -4096, -1])
def test_a_database_cut_short_is_found_or_harmless(keep: int, intact: Log, scratch: Path) -> None:
    events = look(intact, damaged(intact, scratch, "clew.db", cut(keep)))
    assert events in (None, intact.events)


def test_a_blob_cut_short_is_found(intact: Log, scratch: Path) -> None:
    for name in blobs(intact):
        for keep in (0, 1, 1000, -1):
            assert look(intact, damaged(intact, scratch, name, cut(keep))) is None


def test_a_wal_cut_short_never_changes_an_event(intact: Log, chance: random.Random, scratch: Path) -> None:
    for _ in range(20):
        events = look(intact, damaged(intact, scratch, "clew.db-wal", lambda data: data[: chance.randrange(len(data))]))
        assert events is None or is_beginning(events, intact.events)


@pytest.mark.parametrize(
    "content", [b"x" * 600, b"no database, but a text\n" * 1000, bytes(8192), random.Random(1).randbytes(20_000)]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "clew.db").write_bytes(content)
    with pytest.raises(Damaged, match="not a clew database"):
        open_store(url(tmp_path))
    assert (tmp_path / "clew.db").read_bytes() == content


def test_a_folder_in_place_of_the_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clew.db").mkdir()
    with pytest.raises(StoreError):
        open_store(url(tmp_path))


@pytest.mark.parametrize("wrong", [b"z", b"\xff", b'"', b"\0"], ids=["a letter", "no Unicode", "a quote", "NUL"])
def test_a_damaged_body_is_reported_with_session_and_seq(wrong: bytes, intact: Log, scratch: Path) -> None:
    event = next(event for event in intact.events[1] if event.source == "w-10")
    assert isinstance(event.body, MessageAdded)
    text = event.body.text.encode()
    folder = damaged(intact, scratch, "clew.db", lambda data: data.replace(text, text[:50] + wrong + text[51:]))
    with open_store(url(folder)) as store:
        hurt, *others = (store.session(intact.sessions[number]) for number in (1, 0, 2))
        problems = [(problem.session, problem.seq) for problem in verify(store, hurt).problems]
        assert problems == [(hurt.id, event.seq)]
        for other, number in zip(others, (0, 2), strict=True):
            assert verify(store, other).ok
            assert list(store.read(other)) == intact.events[number]


def test_a_damaged_blob_is_reported_with_session_and_seq(intact: Log, chance: random.Random, scratch: Path) -> None:
    places = {(event.session, event.seq) for events in intact.events for event in events if is_large(event)}
    assert len(places) == len(blobs(intact))
    for name in blobs(intact):
        with open_store(url(damaged(intact, scratch, name, flip(chance)))) as store:
            (place,) = {(problem.session, problem.seq) for found in verify_all(store) for problem in found.problems}
            places.remove(place)
    assert not places


def is_large(event: Event) -> bool:
    return isinstance(event.body, MessageAdded) and len(event.body.text) > 40_000


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE session SET title = 'another'",
        "UPDATE session SET agent = 'another'",
        "UPDATE session SET metadata = '{\"another\":1}'",
        "UPDATE head SET state = 'closed'",
        "UPDATE head SET epoch = 7",
        "UPDATE head SET spent_tokens = 7",
    ],
)
def test_a_row_that_contradicts_the_events_is_reported(change: str, intact: Log, scratch: Path) -> None:
    folder = changed(intact, scratch, change)
    with open_store(url(folder)) as store:
        assert {problem.session for found in verify_all(store) for problem in found.problems} == set(intact.sessions)


def test_a_head_that_makes_no_sense_is_an_error_of_ours(intact: Log, scratch: Path) -> None:
    folder = changed(intact, scratch, "UPDATE head SET state = 'actmve'")
    with open_store(url(folder)) as store:
        session = store.session(intact.sessions[0])
        with pytest.raises(ClewError):
            store.append(session, [Draft(body=MessageAdded(role="user", text="x"))], actor="agent:w")


def changed(log: Log, folder: Path, statement: str) -> Path:
    """A copy of the log after somebody changed rows behind our back."""
    copy = damaged(log, folder, "clew.db", lambda data: data)
    connection = apsw.Connection(str(copy / "clew.db"))
    connection.execute(statement)
    connection.close()
    return copy


# Damage at many places ------------------------------------------------------------------------------------------------

MANY = 30


class Many(NamedTuple):
    """A log of many sessions in one file, and what it holds: who each is, where it stands and its events."""

    data: bytes
    sessions: dict[str, tuple[Session, Head, list[Event]]]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Many:
    folder = tmp_path_factory.mktemp("many")
    with open_store(url(folder), synchronous="OFF") as store:
        for number in range(MANY):
            # Ids of our own, so that a seed hits the same places each time.
            session = store.open(
                Opening(project=f"p{number % 3}", title=f"t {number}", id=f"{number:020}"), actor="person:test"
            )
            drafts = [message(f"w-{number}-{each}", 5_000 if each == 7 else 150) for each in range(12)]
            store.append(session, drafts, actor="agent:w")
        found = {session.session.id: whole(store, session.session.id) for session in store.sessions(limit=MANY)}
    return Many((folder / "clew.db").read_bytes(), found)


def whole(store: Store, id: str) -> tuple[Session, Head, list[Event]]:
    session = store.session(id)
    return session, store.head(session), list(store.read(session))


def texts(one: tuple[Session, Head, list[Event]]) -> list[tuple[int, bytes, object]]:
    """What the chain of a session holds together."""
    return [(event.seq, event.digest, event.body) for event in one[2]]


def read_or_none(store: Store, id: str) -> tuple[Session, Head, list[Event]] | None:
    try:
        return whole(store, id)
    except ClewError:
        return None


def opened_or_refused(folder: Path) -> Store | Damaged:
    try:
        return open_store(url(folder), synchronous="OFF")
    except Damaged as error:
        return error


def overwritten(many: Many, folder: Path, seed: int) -> Path:
    """The log with 16 bytes overwritten at many places, mostly not in the page that says what tables there are."""
    chance = random.Random(seed)
    data = bytearray(many.data)
    first = 8192 if seed % 4 else 0
    for _ in range((8, 40, 150)[seed % 3]):
        at = chance.randrange(first, len(data) - 16)
        data[at : at + 16] = chance.randbytes(16)
    (folder / "clew.db").write_bytes(data)
    return folder


@pytest.mark.parametrize("seed", range(12))
def test_bytes_overwritten_anywhere_are_named_and_every_other_session_is_found_healthy(
    seed: int, many: Many, tmp_path: Path
) -> None:
    store = opened_or_refused(overwritten(many, tmp_path, seed))
    if isinstance(store, Damaged):
        assert "restore" in str(store)
        assert "clew verify" not in str(store)
        return
    with store:
        found = {verified.session: verified for verified in verify_all(store)}
        problems = [problem for one in found.values() for problem in one.problems]
        assert problems or seed % 3 == 0
        assert not any("clew verify" in problem.what for problem in problems)
        for id, was in many.sessions.items():
            if id in found and found[id].ok:
                assert texts(whole(store, id)) == texts(was)
            elif id in found:
                assert read_or_none(store, id) != was, found[id]
            else:
                assert problems


def test_a_session_whose_row_is_not_unicode_is_named_and_the_others_are_checked(many: Many, tmp_path: Path) -> None:
    (tmp_path / "clew.db").write_bytes(many.data.replace(b"t 17{}", b"\xff 17{}"))
    with open_store(url(tmp_path)) as store:
        found = list(verify_all(store))
    hurt = [id for id, (session, _, _) in many.sessions.items() if session.title == "t 17"]
    assert [one.session for one in found if not one.ok] == hurt
    assert len(found) == MANY


def test_a_session_that_is_gone_from_the_list_is_found_by_its_events(many: Many, tmp_path: Path) -> None:
    (tmp_path / "clew.db").write_bytes(many.data)
    connection = apsw.Connection(str(tmp_path / "clew.db"))
    connection.execute("DELETE FROM session WHERE title = 't 17'")
    connection.close()
    with open_store(url(tmp_path)) as store:
        *others, last = verify_all(store)
    assert all(one.ok for one in others)
    assert len(others) == MANY - 1
    assert [(problem.session, "(key 18)" in problem.what) for problem in last.problems] == [("", True)]


def test_a_list_of_sessions_that_cannot_be_read_is_a_problem_of_the_database(many: Many, tmp_path: Path) -> None:
    (tmp_path / "clew.db").write_bytes(many.data)
    connection = apsw.Connection(str(tmp_path / "clew.db"))
    [(root,)] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'session'").fetchall()
    [(size,)] = connection.execute("PRAGMA page_size").fetchall()
    connection.close()
    data = bytearray((tmp_path / "clew.db").read_bytes())
    data[(root - 1) * size : (root - 1) * size + 16] = bytes(16)
    (tmp_path / "clew.db").write_bytes(data)
    with open_store(url(tmp_path)) as store:
        [found] = verify_all(store)
    assert (found.session, found.ok) == ("", False)
    assert "the list of sessions is damaged" in found.problems[0].what
    assert all("backup" in problem.what and "clew verify" not in problem.what for problem in found.problems)
