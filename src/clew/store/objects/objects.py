"""Objects: bytes of any size named by their digest, stored once, kept as long as something names them.

    put(store, stream)     store the bytes; they are kept for an hour even if nothing names them
    open(store, name)      read them as a stream that is checked on the way
    stat(store, name)      how large it is, and how many name it

An event, a native file or a manifest (an object that names others) names an object. `blob.refs` counts them in the
transaction that adds or removes them; what nothing names is deleted (collection.py). A small object is
stored in its row, a larger one in a pack (pack.py), which is durable before any row names it.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from clew.model.errors import ClewError, Conflict, NotFound, TooLarge
from clew.store.database.contract import Row, Transaction
from clew.store.objects import pack
from clew.store.objects.pack import FRAME_BYTES, PackWriter, Span, address, compress, decompress
from clew.store.objects.pack_store import PART_BYTES, PackStores, loose_key

if TYPE_CHECKING:
    from clew.store.store import Store

LARGEST_BYTES = 16 * 1024**3
# What is read as a whole has at most so many bytes.
LOADED_BYTES = 100 * 1024**2
# An object that is larger is not gathered in memory to see whether the store has it already.
GATHERED_BYTES = PART_BYTES
# Small objects that are stored together share packs of about so many bytes, and transactions of so many objects.
TOGETHER_BYTES = PART_BYTES
TOGETHER = 10_000
# A loose object, which an older clew wrote, was at most as large as a body.
LOOSE_BYTES = 1024**3


class Stored(msgspec.Struct, frozen=True):
    """Bytes on their way into the store: compressed for a row, durable in a pack that no row names yet, or neither when
    the store has them already.
    """

    digest: bytes
    size: int
    data: bytes | None = None
    span: Span | None = None
    raw: bytes = b""
    """The bytes, if they are not in the row: they are written again should a collector delete what is relied on."""


class Stat(NamedTuple):
    """An object: its size, and how many events, files and manifests name it."""

    digest: str
    size: int
    refs: int


Source = BinaryIO | Iterable[bytes]


# Writing --------------------------------------------------------------------------------------------------------------


def put(store: "Store", source: Source, *, size: int | None = None, names: Sequence[str] = ()) -> str:
    """Store a stream once and return its name; with `names` it is a manifest that keeps these objects.

    `size` is what the caller knows of it: what is too large is refused before anything is written.
    """
    _refuse_size(size or 0)
    named = sorted({digest_of(name) for name in names})
    pieces = _limited(source)
    beginning = _gather(pieces)
    if len(beginning) <= GATHERED_BYTES:
        digest = address(beginning)
        if not named and _touch(store, digest):
            return digest.hex()
        stored = store_bytes(store.pack_stores, beginning)
    else:
        stored = _stream(store.pack_stores, beginning, pieces)
    with store.database.write() as tx:
        for other in sorted({*named, stored.digest}) if named else ():
            tx.run("object_lock", digest=other)
        add_in(tx, store.pack_stores, stored, refs=0)
        for other in named:
            if tx.run("manifest_add", digest=stored.digest, names=other):
                name_in(tx, other, 1)
    return stored.digest.hex()


def save(store: "Store", data: bytes) -> str:
    """Store bytes once and return their name."""
    return put(store, [data])


def put_many(store: "Store", objects: Iterable[bytes]) -> Iterator[str]:
    """Store many small objects, which share packs; yields their names in order."""
    group: dict[bytes, bytes] = {}
    names: list[str] = []
    size = 0
    for data in objects:
        digest = address(data)
        names.append(digest.hex())
        if digest not in group:
            group[digest] = data
            size += len(data)
        if size >= TOGETHER_BYTES or len(names) >= TOGETHER:
            _put_group(store, group)
            yield from names
            group, names, size = {}, [], 0
    _put_group(store, group)
    yield from names


def store_bytes(pack_stores: PackStores, data: bytes) -> Stored:
    """Make bytes ready for a transaction that names them; large ones are durable when this returns."""
    if len(data) <= 2 * pack_stores.current.row_bytes or len(data) < GATHERED_BYTES:
        compressed = compress(data)
        if len(compressed) <= pack_stores.current.row_bytes:
            return Stored(address(data), len(data), data=compressed)
    digest = address(data)
    with pack_stores.database.read() as tx:
        if tx.run("object_stat", digest=digest):
            return Stored(digest, len(data), raw=data)
    with writing(pack_stores) as writer:
        _, size, span = writer.add([data])
    return Stored(digest, size, span=span, raw=data)


def add_in(tx: Transaction, pack_stores: PackStores, stored: Stored, *, refs: int) -> None:
    """Add an object that so many name from now on, or that waits to be named."""
    values = {"digest": stored.digest, "size": stored.size, "refs": refs, "waits": int(refs == 0)}
    if stored.data is not None:
        tx.run("object_add", **values, data=stored.data, pack=None, start=None, length=None)
        return
    if stored.span is None and tx.run("object_lock", digest=stored.digest):
        tx.run("object_ref", digest=stored.digest, refs=refs) if refs else tx.run("object_touch", digest=stored.digest)
        return
    span = _claim(tx, pack_stores, stored)
    [(name, start)] = tx.run(
        "object_add", **values, data=None, pack=span.pack, start=span.start, length=span.length
    )  # fmt: skip
    if (name, start) != (span.pack, span.start):
        tx.run("pack_thin", name=span.pack)  # The store has the object already, elsewhere.


def name_in(tx: Transaction, digest: bytes, count: int) -> None:
    """Count so many more that name an object; `NotFound` if the store does not have it."""
    if not tx.run("object_ref", digest=digest, refs=count):
        raise NotFound(f"no blob {digest.hex()} in this store; save its bytes before an event names it")


def _claim(tx: Transaction, pack_stores: PackStores, stored: Stored) -> Span:
    """Keep the pack from the collector. If it came first, write the bytes again, inside the transaction."""
    span = stored.span
    if span is not None and tx.run("pack_add", name=span.pack, store_name=span.store_name):
        return span
    if not stored.raw:
        raise Conflict("a collector removed what was written of this object, taking it for abandoned; put it again")
    writer = PackWriter(pack_stores.current, tx)
    _, _, span = writer.add([stored.raw])
    writer.finish()
    tx.run("pack_add", name=span.pack, store_name=span.store_name)
    return span


def _stream(pack_stores: PackStores, beginning: bytes, pieces: Iterator[bytes]) -> Stored:
    def whole() -> Iterator[bytes]:
        yield beginning
        yield from pieces

    with writing(pack_stores) as writer:
        digest, size, span = writer.add(whole())
    return Stored(digest, size, span=span)


@contextmanager
def writing(pack_stores: PackStores) -> Iterator[PackWriter]:
    """A new pack, finished when the block ends, and deleted when that fails."""
    writer = PackWriter(pack_stores.current)
    try:
        yield writer
        writer.finish()
    except BaseException as error:
        try:
            writer.discard()
        except ClewError as failed:
            error.add_note(f"and what was written of it could not be deleted: {failed}")  # A collector will.
        raise


def _put_group(store: "Store", group: dict[bytes, bytes]) -> None:
    """Store small objects that the store does not have in one pack, and begin the grace of the others anew."""
    if not group:
        return
    with store.unrestricted.database.read() as tx:
        asked = msgspec.json.encode([digest.hex() for digest in group]).decode()
        known = {bytes(digest) for (digest,) in tx.run("objects_known", names=asked)}
    with writing(store.pack_stores) as writer:
        added = [writer.add([data]) for digest, data in group.items() if digest not in known]
    rows = [
        {"digest": digest, "size": size, "pack": span.pack, "start": span.start, "length": span.length}
        for digest, size, span in sorted(added)
    ]
    with store.database.write() as tx:
        touched = [bool(tx.run("object_touch", digest=digest)) for digest in sorted(known)]
        if rows and not tx.run("pack_add", name=writer.name, store_name=store.pack_stores.current.name):
            raise Conflict(
                "a collector removed what was written of these objects, taking it for abandoned; put them again"
            )
        tx.many("object_add_packed", rows)
        # Another writer may have been first with some of them.
        if len(tx.run("pack_objects", name=writer.name)) < len(rows):
            tx.run("pack_thin", name=writer.name)
    if not all(touched):
        _put_group(store, {digest: group[digest] for digest in known})  # Collected since they were looked up.


def _touch(store: "Store", digest: bytes) -> bool:
    """Begin the grace of an object anew; False if the store does not have it."""
    with store.unrestricted.database.read() as tx:
        if not tx.run("object_read", digest=digest):
            return False
    with store.database.write() as tx:
        return bool(tx.run("object_touch", digest=digest))


def _limited(source: Source) -> Iterator[bytes]:
    """The pieces of a stream, none of them large; `TooLarge` when there are too many."""
    size = 0
    for piece in pieces_of(source):
        size += len(piece)
        _refuse_size(size)
        yield piece


def pieces_of(source: Source) -> Iterable[bytes]:
    """The pieces of a stream: as they come, or read from a file."""
    read = getattr(source, "read", None)
    return iter(lambda: read(FRAME_BYTES), b"") if read is not None else source


def _gather(pieces: Iterator[bytes]) -> bytes:
    """The first pieces as one, until they are more than what is gathered."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) > GATHERED_BYTES:
            break
    return bytes(gathered)


def _refuse_size(size: int) -> None:
    if size > LARGEST_BYTES:
        raise TooLarge(
            f"an object may have {LARGEST_BYTES:,} bytes ({LARGEST_BYTES // 1024**3} GiB) and this one has "
            f"{size:,} or more; split it",
            size=size,
            limit=LARGEST_BYTES,
        )


# Reading --------------------------------------------------------------------------------------------------------------


class _Stream(io.RawIOBase):
    """Pieces as a file that is read from the beginning to the end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int] | bytearray") -> int:  # type: ignore[override]  # Any writable buffer.
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def open(store: "Store", name: str) -> BinaryIO:
    """The bytes of an object as a stream. Each is checked before it is read; `Damaged` ends the stream."""
    return as_file(pieces(store, name))


def as_file(pieces: Iterator[bytes]) -> BinaryIO:
    """Pieces as a file that is read from the beginning to the end."""
    return io.BufferedReader(_Stream(pieces), FRAME_BYTES)


def pieces(store: "Store", name: str) -> Iterator[bytes]:
    """The bytes of an object, piece by piece, each checked."""
    digest = digest_of(name)

    def find() -> Row:
        with store.unrestricted.database.read() as tx:
            return _row(tx, digest)

    return _pieces(find, store.pack_stores, digest)


def load(store: "Store", name: str) -> bytes:
    """The bytes of an object as a whole; `TooLarge` for one that does not belong into memory."""
    if (size := stat(store, name).size) > LOADED_BYTES:
        raise TooLarge(
            f"object {name[:12]} has {size:,} bytes, and at most {LOADED_BYTES:,} are read whole; read it as a stream",
            size=size,
            limit=LOADED_BYTES,
        )
    return b"".join(pieces(store, name))


def load_in(tx: Transaction, pack_stores: PackStores, digest: bytes) -> bytes:
    """The bytes of an object, found inside a transaction."""
    return b"".join(_pieces(lambda: _row(tx, digest), pack_stores, digest))


def stat(store: "Store", name: str) -> Stat:
    """How large an object is, and how many name it."""
    with store.unrestricted.database.read() as tx:
        rows = tx.run("object_stat", digest=digest_of(name))
    if not rows:
        raise NotFound(f"no blob {name} in this store")
    return Stat(name, *rows[0])


def names_of(store: "Store", name: str) -> list[str]:
    """The objects that a manifest names; none for any other object."""
    with store.unrestricted.database.read() as tx:
        return [bytes(named).hex() for (named,) in tx.run("manifest_names", digest=digest_of(name))]


def reaches(store: "Store", names: Iterable[str], name: str) -> bool:
    """Whether an object is one of these, or is named by one of them, directly or through others."""
    roots = [root for root in names if _is_name(root)]
    if name in roots:
        return True
    if not _is_name(name):
        return False
    with store.unrestricted.database.read() as tx:
        return bool(tx.run("manifest_reaches", names=msgspec.json.encode(roots).decode(), digest=digest_of(name)))


def digest_of(name: str) -> bytes:
    """The digest in the name of an object, as bytes."""
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise NotFound(f"{name[:80]!r} is not a blob digest of 64 hexadecimal digits")
    return digest


def _is_name(name: str) -> bool:
    try:
        return bool(digest_of(name))
    except NotFound:
        return False


def _row(tx: Transaction, digest: bytes) -> Row:
    rows = tx.run("object_read", digest=digest)
    if not rows:
        raise NotFound(f"no blob {digest.hex()} in this store")
    return rows[0]


def _pieces(find: Callable[[], Row], pack_stores: PackStores, digest: bytes) -> Iterator[bytes]:
    """The bytes of an object; when a collector has moved it meanwhile, the rest of them from where it is now."""
    row, sent = find(), 0
    while True:
        skip = sent
        try:
            for piece in _pieces_at(row, pack_stores, digest):
                if skip < len(piece):
                    yield piece[skip:]
                    sent += len(piece) - skip
                skip = max(0, skip - len(piece))
            return
        except NotFound as error:
            moved = find()
            if moved[2:] == row[2:]:
                raise NotFound(f"the bytes of blob {digest.hex()} are missing: {error}") from error
            row = moved


def _pieces_at(row: Row, pack_stores: PackStores, digest: bytes) -> Iterator[bytes]:
    data, _, store_name, name, start, length = row
    if data is not None:
        yield decompress(digest, bytes(data))
    elif name is None:
        yield decompress(digest, _loose(pack_stores, digest))
    elif store_name is None:
        raise NotFound(f"nothing is known of the pack {name}")
    else:
        yield from pack.read(pack_stores.get(store_name), digest, Span(store_name, name, start, length))


def _loose(pack_stores: PackStores, digest: bytes) -> bytes:
    return pack_stores.get("").read(loose_key(digest), 0, LOOSE_BYTES)
