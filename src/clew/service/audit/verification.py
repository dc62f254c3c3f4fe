"""Verify an audit tree: its checkpoints, then its leaves, then the sessions that the leaves describe.

The input comes from a store or a bundle; this module does not know which. It trusts only the keys that it is given.
Every failed check is reported as a problem: where it is and what was found.
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
    note_from,
    public_key,
)
from clew.model.errors import InvalidInput
from clew.service.audit.signing import check, check_cosignature

UNPINNED = (
    "the signatures were checked with the key that is stored beside them, and whoever can change them can change the "
    "key: pass the key you wrote down (`clew audit key`) with --key"
)
NOTHING_KEPT = (
    "a log whose end was removed, or that was replaced by an older copy of itself, still verifies: only a checkpoint "
    "that is kept elsewhere (--checkpoint FILE), or a witness (`clew audit witness add`), shows it"
)
NO_CHECKPOINT = "there is no checkpoint yet, so only the chains were checked; make one with `clew audit checkpoint`"


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """A failed check: where, and what is wrong."""

    where: str
    what: str


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit checked, and the problems. `beyond` is the number of events after the newest checkpoint,
    `countersigned` that of the checkpoints with the signature of a witness."""

    sessions: int
    events: int
    removed: int
    leaves: int
    checkpoints: int
    kept: int
    beyond: int
    problems: list[Flaw]
    notes: list[str]
    countersigned: int = 0


class Verification:
    """One pass. Call `checkpoint` and `kept_elsewhere`, then `leaf` in order, then `session`, then `finish`."""

    def __init__(self, keys: Iterable[PublicKey], witnesses: Iterable[PublicKey] = ()) -> None:
        """Without keys, the keys stored beside the checkpoints are used, and a note says so."""
        self._keys = list(keys)
        self._countersigned = dict.fromkeys(witnesses, 0)
        self.countersigned = 0
        self._pinned = bool(self._keys)
        self.flaws: list[Flaw] = []
        self._roots: dict[int, list[tuple[str, bytes]]] = {}
        self._sizes: dict[int, int] = {}
        self._origin: str | None = None
        self._frontier = merkle.Edge()
        self._is_whole = True
        self._reached = 0
        self._newest: dict[str, HeadLeaf] = {}
        self._reported_sessions: set[str] = set()
        self._kept: dict[str, int | None] = {}
        self.beyond = 0

    def report(self, where: str, what: str) -> None:
        self.flaws.append(Flaw(where=where, what=what))

    # Checkpoints ------------------------------------------------------------------------------------------------------

    def checkpoint(self, number: object, size: object, note: object, signer: object) -> None:
        where = f"checkpoint {number}"
        if not (
            isinstance(number, int) and isinstance(size, int) and isinstance(note, str) and isinstance(signer, str)
        ):
            self.report(where, "one of its values has a wrong type: it was changed or damaged")
            return
        if number in self._sizes:
            self.report(where, "it is there twice")
        self._sizes[number] = size
        try:
            own = public_key(signer)
            if not self._pinned and own not in self._keys:
                self._keys.append(own)
            if self._keys != [own]:  # With this key alone, `_signed` below makes the same check.
                check(note, [own])
        except InvalidInput as error:
            self.report(where, f"it is not signed by the key stored beside it: {error}")
        signed = self._signed(where, note)
        if signed is not None:
            self._count_witnesses(where, note)
        if signed is not None and signed.size != size:
            self.report(where, f"its row says {size} leaves, and the signed note says {signed.size}")

    def kept_elsewhere(self, note: str, where: str = "") -> None:
        """Add a checkpoint that was kept where nobody could change it together with the log."""
        where = where or f"kept checkpoint {len(self._kept) + 1}"
        signed = self._signed(where, note)
        self._kept[where] = None if signed is None else signed.size

    def _count_witnesses(self, where: str, written: str) -> None:
        """Check the signatures of the given witnesses under a checkpoint."""
        note, count = note_from(written), 0
        for witness in self._countersigned:
            try:
                is_countersigned = check_cosignature(note, witness) is not None
            except InvalidInput as error:
                self.report(where, str(error))
                continue
            self._countersigned[witness] += is_countersigned
            count += is_countersigned
        self.countersigned += count > 0

    def _signed(self, where: str, note: str) -> Checkpoint | None:
        """The checkpoint in a note; None when no trusted key signed it."""
        try:
            signed = checkpoint_from(check(note, self._keys).text)
        except InvalidInput as error:
            self.report(where, str(error))
            return None
        self._origin = self._origin or signed.origin
        if signed.origin != self._origin:
            self.report(where, f"it is of the log {signed.origin}, and the others are of {self._origin}")
        self._roots.setdefault(signed.size, []).append((where, signed.root))
        return signed

    # Leaves -----------------------------------------------------------------------------------------------------------

    def leaf(self, number: object, session: object, statement: object, hashes: object = None) -> HeadLeaf | None:
        """Check the next leaf; returns its statement about a session, which the caller passes to `compare_digest`."""
        where = f"leaf {number}"
        if not (isinstance(number, int) and isinstance(session, str) and isinstance(statement, str)):
            self.report(where, "one of its values has a wrong type: it was changed or damaged")
            self._is_whole = False
            return None
        completed = self._grow(number, merkle.leaf_hash(statement.encode()))
        if hashes is not None and completed is not None and hashes != completed:
            self.report(where, "the hashes stored with it are not those of the tree")
        try:
            leaf = leaf_from(statement)
        except InvalidInput as error:
            self.report(where, str(error))
            return None
        if session != (leaf.session if isinstance(leaf, HeadLeaf) else ""):
            self.report(where, f"it is stored under session {session!r}, but is not about that session")
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
        if number != self._frontier.size:
            self.report(f"leaf {self._frontier.size}", f"missing: the next leaf stored is {number}")
            self._is_whole = False
            return None
        completed = self._frontier.add(leaf)
        for where, root in self._roots.get(self._frontier.size, ()):
            if self._frontier.root() != root:
                self.report(
                    where,
                    f"the first {self._frontier.size} leaves do not have its root: one of them was changed, removed or "
                    "inserted",
                )
        return completed

    def _mark(self, number: int, leaf: CheckpointLeaf) -> None:
        if self._sizes.get(leaf.number) != number + 1:
            self.report(f"checkpoint {leaf.number}", f"leaf {number} says that it was made, but it is missing")
        if leaf.position < self._reached:
            self.report(
                f"leaf {number}",
                f"its position {leaf.position} is lower than {self._reached}, that of the checkpoint before it",
            )
        self._reached = leaf.position

    def compare_digest(self, number: int, leaf: HeadLeaf, digest: bytes | None) -> None:
        """Compare a leaf with the digest of its event; None means that the event is missing."""
        if leaf.session in self._reported_sessions:
            return
        where = f"session {leaf.session} seq {leaf.seq}"
        if digest is None:
            self.report(where, f"leaf {number} states it, but it is missing")
        elif digest.hex() != leaf.digest:
            self.report(where, f"its digest is not the one in leaf {number}: what happened up to it was rewritten")
        else:
            return
        self._reported_sessions.add(leaf.session)

    # Sessions ---------------------------------------------------------------------------------------------------------

    def covered(self, session: str) -> int:
        """The last seq of a session in the tree; 0 when the tree has none."""
        leaf = self._newest.get(session)
        return leaf.seq if leaf else 0

    def session(
        self, id: str, *, project: object, opened_at: object, control: object, head: int, own: int, position: int | None
    ) -> None:
        """Compare a session with the tree. `own` is the seq before its first own event; `position` is the lowest
        position among its events that the tree does not cover."""
        where = f"session {id}"
        leaf = self._newest.get(id)
        if leaf is not None:
            for what, stored, stated in (
                ("project", project, leaf.project), ("time of opening", opened_at, leaf.opened_at),
                ("place among the control logs", control, int(leaf.control)),
            ):  # fmt: skip
                if stored != stated:
                    self.report(where, f"its {what} is {stored!r}, and the tree says {stated!r}")
            if head < leaf.seq and id not in self._reported_sessions:
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
        """Compare the sizes; returns notes on what this verification cannot show."""
        for size in self._roots:
            if self._is_whole and size > self._frontier.size:
                for where, _ in self._roots[size]:
                    self.report(
                        where,
                        f"it covers {size} leaves, and only {self._frontier.size} exist: the end was removed, or an "
                        "older copy was restored",
                    )
        for where, kept_size in self._kept.items():
            if kept_size is not None and kept_size not in self._sizes.values():
                self.report(where, f"it covers {kept_size} leaves, and no stored checkpoint does")
        notes = [] if self._sizes or self._kept else [NO_CHECKPOINT]
        if self._sizes and not self._pinned:
            notes.append(UNPINNED)
        notes += [
            f"the witness {witness.name} countersigned none of these checkpoints"
            for witness, count in self._countersigned.items()
            if not count
        ]
        if not self._kept:
            notes.append(NOTHING_KEPT)
        return notes

    @property
    def leaves(self) -> int:
        return self._frontier.size

    @property
    def checkpoints(self) -> int:
        return len(self._sizes)

    @property
    def kept(self) -> int:
        return len(self._kept)
