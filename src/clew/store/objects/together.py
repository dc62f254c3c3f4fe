"""Many objects at once, some of which name others: few packs, few transactions, and threads that compress.

    together = Together(store)
    together.add(encoder.encode(data, digest))     an object
    together.add_manifest(data, names)             an object that names others
    together.finish()                              all of them are stored

What is added is durable after `finish`. It waits for a name for an hour, like everything that is put (objects.py).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from clew.model.errors import ClewError, Conflict, Damaged, NotFound, TooLarge
from clew.store.database.contract import Row, Transaction
from clew.store.objects import objects, pack
from clew.store.objects.pack import Encoded, Encoder, PackWriter, Span, address
from clew.store.objects.pack_store import PART_BYTES, pack_prefix

if TYPE_CHECKING:
    from clew.store.store import Store

# A pack ends before it needs a second part.
PACK_BYTES = PART_BYTES - 1024 * 1024
# So many new objects, or names, are stored in one transaction.
MOST_ROWS = 50_000
# So many digests are asked for in one statement.
ASKED = 5_000
# A gap between two objects of a pack that is read, too, because one read is faster than two.
GAP_BYTES = 64 * 1024


class Together:
    """Objects on their way into the store, all of them by one thread."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._new: dict[bytes, tuple[int, Span]] = {}
        self._small: dict[bytes, Encoded] = {}
        self._small_bytes = 0
        self._relied_on: set[bytes] = set()
        self._names: dict[bytes, tuple[bytes, ...]] = {}
        self._count = 0
        self._writer: PackWriter | None = None
        self._packs: list[str] = []
        self._closing: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="clew-packs")
        self._encoder = Encoder()

    def unknown(self, digests: Iterable[bytes]) -> set[bytes]:
        """Those that have to be added; the store relies on the others until `finish`."""
        asked = [digest for digest in {*digests} if digest not in self._new and digest not in self._small]
        known = _known(self._store, asked)
        self._relied_on |= known
        return {*asked} - known

    def add(self, encoded: Encoded) -> bool:
        """Add an object that the store does not have; False if it was added before."""
        digest = encoded.digest
        if digest in self._new or digest in self._small:
            return False
        if self._writer is None and not self._packs:
            # Objects that fill no row together need no pack.
            self._small[digest] = encoded
            self._small_bytes += len(encoded.frames)
            if self._small_bytes > self._store.pack_stores.current.row_bytes:
                small, self._small = self._small, {}
                for held in small.values():
                    self._add_to_pack(held)
        else:
            self._add_to_pack(encoded)
        return True

    def add_manifest(self, data: bytes, names: Iterable[bytes]) -> bytes:
        """Add an object that names others; returns its digest."""
        digest = address(data)
        if self.unknown([digest]):
            self.add(self._encoder.encode(data, digest))
        if digest not in self._names:
            self._names[digest] = tuple({*names})
            self._count += len(self._names[digest])
        return digest

    @property
    def is_full(self) -> bool:
        """Whether so much was added that it should be stored now; everything that a manifest names has to be there."""
        return self._count + len(self._new) + len(self._relied_on) >= MOST_ROWS

    def finish(self) -> None:
        """Store what was added. `Conflict` if a collector deleted meanwhile what the store had."""
        self.flush()
        self._thread.shutdown()

    def discard(self) -> None:
        """Delete the packs that no row names."""
        self._thread.shutdown()
        current = self._store.pack_stores.current
        try:
            if self._writer is not None:
                self._writer.discard()
            for name in self._packs:
                current.remove([key for key, _ in current.list(pack_prefix(name))])
        except ClewError:
            return  # Whatever is wrong with the pack store is raised by the caller; a collector deletes the rest.

    # Packs ------------------------------------------------------------------------------------------------------------

    def _add_to_pack(self, encoded: Encoded) -> None:
        if self._writer is None:
            self._writer = PackWriter(self._store.pack_stores.current)
        self._new[encoded.digest] = (encoded.size, self._writer.add_encoded(encoded))
        if self._writer.length >= PACK_BYTES:
            self._close_pack()

    def _close_pack(self) -> None:
        """Let the pack be synced while the next one is gathered."""
        self._wait()
        writer, self._writer = self._writer, None
        if writer is not None:
            self._packs.append(writer.name)
            self._closing = self._thread.submit(writer.finish)

    def _wait(self) -> None:
        closing, self._closing = self._closing, None
        if closing is not None:
            closing.result()

    # Rows -------------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Store the rows of what was added, in one transaction."""
        self._close_pack()
        self._wait()
        if not (self._new or self._small or self._names or self._relied_on):
            return
        data = {digest: pack.compress(_decoded(small)) for digest, small in self._small.items()}
        with self._store.database.write() as tx:
            self._add_rows(tx, data)
            self._add_names(tx)
        self._new, self._small, self._small_bytes, self._names, self._count = {}, {}, 0, {}, 0
        self._relied_on, self._packs = set(), []

    def _add_rows(self, tx: Transaction, data: dict[bytes, bytes]) -> None:
        named = {name for names in self._names.values() for name in names}
        others = sorted((named | self._relied_on) - self._new.keys() - self._small.keys())
        known: set[bytes] = set()
        for part in _parts(others):
            known |= {bytes(digest) for (digest,) in tx.run("objects_lock", names=part)}
        if missing := {*others} - known:
            raise Conflict(
                f"a collector deleted {len(missing)} objects meanwhile; put them again", missing=len(missing)
            )
        for part in _parts(sorted(self._relied_on)):
            tx.run("objects_touch", names=part)
        store_name = self._store.pack_stores.current.name
        for name in sorted(self._packs):
            if not tx.run("pack_add", name=name, store_name=store_name):
                raise Conflict("a collector removed what was written, taking it for abandoned; put it again")
        for digest, small in sorted(self._small.items()):
            tx.run(
                "object_add", digest=digest, size=small.size, refs=0, waits=1, data=data[digest], pack=None, start=None,
                length=None,
            )  # fmt: skip
        rows = [
            {"digest": digest, "size": size, "pack": span.pack, "start": span.start, "length": span.length}
            for digest, (size, span) in sorted(self._new.items())
        ]
        tx.many("object_add_packed", rows)
        # Another writer may have been first with some of them.
        if sum(len(tx.run("pack_objects", name=name)) for name in self._packs) < len(rows):
            for name in self._packs:
                tx.run("pack_thin", name=name)

    def _add_names(self, tx: Transaction) -> None:
        known: set[bytes] = set()
        for part in _parts(sorted(self._names)):
            known |= {bytes(digest) for (digest,) in tx.run("manifests_known", names=part)}
        added = {digest: names for digest, names in self._names.items() if digest not in known}
        tx.many(
            "manifest_add_often",
            [{"digest": digest, "names": name} for digest, names in sorted(added.items()) for name in sorted(names)],
        )
        counts = Counter(name for names in added.values() for name in names)
        tx.many("object_name_often", [{"digest": name, "refs": count} for name, count in sorted(counts.items())])


def load_many(store: "Store", digests: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The bytes of many objects that fit into memory one by one, in the order in which they lie in their packs."""
    for at in range(0, len(digests), ASKED):
        asked = {*digests[at : at + ASKED]}
        with store.unrestricted.database.read() as tx:
            rows = [
                (bytes(row[0]), *row[1:])
                for part in _parts(sorted(asked))
                for row in tx.run("objects_read", names=part)
            ]
        if missing := asked - {row[0] for row in rows}:
            raise NotFound(f"no blob {min(missing).hex()} in this store")
        if (largest := max(row[2] for row in rows)) > objects.LOADED_BYTES:
            raise TooLarge(f"an object of {largest:,} bytes is not read whole", limit=objects.LOADED_BYTES)
        for run in _runs(rows):
            yield from _load_run(store, run)


def _runs(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows that one read can serve: side by side in one pack."""
    run: list[Row] = []
    for row in rows:
        _, data, _, _, name, start, length = row
        if run and name is not None and data is None and run[-1][4] == name:
            gap = start - (run[-1][5] + run[-1][6])
            if 0 <= gap <= GAP_BYTES and start + length - run[0][5] <= PART_BYTES:
                run.append(row)
                continue
        if run:
            yield run
        run = [row]
    if run:
        yield run


def _load_run(store: "Store", run: list[Row]) -> Iterator[tuple[bytes, bytes]]:
    _, data, _, store_name, name, first, _ = run[0]
    if data is not None or name is None or store_name is None:
        for row in run:
            yield row[0], objects.load(store, row[0].hex())
        return
    try:
        pack_store = store.pack_stores.get(store_name)
        read = b"".join(pack.raw_frames(pack_store, Span(store_name, name, first, run[-1][5] + run[-1][6] - first)))
    except (NotFound, Damaged):
        for row in run:  # A collector has moved them meanwhile, or one of them is damaged.
            yield row[0], objects.load(store, row[0].hex())
        return
    for digest, _, _, _, _, start, length in run:
        span = Span(store_name, name, start, length)
        yield digest, pack.decode(read[start - first : start - first + length], digest, span)


def _decoded(encoded: Encoded) -> bytes:
    return pack.decode(encoded.frames, encoded.digest, Span("", "", 0, len(encoded.frames)))


def _known(store: "Store", digests: Sequence[bytes]) -> set[bytes]:
    if not digests:
        return set()
    with store.unrestricted.database.read() as tx:
        return {bytes(digest) for part in _parts(digests) for (digest,) in tx.run("objects_known", names=part)}


def _parts(digests: Sequence[bytes]) -> Iterator[str]:
    """The names as JSON lists of a size that one statement takes."""
    for at in range(0, len(digests), ASKED):
        yield msgspec.json.encode([digest.hex() for digest in digests[at : at + ASKED]]).decode()
