"""Objects: large bodies and saved bytes, stored once, kept as long as an event names them and no longer."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from clew.model.errors import ClewError, Conflict, NotFound, TooLarge
from clew.model.events import ArtifactSaved, CallReturned, Draft, FilePart, ImagePart, MessageAdded
from clew.model.retention import Policy
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log.erase import erase
from clew.store.log.prepare import INLINE_BYTES, LARGEST_BYTES
from clew.store.log.retention import apply_policies, set_policy
from clew.store.log.verify import verify
from clew.store.objects import objects, rows
from clew.store.objects.collection import collect
from clew.store.objects.pack import address
from clew.store.objects.pack_store import pack_of, pack_prefix
from store.crowd import at_once
from store.rows import age, counts, query, unchanged
from store.words import ADA, big, bulk, messages, opened, say

ROUNDS = 25


def artifact(digest: str) -> Draft:
    return Draft(body=ArtifactSaved(name="report.pdf", blob=digest, size=1))


def refs(store: Store) -> list[int]:
    return sorted(row[0] for row in query(store, "SELECT refs FROM blob"))


def files(store: Store) -> int:
    """How many blobs there are bytes of."""
    in_rows = query(store, "SELECT 1 FROM blob WHERE data IS NOT NULL")
    return len(in_rows) + len(list(store.pack_stores.current.list("")))


# Large bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size", [INLINE_BYTES - 100, INLINE_BYTES - 27, INLINE_BYTES - 26, INLINE_BYTES + 1, 1_000_000]
)
def test_a_body_of_any_size_comes_back_as_it_was(store: Store, session: Session, size: int) -> None:
    text = ("Grüße 🙂 " * (size // 8))[:size]
    store.append(session, [say(text)])
    assert messages(list(store.read(session))) == [text]
    assert messages(list(store.tail())) == [text]


def test_a_large_body_becomes_a_blob_and_a_small_one_does_not(store: Store, session: Session) -> None:
    frame = len(b'{"role":"user","text":""}')
    store.append(session, [say("x" * (INLINE_BYTES - frame))])
    assert counts(store)["blob"] == 0
    store.append(session, [say("x" * (INLINE_BYTES - frame + 1))])
    assert counts(store)["blob"] == 1
    assert verify(store, session).ok


def test_the_same_large_body_is_stored_once(store: Store, session: Session) -> None:
    other = opened(store, project="another")
    store.append(session, [say(big()), say("small"), say(big())])
    store.append(other, [say(big())])
    assert refs(store) == [3]
    collect(store, grace_us=0)
    assert files(store) == 1
    assert messages(list(store.read(session)))[2] == messages(list(store.read(other)))[0] == big()


def test_a_body_beyond_the_limit_is_refused_with_the_limit(store: Store, session: Session) -> None:
    with unchanged(store), pytest.raises(TooLarge) as refusal:
        store.append(session, [say("x" * LARGEST_BYTES)])
    assert refusal.value.details["limit"] == LARGEST_BYTES
    assert files(store) == 0


# Saved bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\x00\xff", bytes(range(256)) * 1000], ids=["nothing", "two bytes", "many"])
def test_saved_bytes_come_back_as_they_were(store: Store, data: bytes) -> None:
    digest = objects.save(store, data)
    assert objects.save(store, data) == digest
    assert objects.load(store, digest) == data
    assert counts(store)["blob"] == 1


def test_an_object_of_20_gb_is_refused_before_it_is_read_when_its_size_is_known(store: Store) -> None:
    def pieces() -> bytes:
        raise AssertionError("the bytes were read")

    with pytest.raises(TooLarge, match="16 GiB"):
        objects.put(store, iter(pieces, b""), size=20 * 1024**3)


def test_what_was_written_of_an_object_that_turns_out_too_large_is_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "LARGEST_BYTES", 30_000_000)
    noise = bulk("noise")
    with pytest.raises(TooLarge):
        objects.put(store, (number.to_bytes(4, "big") + noise for number in range(10_000)))
    assert (counts(store)["blob"], files(store)) == (0, 0)


@pytest.mark.parametrize("digest", ["0" * 64, "", "zz", "0" * 63, "../" * 21 + "a"])
def test_unknown_bytes_are_not_found(store: Store, digest: str) -> None:
    with pytest.raises(NotFound):
        objects.load(store, digest)


@pytest.mark.parametrize("digest", ["0" * 64, "zz", "0" * 63, "x" * 64, "é" * 64])
def test_an_event_cannot_name_bytes_that_are_not_there(store: Store, session: Session, digest: str) -> None:
    with unchanged(store), pytest.raises(NotFound):
        store.append(session, [say("fine"), artifact(digest)])


def test_every_part_that_names_bytes_keeps_them(store: Store, session: Session) -> None:
    one, two = objects.save(store, b"one"), objects.save(store, b"two")
    store.append(
        session,
        [
            Draft(body=MessageAdded(role="user", parts=(ImagePart(blob=one), FilePart(blob=two), ImagePart(blob=one)))),
            Draft(body=CallReturned(call="1", parts=(FilePart(blob=two),))),
        ],
    )
    assert refs(store) == [2, 2]
    collect(store, grace_us=0)
    assert (objects.load(store, one), objects.load(store, two)) == (b"one", b"two")


# Collecting -----------------------------------------------------------------------------------------------------------


def test_only_what_nothing_names_is_collected(store: Store, session: Session) -> None:
    kept, lost = objects.save(store, bulk("kept")), objects.save(store, bulk("lost!"))
    store.append(session, [artifact(kept), say(big())])
    assert collect(store, grace_us=0) == (1, len(bulk("lost!")))
    assert objects.load(store, kept) == bulk("kept")
    assert messages(list(store.read(session))) == [big()]
    with pytest.raises(NotFound):
        objects.load(store, lost)
    assert (counts(store)["blob"], files(store)) == (2, 2)
    assert collect(store, grace_us=0) == (0, 0)


def test_what_was_saved_lately_is_not_collected(store: Store) -> None:
    digest = objects.save(store, b"new")
    assert collect(store) == (0, 0)
    assert objects.load(store, digest) == b"new"


def test_collected_bytes_can_be_saved_again(store: Store, session: Session) -> None:
    digest = objects.save(store, b"again")
    collect(store, grace_us=0)
    with pytest.raises(NotFound):
        store.append(session, [artifact(digest)])
    assert objects.save(store, b"again") == digest
    store.append(session, [artifact(digest)])
    collect(store, grace_us=0)
    assert objects.load(store, digest) == b"again"


def test_a_refused_batch_leaves_bytes_that_are_collected(store: Store, session: Session) -> None:
    with pytest.raises(NotFound):
        store.append(session, [say(big()), artifact("0" * 64)])
    collect(store, grace_us=0)
    assert (counts(store)["blob"], files(store)) == (0, 0)


def test_pruning_lets_go_of_blobs(store: Store, session: Session) -> None:
    digest = objects.save(store, bulk("picture"))
    message = MessageAdded(role="user", parts=(ImagePart(blob=digest),))
    store.append(session, [say(big()), Draft(body=message), artifact(digest)])
    set_policy(store, Policy(project="demo", keep_days=1))
    age(store, session, days=2)
    apply_policies(store, actor=ADA)
    assert refs(store) == [0, 1]
    collect(store, grace_us=0)
    assert objects.load(store, digest) == bulk("picture")
    assert files(store) == 1


def test_what_another_session_names_survives_an_erasure(store: Store, session: Session) -> None:
    other = opened(store)
    digest = objects.save(store, b"shared")
    for one in (session, other):
        store.append(one, [artifact(digest), say(big())])
    erase(store, session, actor=ADA)
    assert objects.load(store, digest) == b"shared"
    assert messages(list(store.read(other))) == [big()]
    erase(store, other, actor=ADA)
    assert (counts(store)["blob"], files(store)) == (0, 0)


LARGE = b"".join(index.to_bytes(4, "big") for index in range(700_000))


def put_slowly(store: Store, data: bytes, between: Callable[[], object]) -> None:
    """What `put` does, with something in between: the bytes are durable, and no row names them yet."""
    stored = objects.store_bytes(store.pack_stores, data)
    assert stored.span is not None
    between()
    with store.database.write() as tx:
        objects.add_in(tx, store.pack_stores, stored, refs=1)


def test_a_writer_whose_pack_was_taken_for_abandoned_writes_it_again(store: Store) -> None:
    put_slowly(store, LARGE, lambda: collect(store, grace_us=0))
    collect(store, grace_us=0)
    assert objects.load(store, address(LARGE).hex()) == LARGE


def test_a_collector_that_comes_second_leaves_a_pack_alone(store: Store) -> None:
    """The writer's row was not there when the collector looked, and is there when it decides."""
    put_slowly(store, LARGE, lambda: None)
    [(name, store_name)] = query(store, "SELECT name, place FROM pack")
    with store.database.write() as tx:
        tx.run("pack_abandon", name=name, store_name=store_name)
    collect(store, grace_us=0)
    assert objects.load(store, address(LARGE).hex()) == LARGE


def test_a_stream_that_a_collector_took_for_abandoned_is_refused_and_can_be_put_again(store: Store) -> None:
    """A stream cannot be read twice, so it is the caller who puts it again."""

    def pieces(collects: bool) -> Iterator[bytes]:
        for number in range(20):
            yield number.to_bytes(1, "big") * 1_000_000 + LARGE
            if collects:
                collect(store, grace_us=0)

    with pytest.raises(Conflict, match="put it again"):
        objects.put(store, pieces(collects=True))
    name = objects.put(store, pieces(collects=False))
    assert objects.load(store, name) == b"".join(pieces(collects=False))


def test_a_pack_store_is_listed_page_by_page_in_the_order_of_its_keys(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PAGE", 3)
    written = [objects.put(store, [number.to_bytes(4, "big") + LARGE]) for number in range(8)]
    listed = [key for key, _ in store.pack_stores.current.list("")]
    assert listed == sorted(listed)
    assert len(listed) == len(written)
    pack = pack_of(listed[4])
    assert [key for key, _ in store.pack_stores.current.list(pack_prefix(pack))] == [listed[4]]


def test_nothing_acknowledged_goes_missing_while_others_collect(store: Store, store_url: str) -> None:
    """Writers, a pruner and collectors without grace meet on the same bytes, in two stores on one database."""
    set_policy(store, Policy(project="old", keep_days=0))
    kept = opened(store, project="kept")
    with open_store(store_url) as elsewhere:
        for number in range(ROUNDS):
            text, data = big(f"round {number} "), b"saved in round %d" % number
            old = opened(store, project="old")
            store.append(old, [say(text)])
            age(store, old, days=1)

            def save_and_name(data: bytes = data) -> str | None:
                digest = objects.save(elsewhere, data)
                try:
                    store.append(kept, [artifact(digest)])
                except NotFound:
                    return None  # Collected before it was named: refused, so nothing is missing.
                return digest

            def prune_and_collect() -> None:
                apply_policies(elsewhere, actor=ADA)
                collect(elsewhere, grace_us=0)

            outcomes = at_once(
                [
                    partial(store.append, kept, [say(text)]),
                    prune_and_collect,
                    save_and_name,
                    lambda: collect(store, grace_us=0),
                ]
            )
            assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
            collect(store, grace_us=0)
            assert messages(list(store.read(kept, after=outcomes[0].seqs[0] - 1, limit=1))) == [text]
            if outcomes[2] is not None:
                assert objects.load(store, outcomes[2]) == data
    assert verify(store, kept).ok


def test_a_reader_never_stumbles_over_a_body_that_is_being_pruned(store: Store, store_url: str) -> None:
    set_policy(store, Policy(project="demo", keep_days=0))
    with open_store(store_url) as elsewhere:
        for number in range(ROUNDS):
            session = opened(store)
            store.append(session, [say(big(f"{number} {turn}")) for turn in range(10)])
            age(store, session, days=1)

            def prune() -> None:
                apply_policies(elsewhere, actor=ADA)
                collect(elsewhere, grace_us=0)

            def read(session: Session = session) -> None:
                while len(list(store.read(session))) < 12:
                    pass

            outcomes = at_once([prune, read, read])
            assert not [outcome for outcome in outcomes if isinstance(outcome, ClewError)]
            assert outcomes == [None] * 3
