"""How the objects of a store are: how many there are, where, and whether their packs can be found."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from clew.model.errors import ClewError
from clew.store.objects.pack_store import PackStore, pack_of

if TYPE_CHECKING:
    from clew.store.store import Store

PAGE = 1000


class Health(NamedTuple):
    """What was found; `problems` is empty when every pack is where its row says."""

    objects: int
    bytes: int
    unnamed: int
    packs: int
    current_store: str
    problems: list[str]


def check_pack_stores(store: "Store") -> Health:
    """Look for every pack in its pack store, by its name alone; reading an object checks its bytes."""
    with store.unrestricted.database.read() as tx:
        [(objects, size, _, unnamed)] = tx.run("objects_summary")
        packs = [(name, count) for name, state, count in tx.run("packs_summary") if state in ("kept", "thinned")]
    problems = [
        f"{count:,} packs are in {name}, which this program was not told to use"
        for name, count in packs
        if not store.pack_stores.knows(name)
    ]
    for pack_store in store.pack_stores:
        try:
            problems += _missing(store, pack_store)
        except ClewError as error:
            problems.append(str(error))
    return Health(
        objects=objects, bytes=int(size), unnamed=int(unnamed), packs=sum(count for _, count in packs),
        current_store=store.pack_stores.current.describe(), problems=problems,
    )  # fmt: skip


def _missing(store: "Store", pack_store: PackStore) -> Iterator[str]:
    listed = {pack_of(key) for key, _ in pack_store.list("")}
    missing = [name for name in _packs_at(store, pack_store.name) if name not in listed]
    if missing:
        yield f"{len(missing):,} packs are missing from {pack_store.describe()}, among them {missing[0]}"


def _packs_at(store: "Store", store_name: str) -> Iterator[str]:
    after = ""
    while True:
        with store.unrestricted.database.read() as tx:
            names: list[str] = [name for (name,) in tx.run("packs_at", store_name=store_name, after=after, limit=PAGE)]
        yield from names
        if len(names) < PAGE:
            return
        after = names[-1]
