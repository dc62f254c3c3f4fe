"""Erasure: nothing of a session's content is left in any file within reach, and the log says that it was erased."""

import mmap
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import psycopg
import pytest
import zstandard
from msgspec import Raw

from clew.model.errors import HasForks, LeaseLost, OnHold, WrongState
from clew.model.events import (
    ArtifactSaved,
    Body,
    CallMade,
    CallReturned,
    DecisionMade,
    Draft,
    FilePart,
    MessageAdded,
    Opaque,
    ScratchSet,
    SessionClosed,
    SessionErased,
    TurnEnded,
    Usage,
)
from clew.model.retention import Policy
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log.erase import erase
from clew.store.log.leases import acquire
from clew.store.log.opening import Forking
from clew.store.log.retention import apply_policies, set_policy
from clew.store.log.verify import verify
from clew.store.objects import objects
from clew.store.objects.folder import Folder
from clew.store.objects.pack import Span, read, scan
from clew.store.objects.pack_store import loose_key, pack_of, part_key
from store.rows import age, query, unchanged
from store.words import ADA, big, kinds, messages, opened, say
from support.postgres import Server

# What is erased ------------------------------------------------------------------------------------------------------


def test_an_erased_session_shows_nothing_but_that_it_was(store: Store) -> None:
    session = opened(store, agent="fred", title="A title", metadata='{"a":1}')
    store.append(session, [say("two", source="s"), say(big("three"))], actor="person:bob")
    [erased] = erase(store, session, actor=ADA, reason="asked by the customer")
    assert (erased.session, erased.events, erased.blobs) == (session.id, 3, 1)
    *rest, last = list(store.read(session))
    assert last.body == SessionErased(events=3, reason="asked by the customer")
    assert kinds(rest) == ["erased"] * 3
    assert all((event.actor, event.source, event.said_at) == ("", None, None) for event in rest)
    now = store.session(session.id)
    assert (now.agent, now.title, now.parent) == ("", "", None)
    assert "1" not in now.metadata
    assert store.head(session).state == "erased"


def test_the_chain_of_an_erased_session_verifies(store: Store, session: Session) -> None:
    store.append(session, [say("two"), say(big("three"))])
    erase(store, session, actor=ADA)
    found = verify(store, session)
    assert (found.ok, found.events, found.removed) == (True, 4, 3)


def test_the_chain_of_an_erased_session_that_was_leased_and_spent_money_verifies(
    store: Store, session: Session
) -> None:
    """What its events said about epochs and costs is gone, so the rows cannot be held against them."""
    lease = acquire(store, session, holder="ada", ttl_us=3_600_000_000, actor=ADA)
    store.append(session, [Draft(body=TurnEnded(usage=Usage(input=10, cost_micros=5)))], lease=lease.epoch)
    erase(store, session, actor=ADA)
    assert verify(store, session).problems == []


def test_a_pruned_session_can_be_erased(store: Store, session: Session) -> None:
    store.append(session, [say("two"), say(big("three"))])
    set_policy(store, Policy(project="demo", keep_days=1))
    age(store, session, days=2)
    apply_policies(store, actor=ADA)
    erase(store, session, actor=ADA)
    assert verify(store, session).ok
    assert query(store, "SELECT count(*) FROM blob") == [(0,)]


def test_an_erased_session_takes_nothing_more(store: Store, session: Session) -> None:
    lease = acquire(store, session, holder="ada", ttl_us=3_600_000_000, actor=ADA)
    store.append(session, [say("two", source="s")], lease=lease.epoch)
    erase(store, session, actor=ADA)
    with unchanged(store):
        for drafts in ([say("new")], [say("two", source="s")], [Draft(body=SessionClosed())]):
            with pytest.raises(WrongState):
                store.append(session, drafts)
        with pytest.raises(LeaseLost):
            store.append(session, [say("new")], lease=lease.epoch)
        with pytest.raises(WrongState):
            acquire(store, session, holder="ada", ttl_us=1, actor=ADA)


def test_erasing_again_only_scrubs_again(store: Store, session: Session) -> None:
    """The first time a reader may have been in the way."""
    erase(store, session, actor=ADA)
    with unchanged(store):
        [again] = erase(store, session, actor=ADA)
    assert again.events == 0


def test_other_sessions_are_untouched(store: Store, session: Session) -> None:
    other = opened(store, title="Another")
    store.append(other, [say("kept"), say(big("kept"))])
    before = list(store.read(other))
    store.append(session, [say("gone"), say(big("kept"))])
    erase(store, session, actor=ADA)
    assert list(store.read(other)) == before
    assert store.session(other.id) == other


# Forks and holds ------------------------------------------------------------------------------------------------------


@pytest.fixture
def family(store: Store, session: Session) -> list[Session]:
    """A session, its fork, and the fork's fork."""
    store.append(session, [say("root")])
    child = store.open(Forking(parent=session), actor=ADA)
    store.append(child, [say("child")])
    grandchild = store.open(Forking(parent=child), actor=ADA)
    store.append(grandchild, [say("grandchild")])
    return [session, child, grandchild]


def test_a_session_that_others_read_is_not_erased(store: Store, family: list[Session]) -> None:
    with unchanged(store), pytest.raises(HasForks) as refusal:
        erase(store, family[0], actor=ADA)
    assert set(refusal.value.details["forks"]) == {one.id for one in family[1:]}


def test_a_session_is_erased_with_its_forks_on_request(store: Store, family: list[Session]) -> None:
    erased = erase(store, family[0], actor=ADA, with_forks=True)
    assert {one.session for one in erased} == {one.id for one in family}
    for one in family:
        assert store.head(one).state == "erased"
        assert set(messages(list(store.read(one)))) == {"erased"}
        assert verify(store, one).ok


def test_a_fork_is_erased_without_its_parent(store: Store, family: list[Session]) -> None:
    root, child, grandchild = family
    erase(store, grandchild, actor=ADA)
    erase(store, child, actor=ADA)
    assert messages(list(store.read(root))) == ["root"]
    assert messages(list(store.read(child))) == ["root", "erased", "erased"]
    erase(store, root, actor=ADA)
    assert all(verify(store, one).ok for one in family)


def test_one_fork_on_hold_keeps_the_whole_family(store: Store, family: list[Session]) -> None:
    with store.database.write() as tx:
        tx.connection.execute(f"UPDATE session SET agent = 'held' WHERE key = {family[2].key}")  # type: ignore[attr-defined]
    set_policy(store, Policy(project="demo", agent="held", hold=True))
    with unchanged(store), pytest.raises(OnHold) as refusal:
        erase(store, family[0], actor=ADA, with_forks=True)
    assert refusal.value.details["session"] == family[2].id


# Nothing is left ------------------------------------------------------------------------------------------------------


class Canary:
    """A word that is nowhere else in the world, put into every place a session has for words."""

    def __init__(self) -> None:
        self.word = f"canary{secrets.token_hex(12)}"
        # Blobs are packed, so their word is looked for in what they unpack to, and their bytes as they are.
        self.large = big(self.word)
        self.file = self.word.encode() + secrets.token_bytes(80_000)
        self.packed = zstandard.compress(self.file, 3)

    def traces(self) -> list[bytes]:
        texts = [self.word.encode(), self.word.encode("utf-16-le"), self.word.encode("utf-16-be")]
        return [*texts, self.packed[2_000:2_040], self.packed[12_000:12_040]]

    def sing(self, store: Store) -> Session:
        word, raw = self.word, Raw(f'{{"{self.word}":"{self.word}"}}'.encode())
        session = opened(store, agent=word, title=word, metadata=bytes(raw).decode())
        lease = acquire(store, session, holder=word, ttl_us=3_600_000_000, actor=word)
        blob = objects.save(store, self.file)
        bodies: list[Body | Opaque] = [
            MessageAdded(role="user", text=word),
            MessageAdded(role="user", text=self.large),
            MessageAdded(role="user", parts=(FilePart(blob=blob, name=word),)),
            CallMade(call="1", tool=word, input=raw),
            CallReturned(call="1", output=raw),
            ScratchSet(name=word, value=raw),
            DecisionMade(decision="1", choice=word, why=word),
            ArtifactSaved(name=word, blob=blob, size=1),
            Opaque(kind=f"my.{word}", raw=bytes(raw).decode()),
        ]
        drafts = [Draft(body=body, source=f"{word}-{number}", said_at=1) for number, body in enumerate(bodies)]
        store.append(session, drafts, actor=word, lease=lease.epoch)
        return session

    def hits(self, paths: Iterable[Path]) -> list[str]:
        """Where a trace is found, in files as they lie on the disk."""
        found = []
        for path in paths:
            # A server may remove a file in between; what is gone has no trace.
            with suppress(FileNotFoundError):
                if path.stat().st_size:
                    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                        found += [f"{path}: {trace[:12]!r}" for trace in self.traces() if content.find(trace) >= 0]
        return found

    def packed_hits(self, objects: Iterable[bytes]) -> int:
        return sum(self.word.encode() in data for data in objects)


@pytest.fixture
def canary() -> Canary:
    return Canary()


def packed(folder: Folder) -> Iterator[bytes]:
    """The objects in the packs of a folder."""
    for name in sorted({pack_of(key) for key, _ in folder.list("packs/")}):
        for entry in scan(folder, name):
            yield b"".join(read(folder, entry.digest, Span("", name, entry.start, entry.length)))


def everything(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_no_file_of_a_sqlite_log_has_a_trace_left(tmp_path: Path, canary: Canary) -> None:
    with open_store(f"sqlite:///{tmp_path / 'clew.db'}") as store:
        other = opened(store)
        store.append(other, [say("kept"), say(big("kept"))])
        session = canary.sing(store)
        blobs = tmp_path / "blobs"
        assert canary.hits(everything(tmp_path))
        assert canary.packed_hits(packed(Folder(blobs))) == 2
        [erased] = erase(store, session, actor=ADA)
        assert erased.beyond_reach == []
        assert canary.hits(everything(tmp_path)) == []
        assert len(everything(blobs)) == 1
        assert canary.packed_hits(packed(Folder(blobs))) == 0
        assert messages(list(store.read(other))) == ["kept", big("kept")]
    assert canary.hits(everything(tmp_path)) == []


def test_no_trace_is_left_of_what_was_pruned_before(tmp_path: Path, canary: Canary) -> None:
    with open_store(f"sqlite:///{tmp_path / 'clew.db'}") as store:
        session = canary.sing(store)
        set_policy(store, Policy(project="demo", keep_days=1))
        age(store, session, days=2)
        apply_policies(store, actor=ADA)
        erase(store, session, actor=ADA)
        assert canary.hits(everything(tmp_path)) == []


def test_no_trace_is_left_of_a_blob_whose_writer_died(tmp_path: Path, canary: Canary) -> None:
    """A large body is on disk before the event that names it; the event may never have come."""
    with open_store(f"sqlite:///{tmp_path / 'clew.db'}") as store:
        session = canary.sing(store)
        blobs = Folder(tmp_path / "blobs")
        for abandoned in ("packs/00/new-abandoned", loose_key(bytes(32)), part_key("0" * 32, 0), part_key("0" * 32, 1)):
            blobs.write(abandoned, canary.packed)
        erase(store, session, actor=ADA)
        assert canary.hits(everything(tmp_path)) == []


def test_a_reader_that_holds_an_old_state_is_named(
    tmp_path: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.store.database.sqlite.BUSY_SECONDS", 0.05)
    path = tmp_path / "clew.db"
    with open_store(f"sqlite:///{path}") as store:
        session = canary.sing(store)
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event").fetchall()
        [erased] = erase(store, session, actor=ADA)
        reader.close()
        assert any("-wal" in place for place in erased.beyond_reach)
        assert store.database.overwrite_free_space() == []
        assert canary.hits(everything(tmp_path)) == []


@contextmanager
def superuser(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def files_of(server: Server, connection: psycopg.Connection) -> Path:
    """The folder with the database's own files."""
    [(oid,)] = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchall()
    return server.data_directory / "base" / str(oid)


@pytest.mark.parametrize("analyzed", [False, True], ids=["never analyzed", "analyzed"])
def test_no_table_file_of_a_postgres_log_has_a_trace_left(postgres: Server, canary: Canary, analyzed: bool) -> None:
    """Autovacuum analyzes tables on its own; the statistics hold the most common values of every column."""
    url = postgres.new_database()
    with open_store(url) as store, superuser(url) as connection:
        folder = files_of(postgres, connection)
        session = canary.sing(store)
        if analyzed:
            connection.execute("ANALYZE")
        connection.execute("CHECKPOINT")
        assert canary.hits(everything(folder))
        in_rows = (zstandard.decompress(row[0]) for row in query(store, "SELECT data FROM blob"))
        assert canary.packed_hits(in_rows) == 2
        erase(store, session, actor=ADA)
        connection.execute("CHECKPOINT")
        assert query(store, "SELECT count(*) FROM blob") == [(0,)]
        assert canary.hits(everything(folder)) == []


def test_the_write_ahead_log_of_postgres_forgets_with_its_segments(postgres: Server, canary: Canary) -> None:
    """The erasure says that the write-ahead log is beyond its reach; this is what an administrator does about it."""
    url = postgres.new_database()
    with open_store(url) as store, superuser(url) as connection:
        session = canary.sing(store)
        wal = postgres.data_directory / "pg_wal"
        assert canary.hits(everything(wal))
        [erased] = erase(store, session, actor=ADA)
        assert any("write-ahead log" in place for place in erased.beyond_reach)
        connection.execute("ALTER SYSTEM SET wal_recycle = off")
        connection.execute("SELECT pg_reload_conf()")
        try:
            # A segment that was recycled before the setting took hold is written over when its turn comes.
            for _ in range(40):
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
                if not canary.hits(everything(wal)):
                    break
            assert canary.hits(everything(wal)) == []
        finally:
            connection.execute("ALTER SYSTEM RESET wal_recycle")
            connection.execute("SELECT pg_reload_conf()")
