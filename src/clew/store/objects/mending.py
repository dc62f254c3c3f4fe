"""Which objects are damaged or missing, who needs them, and how a sound copy takes the place of a damaged one.

Every byte of every object is read and checked, a page of objects at a time, in the order in which they lie in packs.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clew.model.errors import ClewError, Damaged, InvalidInput, NotFound
from clew.store.objects import objects, pack
from clew.store.objects.pack import Span, address, compress, decompress
from clew.store.objects.pack_store import loose_key, pack_of

if TYPE_CHECKING:
    from clew.store.store import Store

PAGE = 2_000
# So many missing objects are listed; after a mend the next run finds the rest.
MOST_MISSING = 100_000


class Bad(NamedTuple):
    """An object that cannot be read, and why."""

    digest: bytes
    size: int
    what: str
    """`damaged`, or `missing`."""
    why: str


class Named(NamedTuple):
    """A place that needs an object itself: a body of an event, or bytes of a native file."""

    digest: bytes
    session: str
    seq: int
    path: str = ""
    machine: str = ""
    start: int = 0
    length: int = 0


def check(store: "Store", on_progress: Callable[[int, int], None] | None = None) -> Iterator[Bad]:
    """Read every object; yields those that are damaged or missing."""
    with store.unrestricted.database.read() as tx:
        [(total, *_)] = tx.run("objects_summary")
        missing = [bytes(name) for (name,) in tx.run("objects_missing", limit=MOST_MISSING)]
    for digest in missing:
        yield Bad(digest, 0, "missing", "nothing of it is in the store, and another object names it")
    done, after = 0, b""
    while True:
        with store.unrestricted.database.read() as tx:
            digests = [bytes(digest) for (digest,) in tx.run("objects_after", after=after, limit=PAGE)]
            rows = [(bytes(row[0]), row[2]) for row in tx.run("objects_read", names=_names(digests))]
        for digest, size in rows:
            if (bad := _bad(store, digest, size)) is not None:
                yield bad
        done += len(digests)
        if on_progress is not None:
            on_progress(done, max(done, total))
        if len(digests) < PAGE:
            return
        after = digests[-1]


def _bad(store: "Store", digest: bytes, size: int) -> Bad | None:
    try:
        length = sum(map(len, objects.pieces(store, digest.hex())))
    except Damaged as error:
        return Bad(digest, size, "damaged", str(error))
    except NotFound as error:
        with store.unrestricted.database.read() as tx:
            if not tx.run("object_stat", digest=digest):
                return None  # Collected meanwhile.
        return Bad(digest, size, "missing", str(error))
    return (
        None if length == size else Bad(digest, size, "damaged", f"it has {length:,} bytes, and its row says {size:,}")
    )


# Who needs them -------------------------------------------------------------------------------------------------------


def above(store: "Store", digests: Iterable[bytes]) -> set[bytes]:
    """These objects, and all that name them, directly or through others."""
    found = {*digests}
    edge = found
    while edge:
        rows = []
        with store.unrestricted.database.read() as tx:
            for part in _parts(edge):
                rows += tx.run("manifests_naming", names=part)
        edge = {bytes(digest) for digest, _ in rows} - found
        found = found | edge
    return found


def named_in_rows(store: "Store", digests: Iterable[bytes]) -> list[Named]:
    """The events that have one of these objects as their body, and the native files that have one as a part."""
    found: list[Named] = []
    with store.unrestricted.database.read() as tx:
        for part in _parts({*digests}):
            found += [Named(bytes(blob), id, seq) for blob, id, seq in tx.run("bodies_in_objects", names=part)]
            found += [
                Named(bytes(blob), id, 0, path, machine, start, length)
                for blob, id, path, machine, start, length in tx.run("segments_in_objects", names=part)
            ]
    return found


def unknown(store: "Store", digests: Iterable[bytes]) -> set[bytes]:
    """Those of these objects that the store has no row of."""
    asked = {*digests}
    with store.unrestricted.database.read() as tx:
        known = {bytes(digest) for part in _parts(asked) for (digest,) in tx.run("objects_known", names=part)}
    return asked - known


# Sound copies ---------------------------------------------------------------------------------------------------------


def duplicates(
    store: "Store", wanted: set[bytes], before_each: Callable[[], None]
) -> Iterator[tuple[bytes, str, bytes]]:
    """Other copies of these objects, each with where it is: in another pack, or in a file of its own."""
    left = {*wanted}
    for pack_store in store.pack_stores:
        if not pack_store.name:
            for digest in sorted(left):
                with suppress(ClewError):
                    data = decompress(digest, pack_store.read(loose_key(digest), 0, objects.LOOSE_BYTES))
                    left.discard(digest)
                    yield digest, f"a file of its own in {pack_store.describe()}", data
        names = dict.fromkeys(name for part in pack_store.list("") if (name := pack_of(part.key)))
        for name in names:
            if not left:
                return
            before_each()
            with suppress(NotFound, Damaged):  # What comes after a damaged place is not found.
                for entry in pack.scan(pack_store, name):
                    if entry.digest in left and entry.size <= objects.LOADED_BYTES:
                        span = Span(pack_store.name, name, entry.start, entry.length)
                        data = b"".join(pack.read(pack_store, entry.digest, span))
                        left.discard(entry.digest)
                        yield entry.digest, f"pack {name}", data


def mend(store: "Store", data: bytes, *, refs: int, names: Iterable[bytes] = ()) -> None:
    """Store a sound copy of an object anew, and let its row point there.

    `refs` says how many name it, for an object whose row is missing; `names`, what it names.
    """
    digest = address(data)
    compressed = compress(data)
    span = None
    if len(compressed) > store.pack_stores.current.row_bytes:
        with objects.writing(store.pack_stores) as writer:
            _, _, span = writer.add([data])
    place = {
        "data": None if span else compressed, "pack": span.pack if span else None,
        "start": span.start if span else None, "length": span.length if span else None,
    }  # fmt: skip
    with store.database.write() as tx:
        for other in sorted({digest, *names}):
            tx.run("object_lock", digest=other)
        rows = tx.run("object_read", digest=digest)
        if span is not None and not tx.run("pack_add", name=span.pack, store_name=span.store_name):
            raise InvalidInput("a collector removed what was written, taking it for abandoned; try again")
        if rows:
            tx.run("object_mend", digest=digest, **place)
            if rows[0][3]:
                tx.run("pack_thin", name=rows[0][3])
        else:
            tx.run("object_add", digest=digest, size=len(data), refs=refs, waits=int(refs == 0), **place)
        known = bool(tx.run("manifest_names", digest=digest))
        for other in () if known else sorted({*names}):
            if tx.run("object_stat", digest=other) and tx.run("manifest_add", digest=digest, names=other):
                objects.name_in(tx, other, 1)


def _parts(digests: Iterable[bytes]) -> Iterator[str]:
    ordered = sorted(digests)
    for at in range(0, len(ordered), PAGE):
        yield _names(ordered[at : at + PAGE])


def _names(digests: Iterable[bytes]) -> str:
    return msgspec.json.encode([digest.hex() for digest in digests]).decode()
