"""Walk everything that some objects name, in the order in which a copy is made: what an object names comes before it.

A manifest, such as the tree of a folder, can be stored only where the objects are that it names. What was walked before
is not walked again, so a `seen` that is shared by several walks gives each object once.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from clew.model.errors import Damaged, NotFound
from clew.store.objects import objects
from clew.store.store import Store

# So many digests are looked up with one statement.
ASKED = 5_000
# A folder of a snapshot is at most 200 folders deep (model/file_tree.py); below it are the pieces of a large file.
DEEPEST = 210


class Walked(NamedTuple):
    """An object, its size, and what it names if it is a manifest."""

    digest: bytes
    size: int
    names: tuple[bytes, ...]


def walk(store: Store, roots: Iterable[bytes], *, seen: set[bytes]) -> Iterator[Walked]:
    """These objects and all that they name, each once; `NotFound` for one that the store does not have."""
    return _walk(store, list(roots), seen, 0)


def _walk(store: Store, digests: list[bytes], seen: set[bytes], depth: int) -> Iterator[Walked]:
    if depth > DEEPEST:
        raise Damaged(f"objects name each other more than {DEEPEST} deep; no snapshot of a folder does")
    fresh = [digest for digest in dict.fromkeys(digests) if digest not in seen]
    manifests: list[tuple[bytes, int]] = []
    for at in range(0, len(fresh), ASKED):
        asked = fresh[at : at + ASKED]
        names = msgspec.json.encode([digest.hex() for digest in asked]).decode()
        with store.unrestricted.database.read() as tx:
            sizes = {bytes(digest): int(size) for digest, size in tx.run("objects_sizes", names=names)}
            naming = {bytes(digest) for (digest,) in tx.run("manifests_known", names=names)}
        for digest in asked:
            if digest not in sizes:
                raise NotFound(f"no blob {digest.hex()} in this store", object=digest.hex())
            if digest in naming:
                manifests.append((digest, sizes[digest]))
            else:
                seen.add(digest)
                yield Walked(digest, sizes[digest], ())
    for digest, size in manifests:
        # The same folder can be below another one of these.
        if digest not in seen:
            below = [bytes.fromhex(name) for name in objects.names_of(store, digest.hex())]
            yield from _walk(store, below, seen, depth + 1)
            seen.add(digest)
            yield Walked(digest, size, tuple(below))


def reached(store: Store, roots: Iterable[str], digests: Iterable[bytes]) -> set[bytes]:
    """Those of these objects that are among the roots, or that one of them names in turn."""
    with store.database.read() as tx:
        rows = tx.run("manifest_reached", roots=_names(roots), names=_names(digest.hex() for digest in digests))
    return {bytes(digest) for (digest,) in rows}


def sizes_below(store: Store, roots: Iterable[str]) -> tuple[int, int, int]:
    """How many objects these are with all that they name in turn, their bytes, and what they take compressed."""
    with store.database.read() as tx:
        [(objects, size, stored)] = tx.run("manifest_sizes", roots=_names(sorted(roots)))
    return int(objects), int(size), int(stored)


def count_naming(store: Store, digest: bytes) -> int:
    """How many objects name this one."""
    with store.database.read() as tx:
        return len(tx.run("manifests_naming", names=_names([digest.hex()])))


def all_sizes(store: Store) -> tuple[int, int]:
    """How many objects there are, and their bytes."""
    with store.database.read() as tx:
        [(count, size, *_)] = tx.run("objects_summary")
    return int(count), int(size)


def _names(names: Iterable[str]) -> str:
    return msgspec.json.encode([*names]).decode()
