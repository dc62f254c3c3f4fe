"""Stored rows become events: bodies from their row or their blob, removed and damaged ones by a stand-in."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from clew.model import codec
from clew.model.errors import Damaged, NotFound
from clew.model.events import AnyBody, Event, Removed
from clew.store.database.contract import Database, Row
from clew.store.log.prepare import OWN_MARK
from clew.store.log.rows import EventRow
from clew.store.objects.pack_store import PackStores

if TYPE_CHECKING:
    from clew.store.store import Store

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError, TypeError)


class Decoder:
    """Makes events of the rows of one session."""

    __slots__ = ("_database", "_pack_stores", "key", "project", "session")

    def __init__(self, database: Database, pack_stores: PackStores, *, project: int, key: int, session: str) -> None:
        self._database = database
        self._pack_stores = pack_stores
        self.project = project
        self.key = key
        self.session = session

    def events(self, rows: Iterable[Row]) -> Iterator[Event]:
        """The events of some rows; Damaged when a body cannot be read."""
        session, decoder_of = self.session, codec.DECODERS.get
        for row in rows:
            seq, position, at, said_at, actor, source, digest, kind, version, body, _, _ = row
            decode = decoder_of((kind, version))
            if body is None or decode is None:
                yield self._rare(EventRow(*row))
                continue
            try:
                value = decode(body)
            except UNREADABLE as error:
                raise self._unreadable(seq, error) from error
            if source is not None and source.startswith(OWN_MARK):
                source = None
            yield Event(session, seq, position, at, said_at, actor, source, digest, value)

    def event(self, row: Row) -> Event:
        """The event of a row; Damaged when its body cannot be read."""
        [event] = self.events((row,))
        return event

    def _rare(self, row: EventRow) -> Event:
        """An event without a body in its row, or of a kind that this program has no decoder for."""
        source = None if row.source is not None and row.source.startswith(OWN_MARK) else row.source
        if row.body is None and row.blob is not None:
            return self._from_blob(row, source)
        value: AnyBody
        try:
            if row.body is not None:
                value = codec.decode(row.kind, row.version, row.body)
            else:
                value = Removed(kind=row.kind, how="erased" if row.kind == "erased" else "pruned", version=row.version)
        except UNREADABLE as error:
            raise self._unreadable(row.seq, error) from error
        return self._event(row, source, value)

    def events_or_stand_ins(self, rows: Sequence[Row]) -> Iterator[Event]:
        """The events of some rows, with a stand-in for each damaged one."""
        done = 0
        while done < len(rows):
            try:
                for event in self.events(rows[done:]):
                    done += 1
                    yield event
            except Damaged:
                yield self.event_or_stand_in(rows[done])
                done += 1

    def event_or_stand_in(self, row: Row) -> Event:
        """The event of a row; a stand-in when its body is damaged, so that the others are found."""
        try:
            return self.event(row)
        except Damaged as error:
            if "place" in error.details:
                raise  # Not one event, but the whole database.
            damaged = EventRow(*row)
            value = Removed(kind=damaged.kind, how="damaged", version=damaged.version)
            return self._event(damaged, damaged.source, value)

    def _from_blob(self, row: EventRow, source: str | None) -> Event:
        from clew.store.objects.objects import load_in  # Loads BLAKE3 and zstandard, which few events need.

        digest = bytes(row.blob or b"")
        try:
            with self._pack_stores.database.read() as tx:
                data = load_in(tx, self._pack_stores, digest)
            return self._event(row, source, codec.decode(row.kind, row.version, data.decode()))
        except UNREADABLE as error:
            raise self._unreadable(row.seq, error) from error
        except NotFound:
            # The body was pruned after its row was read: read the row as it is now.
            return self._again(row, digest)

    def _again(self, row: EventRow, gone: bytes) -> Event:
        with self._database.read() as tx:
            rows = tx.run(
                "events", project=self.project, session=self.key, first=row.seq, last=row.seq, limit=1
            )  # fmt: skip
        now = EventRow(*rows[0]) if rows else row
        if now.blob is not None and bytes(now.blob) == gone:
            raise Damaged(
                f"blob {gone.hex()}, the body of event {row.seq} of session {self.session}, is missing; restore it "
                "from a backup",
                session=self.session,
                seq=row.seq,
            )
        return self.event(now)

    def _event(self, row: EventRow, source: str | None, body: AnyBody) -> Event:
        return Event(
            self.session, row.seq, row.position, row.at, row.said_at, row.actor, source, row.digest, body
        )  # fmt: skip

    def _unreadable(self, seq: int, error: BaseException) -> Damaged:
        return Damaged(
            f"event {seq} of session {self.session} cannot be read ({error}): it is damaged; the events after {seq} "
            "can be read by themselves",
            session=self.session,
            seq=seq,
        )


def decoder_of(store: "Store", *, project: int, key: int, session: str) -> Decoder:
    return Decoder(store.database, store.pack_stores, project=project, key=key, session=session)
