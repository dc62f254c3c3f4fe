"""How the objects of a store are: how many there are, where, and whether their packs can be found."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from clew.model.errors import ClewError
from clew.store.objects.place import Place, pack_of

if TYPE_CHECKING:
    from clew.store.store import Store

PAGE = 1000


class Health(NamedTuple):
    """What was found; `problems` is empty when every pack is where its row says."""

    objects: int
    bytes: int
    unnamed: int
    packs: int
    place: str
    problems: list[str]


def check_places(store: "Store") -> Health:
    """Look for every pack in its place, by its name alone; reading an object checks its bytes."""
    with store.database.read() as tx:
        [(objects, size, _, unnamed)] = tx.run("objects_summary")
        packs = [(place, count) for place, state, count in tx.run("packs_summary") if state in ("kept", "thinned")]
    problems = [
        f"{count:,} packs are in {name}, which this program was not told to use"
        for name, count in packs
        if not store.places.knows(name)
    ]
    for place in store.places:
        try:
            problems += _missing(store, place)
        except ClewError as error:
            problems.append(str(error))
    return Health(
        objects, int(size), int(unnamed), sum(count for _, count in packs), store.places.current.describe(), problems
    )  # fmt: skip


def _missing(store: "Store", place: Place) -> Iterator[str]:
    there = {pack_of(key) for key, _ in place.list("")}
    missing = [name for name in _packs_at(store, place.name) if name not in there]
    if missing:
        yield f"{len(missing):,} packs are missing from {place.describe()}, among them {missing[0]}"


def _packs_at(store: "Store", place: str) -> Iterator[str]:
    after = ""
    while True:
        with store.database.read() as tx:
            names: list[str] = [name for (name,) in tx.run("packs_at", place=place, after=after, limit=PAGE)]
        yield from names
        if len(names) < PAGE:
            return
        after = names[-1]
