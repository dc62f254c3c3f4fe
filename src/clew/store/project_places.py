"""Places: the repositories and folders that projects are captured from.

A repository with a remote is one place on every machine, a folder is a place of one machine. Two places that are not
the same never get one project, unless a person says so. What was stored about a place stays when its folder is deleted.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from blake3 import blake3

from clew.model.errors import Conflict
from clew.model.repository import project_names
from clew.store.database.contract import Row, Transaction

if TYPE_CHECKING:
    from clew.store.store import Store

# Projects that sessions without a folder are in; no folder gets them.
WITHOUT_FOLDER = ("default",)
MOST_NAMES = 10_000


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A repository by the address of its remote, which no machine has for itself, or a folder of a machine.

    `mark` is a hash of how the repository began. `is_root`: the folder is a repository's. `is_inside`: it is inside
    another place, and its text is not stored. `is_set`: a person chose the project, for everything below the folder.
    """

    place: str
    machine: str = ""
    mark: str = ""
    is_root: bool = False
    is_inside: bool = False
    is_set: bool = False

    @property
    def id(self) -> bytes:
        return place_id(self.machine, self.place)


class KnownPlace(NamedTuple):
    """A stored place: the key and the name that its project has now. `place` is empty if its text is not stored."""

    id: bytes
    project_key: int
    project: str
    machine: str
    place: str
    mark: str
    is_root: bool
    is_set: bool
    at: int


class CapturedFrom(msgspec.Struct, frozen=True, kw_only=True):
    """The places of a session, the one that identifies its project first, and the key of that project.

    Without a key they get a project of their own, which is called `name`; if another capture was quicker, like the
    place `named`. The project `unclaimed` may exist already, as long as no other place has it.
    """

    places: tuple[Place, ...]
    project_key: int = 0
    name: str = ""
    named: str = ""
    unclaimed: str = ""


class Began(NamedTuple):
    """How a session began: its metadata as JSON, and an event that names its working directory, if it has one."""

    metadata: str
    attached: str | None


def place_id(machine: str, place: str) -> bytes:
    return blake3(f"{machine}\0{place}".encode("utf-8", "surrogatepass")).digest()


def find_places(store: "Store", places: Iterable[Place]) -> dict[bytes, KnownPlace]:
    """What is stored of these places, by their ids."""
    with store.database.read() as tx:
        return _read(tx, [place.id for place in places])


def places_with_mark(store: "Store", machine: str, mark: str) -> list[KnownPlace]:
    """The repositories of a machine that began like this, the latest first."""
    with store.database.read() as tx:
        return [_place_from(row) for row in tx.run("places_with_mark", machine=machine, mark=mark)] if mark else []


def places_shown(store: "Store") -> list[KnownPlace]:
    """Every repository and folder with its text."""
    with store.database.read() as tx:
        return [_place_from(row) for row in tx.run("places_shown")]


def places_of(store: "Store", project: str) -> list[KnownPlace]:
    """All places of a project."""
    with store.database.read() as tx:
        return [_place_from(row) for row in tx.run("places_of", project=project)]


def began_in(store: "Store", project: str) -> Iterator[Began]:
    """How the sessions of a project began."""
    with store.database.read() as tx:
        yield from (Began(*row) for row in tx.run("sessions_began", project=project))


def remember(store: "Store", project: int, places: Sequence[Place]) -> None:
    """Store places of a project; what was stored about them before is replaced."""
    with store.database.write() as tx:
        for place in places:
            _set(tx, project, place)


def settle(store: "Store", captured_from: CapturedFrom) -> str:
    """Store the places of a session that is about to be opened, and return the name of its project."""
    with store.database.write() as tx:
        return settle_in(tx, captured_from)[1]


def settle_in(tx: Transaction, captured_from: CapturedFrom) -> tuple[int, str]:
    """Store the places of a session in the transaction that opens it; returns the key and the name of its project.

    Whoever is second to claim a place gets the project that the first one made.
    """
    first, key = captured_from.places[0], captured_from.project_key
    if not key:
        known = _read(tx, [first.id])
        if not known and tx.run("place_reserve", **_values(first)):
            key = _free_project(tx, captured_from)
    if key:
        for place in captured_from.places:
            _set(tx, key, place)
    [settled] = _read(tx, [first.id]).values()
    return settled.project_key, settled.project


def _free_project(tx: Transaction, captured_from: CapturedFrom) -> int:
    """The key of a project that no other place has."""
    for name in islice(chain([captured_from.name], project_names(captured_from.named)), MOST_NAMES):
        if name == captured_from.unclaimed and tx.run("project_lock", name=name):
            [(key, current)] = tx.run("project_named", name=name)
            if current == name and not tx.run("places_of", project=name):
                return int(key)
        elif name not in WITHOUT_FOLDER and (rows := tx.run("project_new", name=name)):
            return int(rows[0][0])
    raise Conflict(f"there are {MOST_NAMES:,} projects called like {captured_from.named!r} already; rename one of them")


def _read(tx: Transaction, ids: Sequence[bytes]) -> dict[bytes, KnownPlace]:
    found = tx.batch([("place_read", {"id": id}) for id in ids]) if ids else []
    return {place.id: place for rows in found for place in map(_place_from, rows)}


def _set(tx: Transaction, project: int, place: Place) -> None:
    tx.run("place_set", project=project, is_set=int(place.is_set), **_values(place))


def _values(place: Place) -> dict[str, Any]:
    # An erasure could not tell which of the folders inside a repository a session was in.
    text = "" if place.is_inside else place.place.replace("\0", " ").encode("utf-8", "backslashreplace").decode()
    return {
        "id": place.id, "machine": place.machine, "place": text, "mark": place.mark, "is_root": int(place.is_root),
    }  # fmt: skip


def _place_from(row: Row) -> KnownPlace:
    id, key, name, machine, place, mark, is_root, is_set, at = row
    return KnownPlace(bytes(id), int(key), name, machine, place, mark, bool(is_root), bool(is_set), int(at))
