"""Verification: an untouched log verifies, and whatever was changed behind its back is found and named."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from clew.model import chain
from clew.model.errors import Damaged
from clew.model.events import Draft, SessionClosed, TurnEnded, Usage
from clew.model.retention import Policy
from clew.model.session import Session
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.log.opening import Forking
from clew.store.log.retention import apply_policies, set_policy
from clew.store.log.verify import verify, verify_all
from clew.store.objects.folder import Folder
from clew.store.projects import control_log
from store.rows import age, change, literal, one, query
from store.words import ADA, big, opened, say

Tamper = Callable[[Store, Session], None]


def set_column(text: str, *, seq: int = 3) -> Tamper:
    return lambda store, session: change(store, f"UPDATE event SET {text} WHERE {one(session, seq)}")


def set_digest(store: Store, session: Session) -> None:
    change(store, f"UPDATE event SET digest = {literal(store, bytes(32))} WHERE {one(session, 3)}")


def delete(seq: int) -> Tamper:
    return lambda store, session: change(store, f"DELETE FROM event WHERE {one(session, seq)}")


def swap(store: Store, session: Session) -> None:
    moves = [(3, -1), (4, 3), (-1, 4)]
    change(store, *(f"UPDATE event SET seq = {new} WHERE {one(session, old)}" for old, new in moves))


def empty_with_a_valid_seal(store: Store, session: Session) -> None:
    change(
        store,
        f"UPDATE event SET body = NULL, seal = {literal(store, seal_of(store, session, 3))} WHERE {one(session, 3)}",
    )


def forge_an_erasure(store: Store, session: Session) -> None:
    change(
        store,
        f"UPDATE event SET body = NULL, kind = 'erased', actor = '', source = NULL, "
        f"seal = {literal(store, seal_of(store, session, 3))} WHERE {one(session, 3)}",
    )


def seal_of(store: Store, session: Session, seq: int) -> bytes:
    [(kind, version, at, said_at, actor, source, body)] = query(
        store, f"SELECT kind, version, at, said_at, actor, source, body FROM event WHERE {one(session, seq)}"
    )
    header = chain.header_hash(session.id, seq, kind, version, at, said_at, actor, source)
    return header + chain.body_hash(body.encode())


# What is done to event 3 (or where it says so) of a session with five events, and the seq that is blamed.
VANDALISM: dict[str, tuple[Tamper, int]] = {
    "a changed body": (set_column("""body = '{"role":"user","text":"forged"}'"""), 3),
    "a body that is no JSON": (set_column("body = 'nonsense'"), 3),
    "a changed kind": (set_column("kind = 'turn_started'"), 3),
    "a changed version": (set_column("version = 2"), 3),
    "a changed time": (set_column("at = at + 1"), 3),
    "a changed time of saying": (set_column("said_at = 1"), 3),
    "a changed actor": (set_column("actor = 'person:bob'"), 3),
    "a changed source": (set_column("source = 'forged'"), 3),
    "a changed digest": (set_digest, 3),
    "a deleted row": (delete(3), 3),
    "a deleted first row": (delete(1), 1),
    "swapped rows": (swap, 3),
    "a cut-off tail": (delete(5), 5),
    "an emptied body": (set_column("body = NULL"), 3),
    "an emptied body with a valid seal": (empty_with_a_valid_seal, 3),
    "a forged erasure": (forge_an_erasure, 3),
    "a head that was set back": (lambda store, _: change(store, "UPDATE head SET head = 4 WHERE head = 5"), 5),
    "a head that was set on": (lambda store, _: change(store, "UPDATE head SET head = 6 WHERE head = 5"), 6),
    "a head with another digest": (
        lambda store, _: change(store, f"UPDATE head SET digest = {literal(store, bytes(32))} WHERE head = 5"), 5,
    ),
}  # fmt: skip


@pytest.fixture
def five(store: Store, session: Session) -> Session:
    """A session with five events."""
    store.append(session, [say("two"), say("three"), say("four"), say("five")], actor=ADA)
    return session


def test_an_untouched_log_verifies(store: Store, five: Session) -> None:
    found = verify(store, five)
    assert (found.ok, found.events, found.removed) == (True, 5, 0)
    assert found.digest == store.head(five).digest.hex()


@pytest.mark.parametrize("deed", VANDALISM)
def test_verification_finds(store: Store, five: Session, deed: str) -> None:
    other = opened(store)
    tamper, blamed = VANDALISM[deed]
    tamper(store, five)
    found = {verified.session: verified for verified in verify_all(store)}
    assert [problem.seq for problem in found[five.id].problems][:1] == [blamed]
    assert all(problem.session == five.id and problem.what for problem in found[five.id].problems)
    assert found[other.id].ok


def test_every_single_change_of_a_body_is_found(store: Store, five: Session) -> None:
    for seq in range(1, 6):
        [(body,)] = query(store, f"SELECT body FROM event WHERE {one(five, seq)}")
        set_column(f"body = '{body} '", seq=seq)(store, five)
        assert [problem.seq for problem in verify(store, five).problems] == [seq]
        set_column(f"body = '{body}'", seq=seq)(store, five)
    assert verify(store, five).ok


def test_a_fork_continues_the_chain_of_its_parent(store: Store, five: Session) -> None:
    child = store.open(Forking(parent=five, at=3), actor=ADA)
    store.append(child, [say("own")])
    assert (verify(store, child).ok, verify(store, child).events) == (True, 2)
    set_digest(store, five)
    assert [problem.seq for problem in verify(store, child).problems] == [4]


def test_a_fork_whose_event_is_gone_is_reported(store: Store, five: Session) -> None:
    child = store.open(Forking(parent=five, at=5), actor=ADA)
    delete(5)(store, five)
    assert [problem.seq for problem in verify(store, child).problems] == [5]


def test_every_session_is_verified_oldest_first(store: Store, five: Session) -> None:
    child = store.open(Forking(parent=five), actor=ADA)
    control = control_log(store, "demo", ADA)
    assert [verified.session for verified in verify_all(store)] == [five.id, child.id, control.id]


@pytest.mark.parametrize(
    "deed",
    [
        "UPDATE head SET state = 'closed'", "UPDATE head SET epoch = epoch + 1", "UPDATE head SET spent_tokens = 0",
        "UPDATE head SET spent_cost_micros = spent_cost_micros - 1", "UPDATE session SET title = 'forged'",
        "UPDATE session SET agent = 'forged'", "UPDATE session SET metadata = '{}'",
    ],
)  # fmt: skip
def test_a_row_that_says_something_else_than_the_events_is_found(store: Store, deed: str) -> None:
    session = opened(store, agent="fred", title="A title", metadata='{"a":1}')
    store.append(session, [Draft(body=TurnEnded(usage=Usage(input=10, cost_micros=5)))])
    assert verify(store, session).ok
    change(store, deed)
    assert verify(store, store.session(session.id)).problems


# Bodies that were removed ---------------------------------------------------------------------------------------------


@pytest.fixture
def pruned(store: Store, five: Session) -> Session:
    """A session whose events 2 to 5 have no bodies any more, as event 6 says."""
    set_policy(store, Policy(project="demo", keep_days=1))
    age(store, five, days=2)
    apply_policies(store, actor=ADA)
    assert store.head(five).head == 6
    return five


@pytest.mark.parametrize(
    ("deed", "blamed"),
    [
        ("actor = 'person:bob'", 3),
        ("at = at + 1", 3),
        ("kind = 'turn_started'", 3),
        ("seal = NULL", 3),
        ("kind = 'erased'", 3),
    ],
)
def test_a_pruned_event_is_still_guarded_against(store: Store, pruned: Session, deed: str, blamed: int) -> None:
    assert verify(store, pruned).ok
    set_column(deed)(store, pruned)
    assert blamed in [problem.seq for problem in verify(store, pruned).problems]


@pytest.mark.parametrize("half", ["header", "body"])
def test_a_changed_seal_is_found(store: Store, pruned: Session, half: str) -> None:
    [(seal,)] = query(store, f"SELECT seal FROM event WHERE {one(pruned, 3)}")
    forged = bytes(32) + bytes(seal)[32:] if half == "header" else bytes(seal)[:32] + bytes(32)
    set_column(f"seal = {literal(store, forged)}")(store, pruned)
    assert 3 in [problem.seq for problem in verify(store, pruned).problems]


@pytest.mark.parametrize("body", ["nonsense", "{}", '{"ranges":[[1,1000000]]}', "[]"])
def test_a_changed_record_of_a_removal_is_found(store: Store, pruned: Session, body: str) -> None:
    set_column(f"body = '{body}'", seq=6)(store, pruned)
    assert 6 in [problem.seq for problem in verify(store, pruned).problems]


def test_an_event_added_to_an_erased_session_is_found(store: Store, five: Session) -> None:
    erase(store, five, actor=ADA)
    assert verify(store, five).ok
    set_column("body = 'nonsense'", seq=6)(store, five)
    assert 6 in [problem.seq for problem in verify(store, five).problems]


# Blobs ----------------------------------------------------------------------------------------------------------------


def spoil(store: Store, data: bytes | None) -> None:
    """Change or delete the bytes of the only blob there is."""
    if isinstance(store.pack_stores.current, Folder):
        [path] = store.pack_stores.current.path.glob("packs/??/*")
        replace(path, data)
    elif data is None:
        change(store, "UPDATE blob SET data = NULL")
    else:
        change(store, f"UPDATE blob SET data = {literal(store, data)}")


def replace(path: Path, data: bytes | None) -> None:
    if data is None:
        os.unlink(path)
    else:
        path.write_bytes(data)


@pytest.mark.parametrize("data", [None, b"", b"not zstd", bytes.fromhex("28b52ffd0400010000") + bytes(4)])
def test_a_spoilt_blob_is_found_and_blamed_on_its_event(store: Store, session: Session, data: bytes | None) -> None:
    store.append(session, [say("two"), say(big("three")), say("four")])
    spoil(store, data)
    assert 3 in [problem.seq for problem in verify(store, session).problems]


def test_a_blob_of_other_bytes_is_found(store: Store, session: Session) -> None:
    store.append(session, [say(big("three"))])
    spoil(store, zstandard.compress(b"other bytes"))
    assert 2 in [problem.seq for problem in verify(store, session).problems]


# Reading what is damaged ----------------------------------------------------------------------------------------------


def test_a_damaged_body_is_reported_by_session_and_seq(store: Store, five: Session) -> None:
    set_column("body = 'nonsense'")(store, five)
    with pytest.raises(Damaged, match=rf"{five.id}.*\b3\b"):
        list(store.read(five))


def test_the_sound_events_beside_a_damaged_one_are_readable(store: Store, five: Session) -> None:
    store.append(five, [Draft(body=SessionClosed())])
    set_column("body = 'nonsense'")(store, five)
    assert len(list(store.read(five, upto=2))) == 2
    assert len(list(store.read(five, after=3))) == 3


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "deed",
    [
        "body = x'ff'", "body = CAST(x'ff' AS TEXT)", "body = 7", "kind = x'ff'", "actor = CAST(x'ff' AS TEXT)",
        "at = 'noon'", "version = 'one'", "digest = 'text'", "digest = 7", "source = 7", "body = NULL, blob = 'text'",
        "body = NULL, blob = 7", "body = NULL, seal = 'text'",
    ],
)  # fmt: skip
def test_values_of_a_wrong_type_are_found(store: Store, five: Session, deed: str) -> None:
    """A flipped bit in a SQLite file changes a type as easily as a value."""
    set_column(deed)(store, five)
    assert 3 in [problem.seq for problem in verify(store, five).problems]
