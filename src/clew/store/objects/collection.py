"""Collection: delete the objects that nothing names, and whatever a writer or a collector left behind.

It looks without any lock, and each of its write transactions is short and decides again:

1. Delete the rows of objects that nothing names and whose grace is over; what they named is named once less.
2. Find packs that no row has known for the grace: their writer died. It may also be slow, so the collector adds the row
   of the pack itself, and a writer that comes later finds it and writes its objects again (`pack_add`).
3. Delete the parts of packs that are leaving: those of step 2, and those in which no object is left.
4. Write the rest of a pack from which an object was deleted into a new pack, and point the rows there. The old pack
   stays for the grace, for a backup that has copied the rows and not yet the packs.

A collector that dies is no harm: the rows and the pack store say what is left to do.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from clew.model.errors import Conflict, Damaged, NotFound
from clew.store.database.contract import Row, Transaction
from clew.store.objects import pack
from clew.store.objects.objects import digest_of, stat, writing
from clew.store.objects.pack import Span
from clew.store.objects.pack_store import UNFINISHED, PackStore, loose_key, pack_of, pack_prefix

if TYPE_CHECKING:
    from clew.store.store import Store

HOUR_US = 3_600_000_000
# A new object is kept so long without anything that names it.
GRACE_US = HOUR_US
# How long it is remembered that a pack was removed, for a writer that was away.
REMEMBERED_US = 30 * 24 * HOUR_US
PAGE = 500

Step = Callable[[], None]


class Collected(NamedTuple):
    """How many objects were deleted, and their bytes."""

    objects: int
    bytes: int


def collect(
    store: "Store", *, grace_us: int = GRACE_US, abandoned_us: int | None = None, before_each: Step = lambda: None
) -> Collected:
    """Delete what nothing names and is older than the grace; `before_each` is called between the steps.

    `abandoned_us` is the grace of packs that no row points to. Their writers can do without it: who finds that a
    collector took the pack writes it again.
    """
    abandoned_us = grace_us if abandoned_us is None else abandoned_us
    objects = size = 0
    while unnamed := _unnamed(store, grace_us):
        before_each()
        deleted = forget(store, unnamed, grace_us=grace_us)
        if not deleted:
            break  # All of them are named by now.
        objects, size = objects + len(deleted), size + sum(deleted)
    for name, _ in _packs(store, "thinned", 0):
        before_each()
        with store.database.write() as tx:
            _leave(tx, name, waits=False)
    for pack_store in store.pack_stores:
        objects += _find_abandoned(store, pack_store, abandoned_us, before_each)
    # Before a pack is written anew: on a full disk this makes the room for it.
    _remove_leaving(store, abandoned_us, before_each)
    for name, store_name in _packs(store, "thinned", 0):
        before_each()
        _rewrite(store, name, store_name)
    _remove_leaving(store, abandoned_us, before_each)
    with store.unrestricted.database.read() as tx:
        over = tx.run("packs_gone_since", keep=REMEMBERED_US)
    if over:
        with store.database.write() as tx:
            tx.run("packs_forget", keep=REMEMBERED_US)
    return Collected(objects, size)


def delete(store: "Store", name: str) -> None:
    """Delete an object that nothing names, without grace; `Conflict` if something does."""
    if not forget(store, [digest_of(name)], grace_us=0):
        refs = stat(store, name).refs
        raise Conflict(f"{refs} events, files or objects name {name}; an object that is named stays", refs=refs)


def forget(store: "Store", digests: Sequence[bytes], *, grace_us: int) -> list[int]:
    """Delete those of these objects that nothing names and whose grace is over; returns their sizes."""
    sizes: list[int] = []
    thinned: set[str] = set()
    loose: list[bytes] = []
    with store.unrestricted.database.read() as tx:
        # What an object names never changes, because its name is the digest of that.
        named = [bytes(name) for digest in digests for (name,) in tx.run("manifest_names", digest=digest)]
    with store.database.write() as tx:
        for digest in sorted({*digests, *named}) if named else sorted(digests):
            tx.run("object_lock", digest=digest)
        for digest in sorted(digests):
            for object_size, pack_name, is_loose in tx.run("object_forget", digest=digest, grace=grace_us):
                sizes.append(object_size)
                thinned |= {pack_name} if pack_name else set()
                loose += [digest] if is_loose else []
                for (name,) in tx.run("manifest_forget", digest=digest):
                    tx.run("object_ref", digest=bytes(name), refs=-1)
        for pack_name in sorted(thinned):
            tx.run("pack_thin", name=pack_name)
    if loose and store.pack_stores.knows(""):
        store.pack_stores.get("").remove([loose_key(digest) for digest in loose])
    return sizes


def _unnamed(store: "Store", grace_us: int) -> list[bytes]:
    with store.unrestricted.database.read() as tx:
        return [bytes(digest) for (digest,) in tx.run("objects_unnamed", grace=grace_us, limit=PAGE)]


def _packs(store: "Store", state: str, grace_us: int) -> Iterator[tuple[str, str]]:
    """The packs that are in a state for so long, and their pack stores, as far as this process may use them."""
    after = ""
    while True:
        with store.unrestricted.database.read() as tx:
            rows: list[Row] = tx.run("packs_in_state", state=state, after=after, grace=grace_us, limit=PAGE)
        for name, store_name in rows:
            if store.pack_stores.knows(store_name):
                yield name, store_name
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def _rewrite(store: "Store", name: str, store_name: str) -> None:
    """Write what is left of a pack into a new one, and let the old one leave."""
    with store.unrestricted.database.read() as tx:
        rows = [(bytes(digest), Span(store_name, name, *span)) for digest, *span in tx.run("pack_objects", name=name)]
    pack_store = store.pack_stores.get(store_name)
    try:
        with writing(store.pack_stores) as writer:
            moved = [(digest, old, writer.copy(pack.raw_frames(pack_store, old))) for digest, old in rows]
    except (NotFound, Damaged):
        return  # Bytes are missing: the pack stays as it is, until it is restored or nothing names its objects.
    with store.database.write() as tx:
        tx.run("pack_add", name=writer.name, store_name=store.pack_stores.current.name)
        for digest, old, new in sorted(moved):
            _move(tx, digest, old, new)
        _leave(tx, name, waits=True)


def _leave(tx: Transaction, name: str, *, waits: bool) -> None:
    """Let a pack leave that holds no object any more. Its row is locked first, so that its writer's commit is seen."""
    tx.run("pack_lock", name=name)
    tx.run("pack_leave", name=name, waits=int(waits))


def _move(tx: Transaction, digest: bytes, old: Span, new: Span) -> None:
    """Point an object to its new pack, unless it was deleted meanwhile: then the new pack has a gap, too."""
    if not tx.run(
        "object_move", digest=digest, old=old.pack, old_start=old.start, pack=new.pack, start=new.start
    ):  # fmt: skip
        tx.run("pack_thin", name=new.pack)


def _find_abandoned(store: "Store", pack_store: PackStore, grace_us: int, before_each: Step) -> int:
    """Let packs leave that no row knows, and delete whatever else no row knows; returns how many objects those were."""
    deleted = 0
    old: list[str] = []
    # The parts of a pack come one after the other, so that one pack at a time is in memory.
    for name, parts in groupby(pack_store.list(""), lambda part: pack_of(part.key)):
        if name:
            if min(part.age_seconds for part in parts) * 1_000_000 >= grace_us:
                old.append(name)
        else:
            for key, age in parts:
                if age * 1_000_000 >= grace_us and _is_abandoned_file(store, pack_store, key):
                    pack_store.remove([key])
                    deleted += 1
        if len(old) >= PAGE:
            before_each()
            _abandon(store, pack_store, old)
            old = []
    before_each()
    _abandon(store, pack_store, old)
    return deleted


def _abandon(store: "Store", pack_store: PackStore, names: Sequence[str]) -> None:
    """Let those of these packs leave that are not kept: no row says anything about them, or that they are gone."""
    with store.unrestricted.database.read() as tx:
        unknown = [name for name in names if tx.run("pack_state", name=name) in ([], [("gone",)])]
    for name in unknown:
        with store.database.write() as tx:
            tx.run("pack_abandon", name=name, store_name=pack_store.name)


def _is_abandoned_file(store: "Store", pack_store: PackStore, key: str) -> bool:
    """Whether it is a file that its writer did not finish, or a loose object that no row knows."""
    name = key.rpartition("/")[2]
    if name.startswith(UNFINISHED):
        return True
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        return False  # Not ours.
    if pack_store.name or key != loose_key(digest):
        return False
    with store.unrestricted.database.read() as tx:
        return not tx.run("loose_known", digest=digest)


def _remove_leaving(store: "Store", grace_us: int, before_each: Step) -> None:
    """Delete the parts of the packs that have been leaving for the grace."""
    for name, store_name in _packs(store, "leaving", grace_us):
        before_each()
        pack_store = store.pack_stores.get(store_name)
        pack_store.remove([key for key, _ in pack_store.list(pack_prefix(name))])
        with store.database.write() as tx:
            tx.run("pack_gone", name=name)
