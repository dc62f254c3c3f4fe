"""The examination of an audit tree: its checkpoints, then its leaves, then the sessions they are about.

It knows nothing of where they come from, a store or a bundle, and believes nothing but the keys that it is given.
Whatever does not hold is a problem that says where it is and what was found.
"""

from collections.abc import Iterable

import msgspec

from clew.model import merkle
from clew.model.checkpoint import (
    Checkpoint,
    CheckpointLeaf,
    HeadLeaf,
    PublicKey,
    checkpoint_from,
    leaf_from,
    public_key,
)
from clew.model.errors import InvalidInput
from clew.service.audit.signing import check

UNPINNED = (
    "the signatures were checked with the key that is kept beside them, and whoever can change those can change it: "
    "pass the key you wrote down (`clew audit key`) with --key"
)
NOTHING_KEPT = (
    "a log whose end was cut off, or that was put back to an older copy of itself, looks whole from inside: only a "
    "checkpoint that is kept elsewhere shows it (--checkpoint FILE)"
)
NO_CHECKPOINT = "there is no checkpoint yet, so only the chains were checked; make one with `clew audit checkpoint`"


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """Something that does not hold, and where."""

    where: str
    what: str


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit looked at and what it found. `beyond` are events that came after the newest checkpoint."""

    sessions: int
    events: int
    removed: int
    leaves: int
    checkpoints: int
    kept: int
    beyond: int
    problems: list[Flaw]
    notes: list[str]


class Examination:
    """One pass: every `checkpoint`, those `kept_elsewhere`, every `leaf` in order, every `session`, then `finish`."""

    def __init__(self, keys: Iterable[PublicKey]) -> None:
        """Without keys, those beside the checkpoints have to do, and a note says so."""
        self._keys = list(keys)
        self._pinned = bool(self._keys)
        self.flaws: list[Flaw] = []
        self._roots: dict[int, list[tuple[str, bytes]]] = {}
        self._sizes: dict[int, int] = {}
        self._origin: str | None = None
        self._edge = merkle.Edge()
        self._is_whole = True
        self._reached = 0
        self._newest: dict[str, HeadLeaf] = {}
        self._blamed: set[str] = set()
        self._kept: list[int | None] = []
        self.beyond = 0

    def report(self, where: str, what: str) -> None:
        self.flaws.append(Flaw(where=where, what=what))

    # Checkpoints ------------------------------------------------------------------------------------------------------

    def checkpoint(self, number: object, size: object, note: object, signer: object) -> None:
        where = f"checkpoint {number}"
        if not (
            isinstance(number, int) and isinstance(size, int) and isinstance(note, str) and isinstance(signer, str)
        ):
            self.report(where, "a value of it has a wrong type: it was changed or damaged")
            return
        if number in self._sizes:
            self.report(where, "it is there twice")
        self._sizes[number] = size
        try:
            own = public_key(signer)
            if not self._pinned and own not in self._keys:
                self._keys.append(own)
            if self._keys != [own]:  # Else it is checked below.
                check(note, [own])
        except InvalidInput as error:
            self.report(where, f"it is not signed by the key that stands beside it: {error}")
        found = self._signed(where, note)
        if found is not None and found.size != size:
            self.report(where, f"its row says {size} leaves, and what was signed says {found.size}")

    def kept_elsewhere(self, note: str) -> None:
        """Take a checkpoint that was kept where nobody could change it together with the log."""
        found = self._signed(f"kept checkpoint {len(self._kept) + 1}", note)
        self._kept.append(None if found is None else found.size)

    def _signed(self, where: str, note: str) -> Checkpoint | None:
        """What a note says about the tree, if it is signed."""
        try:
            found = checkpoint_from(check(note, self._keys).text)
        except InvalidInput as error:
            self.report(where, str(error))
            return None
        self._origin = self._origin or found.origin
        if found.origin != self._origin:
            self.report(where, f"it is of the log {found.origin}, and the others are of {self._origin}")
        self._roots.setdefault(found.size, []).append((where, found.root))
        return found

    # Leaves -----------------------------------------------------------------------------------------------------------

    def leaf(self, number: object, session: object, statement: object, hashes: object = None) -> HeadLeaf | None:
        """Take the next leaf; returns what it states about a session, for `stood` to be told what is there."""
        where = f"leaf {number}"
        if not (isinstance(number, int) and isinstance(session, str) and isinstance(statement, str)):
            self.report(where, "a value of it has a wrong type: it was changed or damaged")
            self._is_whole = False
            return None
        completed = self._grow(number, merkle.leaf_hash(statement.encode()))
        if hashes is not None and completed is not None and hashes != completed:
            self.report(where, "the hashes kept with it are not those of the tree")
        try:
            leaf = leaf_from(statement)
        except InvalidInput as error:
            self.report(where, str(error))
            return None
        if session != (leaf.session if isinstance(leaf, HeadLeaf) else ""):
            self.report(where, f"it stands under session {session!r}, and is not about that")
        if isinstance(leaf, CheckpointLeaf):
            self._mark(number, leaf)
            return None
        before = self._newest.get(leaf.session)
        if before is not None and before.seq >= leaf.seq:
            self.report(where, f"it states seq {leaf.seq} of session {leaf.session} after seq {before.seq}")
        self._newest[leaf.session] = leaf
        return leaf

    def _grow(self, number: int, leaf: bytes) -> bytes | None:
        if not self._is_whole:
            return None
        if number != self._edge.size:
            self.report(f"leaf {self._edge.size}", f"missing: the next leaf stored is {number}")
            self._is_whole = False
            return None
        completed = self._edge.add(leaf)
        for where, root in self._roots.get(self._edge.size, ()):
            if self._edge.root() != root:
                self.report(
                    where,
                    f"the first {self._edge.size} leaves do not have its root: one of them was changed, removed or "
                    "inserted",
                )
        return completed

    def _mark(self, number: int, leaf: CheckpointLeaf) -> None:
        if self._sizes.get(leaf.number) != number + 1:
            self.report(f"checkpoint {leaf.number}", f"leaf {number} says that it was made, and it is not there")
        if leaf.position < self._reached:
            self.report(f"leaf {number}", f"it reaches back to position {leaf.position} from {self._reached}")
        self._reached = leaf.position

    def stood(self, number: int, leaf: HeadLeaf, digest: bytes | None) -> None:
        """Compare a statement with the digest of the event it is about; None when there is no such event."""
        if leaf.session in self._blamed:
            return
        where = f"session {leaf.session} seq {leaf.seq}"
        if digest is None:
            self.report(where, f"leaf {number} states it, and it is gone")
        elif digest.hex() != leaf.digest:
            self.report(where, f"its digest is not the one in leaf {number}: what happened up to it was rewritten")
        else:
            return
        self._blamed.add(leaf.session)

    # Sessions ---------------------------------------------------------------------------------------------------------

    def covered(self, session: str) -> int:
        """The last seq of a session that is in the tree; 0 when none is."""
        leaf = self._newest.get(session)
        return leaf.seq if leaf else 0

    def session(
        self, id: str, *, project: object, opened_at: object, control: object, head: int, own: int, position: int | None
    ) -> None:
        """Compare a session with the tree. `own` is the seq before its first event, `position` the lowest position of
        its events that are not in the tree."""
        where = f"session {id}"
        leaf = self._newest.get(id)
        if leaf is not None:
            for what, found, stated in (
                ("project", project, leaf.project), ("time of opening", opened_at, leaf.opened_at),
                ("place among the control logs", control, int(leaf.control)),
            ):  # fmt: skip
                if found != stated:
                    self.report(where, f"its {what} is {found!r}, and the tree says {stated!r}")
            if head < leaf.seq and id not in self._blamed:
                self.report(where, f"it ends at seq {head}, and the tree has it at {leaf.seq}")
        covered = max(self.covered(id), own)
        self.beyond += max(0, head - covered)
        if position is not None and position <= self._reached:
            self.report(
                f"{where} seq {covered + 1}",
                f"it is at position {position}, and every event up to {self._reached} is in the tree but this: it was "
                "inserted later",
            )

    def finish(self) -> list[str]:
        """Compare the ends; returns what should be known about the examination itself."""
        for size in self._roots:
            if self._is_whole and size > self._edge.size:
                for where, _ in self._roots[size]:
                    self.report(
                        where,
                        f"it covers {size} leaves, and only {self._edge.size} are there: the end was cut off, or an "
                        "older copy was put in place",
                    )
        for number, kept in enumerate(self._kept, 1):
            if kept is not None and kept not in self._sizes.values():
                self.report(f"kept checkpoint {number}", f"it covers {kept} leaves, and no stored checkpoint does")
        notes = [] if self._sizes or self._kept else [NO_CHECKPOINT]
        if self._sizes and not self._pinned:
            notes.append(UNPINNED)
        if not self._kept:
            notes.append(NOTHING_KEPT)
        return notes

    @property
    def leaves(self) -> int:
        return self._edge.size

    @property
    def checkpoints(self) -> int:
        return len(self._sizes)

    @property
    def kept(self) -> int:
        return len(self._kept)
