"""What a process said about objects before it ended, and whether its store holds to it.

It says `named SESSION NAME` once the commit that names an object is acknowledged, `forgetting SESSION` before it erases
a session and `forgot SESSION` afterwards. The bytes of an object are made from its label: `object NAME LABEL SIZE`.
"""

import random
from collections import defaultdict

from clew.model.errors import NotFound
from clew.model.object_names import kinds_naming_objects, objects_of
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.log.verify import verify_all
from clew.store.objects import objects
from clew.store.objects.collection import collect
from clew.store.objects.pack import address, scan
from clew.store.objects.pack_store import pack_of
from store.rows import query

ADA = "person:ada"
HEX = {"lite": "SELECT lower(hex(digest)) FROM blob", "pg": "SELECT encode(digest, 'hex') FROM blob"}


def content(label: str, size: int) -> bytes:
    """Noise, which does not compress."""
    return random.Random(label).randbytes(size)


class Promises:
    """What was said so far."""

    def __init__(self) -> None:
        self.named: defaultdict[str, set[str]] = defaultdict(set)
        self.forgetting: set[str] = set()
        self.forgot: set[str] = set()
        self._content: dict[str, tuple[str, int]] = {}

    def hear(self, lines: list[str]) -> None:
        for word, *rest in map(str.split, lines):
            match word, rest:
                case "object", [name, label, size]:
                    self._content[name] = (label, int(size))
                case "named", [session, name]:
                    self.named[session].add(name)
                case "forgetting", [session]:
                    self.forgetting.add(session)
                case "forgot", [session]:
                    self.forgot.add(session)

    def broken(self, store: Store) -> list[str]:
        """What was promised and does not hold: an object that is named and not there, or that holds other bytes."""
        wanted = {name for session, names in self.named.items() if session not in self.forgetting for name in names}
        found = []
        for name in sorted(wanted | self._reached(store, wanted)):
            try:
                data = objects.load(store, name)
            except NotFound as error:
                found.append(str(error))
                continue
            if address(data).hex() != name or (name in self._content and data != content(*self._content[name])):
                found.append(f"{name} holds other bytes")
        return found

    @staticmethod
    def _reached(store: Store, names: set[str]) -> set[str]:
        reached: set[str] = set()
        left = list(names)
        while left:
            new = set(objects.names_of(store, left.pop())) - reached
            reached |= new
            left += new
        return reached

    def check(self, store: Store) -> None:
        """Check the store as the next process finds it; then let go of what was let go, and collect."""
        assert self.broken(store) == []
        assert store.database.check() == []
        for session in self.forgetting - self.forgot:
            try:
                erase(store, store.session(session), actor=ADA, overwrite=False)
            except NotFound:
                continue  # It was never opened, or is erased already.
        self.forgot |= self.forgetting
        # What a collection without grace leaves is named; the second one finds nothing that the first one left.
        collect(store, grace_us=0)
        assert collect(store, grace_us=0) == (0, 0)
        assert self.broken(store) == []
        named = named_by_events(store)
        named |= self._reached(store, named)
        stored = {name for (name,) in query(store, HEX[store.database.dialect])}
        assert stored == named, f"kept and not named: {stored - named}; named and lost: {named - stored}"
        assert packed(store) <= named, "a pack keeps what nothing names"
        assert {name for name in named if address(objects.load(store, name)).hex() != name} == set()
        assert not [found for found in verify_all(store) if not found.ok]


def named_by_events(store: Store) -> set[str]:
    """The objects that the events of all sessions name, with those that are bodies."""
    named = {
        name
        for listed in store.sessions(limit=10_000)
        for event in store.read(listed.session, kinds=kinds_naming_objects())
        for name in objects_of(event.body)
    }
    column = {"lite": "lower(hex(blob))", "pg": "encode(blob, 'hex')"}[store.database.dialect]
    return named | {name for (name,) in query(store, f"SELECT {column} FROM event WHERE blob IS NOT NULL")}


def packed(store: Store) -> set[str]:
    """The objects in the packs; a file that is no part of a pack must not be there."""
    names = set()
    for pack_store in store.pack_stores:
        keys = [key for key, _ in pack_store.list("")]
        assert [key for key in keys if not pack_of(key)] == [], "a writer's unfinished file was left"
        for pack in sorted({pack_of(key) for key in keys}):
            names |= {entry.digest.hex() for entry in scan(pack_store, pack)}
    return names
