"""A session's history without its secrets. Each event is masked once; what masking changed is spooled."""

import weakref
from collections import Counter
from os import SEEK_END
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clew.model import codec
from clew.model.events import Event, Removed
from clew.model.session import Session
from clew.service.privacy.masking import masked_body
from clew.service.sessions.history import History
from clew.store import Store

if TYPE_CHECKING:
    from clew.secrets.masking import Masker

# Masked bodies stay in memory up to this size; more go to a temporary file.
IN_MEMORY_BYTES = 4 * 1024 * 1024


class MaskedHistory(History):
    """A history whose events are masked when they are read for the first time."""

    def __init__(
        self, store: Store, session: Session, mask: "Masker", *, upto: int | None = None, reads_damaged: bool = False
    ) -> None:
        super().__init__(store, session, upto=upto, reads_damaged=reads_damaged)
        self.counts = Counter[str]()
        """How many secrets of which rule were found so far."""
        self._mask = mask
        self._masked_upto = 0
        self._changed: dict[int, _Change] = {}
        self._spool = SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115  # as long as the history lives
        weakref.finalize(self, self._spool.close)

    def seen(self, event: Event) -> Event:
        """The event without its secrets."""
        if event.seq <= self._masked_upto:
            return self._changed_before(event)
        if event.seq != self._masked_upto + 1:
            # A skipped event would later pass for one without secrets.
            raise AssertionError(f"event {event.seq} is read before {self._masked_upto + 1} was masked")
        self._masked_upto = event.seq
        if isinstance(event.body, Removed):
            return event
        body, counts = masked_body(self._mask, event.body)
        if body is event.body:
            return event
        self.counts += counts
        self._spool.seek(0, SEEK_END)
        text = codec.encode(body)
        self._changed[event.seq] = _Change(body.kind, body.version, self._spool.tell(), len(text))
        self._spool.write(text)
        return msgspec.structs.replace(event, body=body)

    def _changed_before(self, event: Event) -> Event:
        change = self._changed.get(event.seq)
        if change is None:
            return event
        self._spool.seek(change.start)
        text = self._spool.read(change.length).decode()
        return msgspec.structs.replace(event, body=codec.decode(change.kind, change.version, text))


class _Change(NamedTuple):
    """A masked body: where in the spool its text is."""

    kind: str
    version: int
    start: int
    length: int
