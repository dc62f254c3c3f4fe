"""The bytes of native files: packed with the events that were read from them, whole as long as those are, then gone."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard

from clew.client import Plane
from clew.model.errors import Damaged, NotFound
from clew.model.retention import DAY_US, Policy
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.log.retention import apply_policies, set_policy
from clew.store.native_files.lookup import files_of
from clew.store.native_files.stored_bytes import iterate_lines, load_bytes
from clew.store.objects import objects
from support import claude
from support.captures import capture_paths, native, only

WORDS = [f"word{number:04}" for number in range(3000)]


def talk(count: int, *, first: int = 0, words: int = 60, seed: int = 1) -> bytes:
    """Lines that no program could pack without knowing what they say."""
    chance = random.Random(seed)
    names = [f"m{number}" for number in range(first, first + count)]
    return claude.lines(
        claude.says(name, names[i - 1] if i else None, " ".join(chance.choices(WORDS, k=words)))
        for i, name in enumerate(names)
    )


def rows(store: Store, columns: str, table: str) -> list[Any]:
    with store.database.read() as tx:
        return [tuple(row) for row in tx.connection.execute(f"SELECT {columns} FROM {table}")]  # type: ignore[attr-defined]


def file_of(person: Path, data: bytes = b"", name: str = claude.SESSION) -> Path:
    path = person / f"{name}.jsonl"
    path.write_bytes(data)
    return path


def test_a_file_takes_a_third_of_what_it_would_take_alone(plane: Plane, store: Store, person: Path) -> None:
    file = file_of(person, talk(100))
    [one] = capture_paths(plane, file)
    [(length, data)] = rows(store, "length, data", "segment")
    assert length == file.stat().st_size
    assert len(data) * 3 < len(zstandard.compress(file.read_bytes(), 3))
    assert rows(store, "digest", "blob") == []
    assert native(plane, one.session) == file.read_bytes()


def test_a_file_that_grew_is_packed_with_the_events_of_each_time(plane: Plane, store: Store, person: Path) -> None:
    file = file_of(person, talk(3))
    [one] = capture_paths(plane, file)
    for number in range(1, 4):
        with file.open("ab") as more:
            more.write(talk(3, first=3 * number, seed=number))
        capture_paths(plane, file)
    heads = rows(store, "first, last", "segment")
    assert len(heads) == 4
    assert heads == sorted(heads)
    assert native(plane, one.session) == file.read_bytes()
    [whole] = files_of(store, store.session(one.session))
    assert load_bytes(store, whole, first=500) == file.read_bytes()[500:]
    assert b"\n".join(iterate_lines(store, whole)) + b"\n" == file.read_bytes()


def test_a_file_of_several_segments_is_whole(
    plane: Plane, store: Store, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.store.native_files.segments.SEGMENT_BYTES", 5_000)
    file = file_of(person, talk(60))
    [one] = capture_paths(plane, file)
    assert len(rows(store, "start", "segment")) == -(-file.stat().st_size // 5_000)
    assert native(plane, one.session) == file.read_bytes()


def test_a_copy_that_a_program_made_of_a_file_is_whole_by_itself(plane: Plane, store: Store, person: Path) -> None:
    """Its events are the first one's, all but the last, so that it is packed with little or nothing."""
    data = talk(20)
    first = file_of(person, data)
    second = file_of(person, data.replace(claude.SESSION.encode(), b"other") + talk(1, first=30), "other")
    [one] = capture_paths(plane, first)
    [two] = capture_paths(plane, second)
    assert store.session(two.session).parent == one.session
    assert native(plane, two.session) == second.read_bytes()
    erase(store, store.session(two.session), actor="person:ada")
    assert native(plane, one.session) == first.read_bytes()


def test_a_document_that_is_written_anew_is_kept_as_it_is_now(plane: Plane, store: Store, person: Path) -> None:
    """Of its later generations only the news become events, too few to pack it with."""
    said = [{"id": f"g{i}", "timestamp": "", "type": "user", "content": text} for i, text in enumerate(WORDS[:200])]
    file = person / ".gemini" / "tmp" / "h" / "chats" / "session-2026-11-15T10-00-gem.json"
    file.parent.mkdir(parents=True)
    about = {"sessionId": "gem", "projectHash": "h", "startTime": "", "lastUpdated": ""}
    for count in (100, 101, 200):
        file.write_text(json.dumps({**about, "messages": said[:count]}))
        one = only(plane, person)
        assert native(plane, one.session) == file.read_bytes()
        assert len(rows(store, "start", "segment")) == 1
    erase(store, store.session(one.session), actor="person:ada")
    assert rows(store, "digest", "blob") == []


@pytest.mark.parametrize("how", ["pruned", "erased"])
def test_what_removes_the_events_removes_the_bytes(plane: Plane, store: Store, person: Path, how: str) -> None:
    [one] = capture_paths(plane, file_of(person, talk(10)))
    session = store.session(one.session)
    if how == "erased":
        erase(store, session, actor="person:ada")
    else:
        set_policy(store, Policy(project=session.project, keep_days=1))
        [(now,)] = rows(store, "max(at)", "event")
        [pruned] = apply_policies(store, actor="person:ada", now=now + 2 * DAY_US)
        assert pruned.events
    assert rows(store, "start", "segment") == []
    with pytest.raises(NotFound):
        native(plane, one.session)


def test_bytes_that_do_not_fit_their_events_are_said_to_be_damaged(plane: Plane, store: Store, person: Path) -> None:
    [one] = capture_paths(plane, file_of(person, talk(10)))
    with store.database.write() as tx:
        tx.connection.execute("UPDATE event SET body = '{}' WHERE seq = 4")  # type: ignore[attr-defined]
    with pytest.raises(Damaged, match=f"of session {one.session} .* are damaged"):
        native(plane, one.session)


def test_a_segment_of_before_is_still_read(plane: Plane, store: Store, person: Path) -> None:
    """As every one was kept before they were packed with events: as a blob."""
    file = file_of(person, talk(5))
    [one] = capture_paths(plane, file)
    name = objects.save(store, file.read_bytes())
    with store.database.write() as tx:
        tx.run("object_ref", digest=bytes.fromhex(name), refs=1)
        tx.connection.execute("UPDATE segment SET first = NULL, last = NULL, data = NULL")  # type: ignore[attr-defined]
    with file.open("ab") as more:
        more.write(talk(5, first=5))
    capture_paths(plane, file)
    assert native(plane, one.session) == file.read_bytes()
    erase(store, store.session(one.session), actor="person:ada")
    assert rows(store, "digest", "blob") == []
