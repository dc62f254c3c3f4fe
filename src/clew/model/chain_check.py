"""Check the digest chain of one session, event by event, from a store or a bundle.

A removed body is accepted only when the log itself says that it was removed: an event `bodies_pruned` names its seq, or
`session_erased` comes after it.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from clew.model import chain
from clew.model.events import BodiesPruned, SessionErased


class ChainedEvent(NamedTuple):
    """The input of the chain. A body is given by its text or its hash; a removed body by its seal."""

    seq: int
    kind: str
    version: int
    at: int
    said_at: int | None
    actor: str
    source: str | None
    digest: bytes
    body: str | None = None
    body_hash: bytes | None = None
    seal: bytes = b""
    lost: str = ""
    """The reason why a body that was not removed cannot be read."""


class ChainCheck:
    """One pass over the events of one session, in order. `report` gets the seq and the problem."""

    def __init__(self, session: str, *, upto: int, previous: bytes | None, report: Callable[[int, str], None]) -> None:
        """`upto` is the seq before the first event, `previous` its digest: None when that is not known."""
        self.seq = upto
        self.events = 0
        self.previous = previous
        """The digest of the last event; None after a gap, where the next link cannot be checked."""
        self._session = session
        self._report = report
        self._pruned: list[int] = []
        self._erased: list[int] = []
        self._pruned_ranges: list[tuple[int, int]] = []
        self._erased_before = 0

    @property
    def removed(self) -> int:
        """How many events have lost their bodies."""
        return len(self._pruned) + len(self._erased)

    def add(self, event: ChainedEvent) -> None:
        """Check the next event against the one before it."""
        self._advance(event.seq)
        header = chain.header_hash(
            self._session, event.seq, event.kind, event.version, event.at, event.said_at, event.actor, event.source
        )
        if event.kind == "erased" and (event.actor, event.source, event.said_at) != ("", None, None):
            self._report(event.seq, "it was erased, but it still has an actor, a source or a time")
        if event.lost:
            self._report(event.seq, event.lost)
            hashed = b""
        elif event.body_hash is not None:
            hashed = event.body_hash
            self._note_removal(event)
        elif event.body is not None:
            hashed = chain.body_hash(event.body.encode())
            self._note_removal(event)
        else:
            header, hashed = self._sealed(event, header)
        if self.previous is not None and chain.link(self.previous, header, hashed) != event.digest:
            self._report(
                event.seq, "its digest does not follow from its content and the event before it: it was changed"
            )
        self.previous = event.digest

    def skip(self, seq: int) -> None:
        """Skip an event that cannot be read; the next link cannot be checked."""
        self._advance(seq)
        self.previous = None

    def finish(self) -> None:
        """Report every body that is missing without a record of its removal."""
        unrecorded = [(seq, "erased") for seq in self._erased if seq >= self._erased_before]
        unrecorded += [
            (seq, "pruned")
            for seq in self._pruned
            if not any(first <= seq <= last for first, last in self._pruned_ranges)
        ]
        for seq, how in unrecorded:
            self._report(seq, f"its body is gone ({how}) and no event of the session records that")

    def _advance(self, seq: int) -> None:
        if seq != self.seq + 1:
            self._report(self.seq + 1, f"missing: the next event stored is {seq}")
            self.previous = None
        self.seq = seq
        self.events += 1

    def _note_removal(self, event: ChainedEvent) -> None:
        if event.kind == SessionErased.kind:
            self._erased_before = event.seq
        elif event.kind == BodiesPruned.kind and event.body is not None:
            try:
                self._pruned_ranges += msgspec.json.decode(event.body, type=BodiesPruned).ranges
            except msgspec.DecodeError as error:
                self._report(event.seq, f"the record of a removal cannot be read: {error}")

    def _sealed(self, event: ChainedEvent, header: bytes) -> tuple[bytes, bytes]:
        """The two hashes that an event without a body left behind."""
        is_erased = event.kind == "erased"
        (self._erased if is_erased else self._pruned).append(event.seq)
        if len(event.seal) != 64:
            self._report(event.seq, "its body is missing and it has no seal")
            return header, b""
        if not is_erased and event.seal[:32] != header:
            self._report(event.seq, "its header was changed after its body was pruned")
        return event.seal[:32], event.seal[32:]
