"""The operation `verify_objects`: read every object, say who needs what is damaged, and repair it from another copy."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec

from clew.model.access import Right
from clew.model.errors import Damaged, NotFound, TooLarge
from clew.model.events import WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import FOLDER, LARGE, PIECES, TREE, decode_pieces, decode_tree, refuse_depth, shown
from clew.model.git_record import GIT_RECORD, decode_git_record
from clew.model.object_names import objects_of
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store import Store
from clew.store.log.feed import end_position, entries
from clew.store.objects import mending, objects
from clew.store.objects.walking import all_sizes, count_naming

# So many places that need an object are listed; `needs` counts all of them.
LISTED = 20
# After so many events there is a word about the progress.
REPORTED = 2_000


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """A place that needs an object: an event, a native file, or a path in the snapshot of an event."""

    session: str
    seq: int = 0
    path: str = ""


class BadObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that was damaged or missing, who needs it, and what became of it."""

    object: str
    what: str
    """damaged, or missing."""
    why: str
    size: int
    result: str
    """repaired, repairable (a trial run), lost, or unneeded: nothing names it, and a collection deletes it."""
    source: str
    """Which copy it was repaired from."""
    needs: int
    needed_by: list[Need]


class ObjectsVerified(msgspec.Struct, frozen=True, kw_only=True):
    """How many objects there are, and those that were damaged or missing."""

    objects: int
    bytes: int
    repaired: int
    lost: int
    problems: list[BadObject]


class Place(NamedTuple):
    """Where the bytes of an object may be on a disk: a folder and a path, or a part of a native file."""

    session: str
    seq: int
    path: bytes
    folder: str = ""
    machine: str = ""
    start: int = 0
    length: int = -1
    """Of a native file; -1 for a file of a snapshot."""


Copy = tuple[str, bytes]
"""Where a sound copy of an object is, and its bytes."""


class Needs:
    """Who needs which of the bad objects."""

    def __init__(self) -> None:
        self.places: dict[bytes, list[Place]] = defaultdict(list)
        self.roots: list[tuple[bytes, Place]] = []
        """The snapshots in which some of them are."""
        self.above: set[bytes] = set()
        """The bad objects, and all that name them in turn."""
        self.refs: dict[bytes, int] = defaultdict(int)
        """How many events and native files name an object themselves."""

    def add(self, digest: bytes, place: Place) -> None:
        if place not in self.places[digest]:
            self.places[digest].append(place)


@operation(
    right=Right.AUDIT, route="POST /objects/verify", hidden=True, audited=True,
    finds_damage=lambda verified: verified.lost > 0,
)  # fmt: skip
def verify_objects(
    context: Context,
    *,
    dry_run: Annotated[bool, msgspec.Meta(description="Only say what is damaged and what could be repaired.")] = False,
) -> ObjectsVerified:
    """Read every object, and repair those that are damaged or missing from another copy.

    A copy is looked for in the packs, in the original files on this machine, and on the servers that this home knows.
    """
    store = context.unrestricted
    bad = {found.digest: found for found in mending.check(store, context.on_progress)}
    needs = _needs(context, bad)
    copies = _copies(context, bad, needs)
    if not dry_run:
        _mend(store, {digest: data for digest, (_, data) in copies.items()}, needs)
    problems = []
    for digest, found in sorted(bad.items()):
        places = needs.places.get(digest, [])
        result = "repairable" if dry_run else "repaired"
        if digest not in copies:
            result = "lost" if places or _is_named(store, digest) else "unneeded"
        listed = [Need(session=place.session, seq=place.seq, path=shown(place.path)) for place in places[:LISTED]]
        problems.append(
            BadObject(
                object=digest.hex(), what=found.what, why=found.why, size=found.size, result=result,
                source=copies[digest][0] if digest in copies else "", needs=len(places), needed_by=listed,
            )
        )  # fmt: skip
    count, size = all_sizes(store)
    return ObjectsVerified(
        objects=count, bytes=size, repaired=sum(problem.result == "repaired" for problem in problems),
        lost=sum(problem.result == "lost" for problem in problems), problems=problems,
    )  # fmt: skip


def _is_named(store: Store, digest: bytes) -> bool:
    try:
        return objects.stat(store, digest.hex()).refs > 0
    except NotFound:
        return True  # Something named it, or it would not have been missed.


# Who needs them -------------------------------------------------------------------------------------------------------


def _needs(context: Context, bad: dict[bytes, mending.Bad]) -> Needs:
    """Who needs the bad objects; adds those that an event names and the store has no row of."""
    store, needs = context.unrestricted, Needs()
    named: dict[bytes, list[tuple[str, int]]] = defaultdict(list)
    needs.above = mending.above(store, bad) if bad else set()
    asked: set[bytes] = set()
    total = end_position(store) if context.on_progress else 0
    for done, entry in enumerate(entries(store, after=0)):
        body = entry.event.body
        for name in objects_of(body):
            digest = objects.digest_of(name)
            place = Place(entry.event.session, entry.event.seq, b"")
            needs.refs[digest] += 1
            asked.add(digest)
            named[digest].append((place.session, place.seq))
            if digest in needs.above and isinstance(body, WorkspaceSnapshotted | WorkspaceRestored):
                needs.roots.append(
                    (digest, place._replace(folder=body.workspace.folder, machine=body.workspace.machine))
                )
        if context.on_progress is not None and done % REPORTED == 0:
            context.on_progress(done, max(done, total))
    _add_missing(store, bad, asked)
    in_trees = {root for root, _ in needs.roots}
    for digest in bad.keys() - in_trees:
        for session, seq in named.get(digest, ()):
            needs.add(digest, Place(session, seq, b""))
    for row in mending.named_in_rows(store, bad):
        needs.refs[row.digest] += 1
        length = row.length if row.path else -1
        needs.add(
            row.digest, Place(row.session, row.seq, row.path.encode(), "", row.machine, start=row.start, length=length)
        )
    return needs


def _add_missing(store: Store, bad: dict[bytes, mending.Bad], digests: Iterable[bytes]) -> None:
    for digest in mending.unknown(store, digests):
        if digest not in bad:
            bad[digest] = mending.Bad(digest, 0, "missing", "nothing of it is in the store, and an event names it")


def _find_in_trees(store: Store, bad: dict[bytes, mending.Bad], needs: Needs, copies: dict[bytes, Copy]) -> None:
    """Where in the trees of snapshots the bad objects are; the copies are trees that were damaged."""
    above = needs.above
    paths: dict[bytes, list[tuple[bytes, bytes]]] = {}

    def below(tree: bytes, path: bytes) -> list[tuple[bytes, bytes]]:
        """The bad objects in a folder, each with its path below it."""
        refuse_depth(path)
        if tree in paths:
            return paths[tree]
        found = [(tree, b"")] if tree in bad else []
        paths[tree] = found
        try:
            data = load(tree)
            if data.startswith(GIT_RECORD):
                staged = decode_git_record(data).staged
                found += [(entry.digest, b"staged " + entry.path) for entry in staged if entry.digest in bad]
                return found
            entries_in = decode_tree(data)
        except (Damaged, NotFound, TooLarge):
            return found
        for entry in entries_in:
            if entry.digest not in above:
                continue
            if entry.kind == FOLDER:
                inner = below(entry.digest, path + b"/" + entry.name)
                found += [(digest, entry.name + b"/" + under if under else entry.name) for digest, under in inner]
                continue
            found += [(entry.digest, entry.name)] if entry.digest in bad else []
            if entry.kind == LARGE and (entry.digest not in bad or entry.digest in copies):
                found += [(digest, entry.name) for digest, _ in decode_pieces(load(entry.digest)) if digest in bad]
        return found

    def load(digest: bytes) -> bytes:
        return copies[digest][1] if digest in copies else objects.load(store, digest.hex())

    for root, place in needs.roots:
        for digest, path in below(root, b""):
            needs.add(digest, place._replace(path=path))


def _copies(context: Context, bad: dict[bytes, mending.Bad], needs: Needs) -> dict[bytes, Copy]:
    """Where a sound copy of each bad object is, and its bytes. A tree that comes back shows what is below it."""
    from clew.service.audit.sound_copies import sound_copies

    copies: dict[bytes, Copy] = {}
    while left := bad.keys() - copies.keys():
        _find_in_trees(context.unrestricted, bad, needs, copies)
        more = {digest: (source, data) for digest, source, data in sound_copies(context, {*left}, needs.places)}
        copies |= more
        if not any(_names_in(data) for _, data in more.values()):
            break
    return copies


def _mend(store: Store, copies: dict[bytes, bytes], needs: Needs) -> None:
    """Store sound copies, each after those that it names."""
    named = {digest: _names_in(data) for digest, data in copies.items()}
    while copies:
        ready = [digest for digest in copies if not named[digest] & copies.keys()]
        for digest in ready or [*copies]:
            refs = needs.refs[digest] + count_naming(store, digest)
            mending.mend(store, copies.pop(digest), refs=refs, names=named[digest])


def _names_in(data: bytes) -> set[bytes]:
    """What an object names, if it is a tree, the pieces of a file or a record of git."""
    try:
        if data.startswith(TREE):
            return {entry.digest for entry in decode_tree(data) if entry.digest}
        if data.startswith(GIT_RECORD):
            return {staged.digest for staged in decode_git_record(data).staged if staged.digest}
        return {digest for digest, _ in decode_pieces(data)} if data.startswith(PIECES) else set()
    except Damaged:
        return set()
