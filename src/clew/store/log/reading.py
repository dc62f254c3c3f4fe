"""Reading: the events of a session through all its ancestors, or of all sessions in the order they became visible.

Everything here is an iterator that reads a page at a time, so that no caller holds a whole session. Pages have no gap
and no duplicate between them: seqs and positions are given out once, become visible in their order and never change,
and each page begins right behind the last row of the one before.
"""

import heapq
from collections.abc import Iterator, Sequence

import msgspec

from clew.model.events import Event
from clew.model.lineage import Segment, clip
from clew.model.session import Session
from clew.store.database.contract import Blobs, Database, Parameters, Row
from clew.store.log.decoding import Decoder
from clew.store.log.rows import EVERYTHING, PAGE, session_from
from clew.store.log.sessions import head_in, lineage


class Reader:
    """Reads the events of one database."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs

    def read(self, session: Session, *, after: int, upto: int | None, limit: int) -> Iterator[Event]:
        """The events after one seq, up to and including another, through all ancestors, oldest first."""
        left = limit
        for part in self._parts(session, after, upto):
            decoder = self._decoder(session.project_key, part.key, part.id)
            for rows in self._pages(session.project_key, part, left, is_open=upto is None):
                yield from decoder.events(rows)
                left -= len(rows)
            if left <= 0:
                return

    def read_kinds(
        self, session: Session, kinds: Sequence[str], *, after: int, upto: int | None, limit: int
    ) -> Iterator[Event]:
        """Only the events of these kinds, in order."""
        if upto is None:
            # Each kind is read by itself: without an end that holds for all, one could be ahead of another.
            with self._database.read() as tx:
                upto = head_in(tx, session).head
        left = limit
        for part in self._parts(session, after, upto):
            decoder = self._decoder(session.project_key, part.key, part.id)
            pages = [self._rows_of_kind(session.project_key, part, kind, left) for kind in kinds]
            for row in heapq.merge(*pages, key=_seq):
                if left <= 0:
                    return
                yield decoder.event(row)
                left -= 1

    def own_events(self, session: Session, *, after: int, upto: int) -> Iterator[Event]:
        """What a session itself wrote after one event, up to and including another; damaged ones as stand-ins."""
        decoder = self._decoder(session.project_key, session.key, session.id)
        own = Segment(session.key, session.id, after + 1, upto)
        for rows in self._pages(session.project_key, own, EVERYTHING, is_open=False):
            for row in rows:
                yield decoder.event_or_stand_in(row)

    def tail(self, *, after: int, project: str, limit: int, reach: Parameters) -> Iterator[Event]:
        """Events of all sessions in reach after a position, in the order they became visible."""
        after = min(after, EVERYTHING)
        while limit > 0:
            with self._database.read() as tx:
                most = min(limit, PAGE)
                rows = (
                    tx.run("tail_project", after=after, limit=most, project=project, **reach)
                    if project
                    else tx.run("tail", after=after, limit=most, **reach)
                )
            for row in rows:
                yield self._decoder(*row[12:]).event(row[:12])
            if len(rows) < most:
                return
            limit -= len(rows)
            after = rows[-1][1]

    def entries(self, *, after: int, limit: int) -> Iterator[tuple[Session, Event]]:
        """What a tail shows, each event with its session and a stand-in for each damaged one."""
        while limit > 0:
            with self._database.read() as tx:
                most = min(limit, PAGE)
                rows = tx.run("tail", after=after, limit=most)
                keys = msgspec.json.encode(sorted({row[13] for row in rows})).decode()
                sessions = {row[1]: session_from(row) for row in tx.run("sessions_by_key", keys=keys)}
            for row in rows:
                yield sessions[row[13]], self._decoder(*row[12:]).event_or_stand_in(row[:12])
            if len(rows) < most:
                return
            limit -= len(rows)
            after = rows[-1][1]

    def own_sources(self, session: Session, *, before: int) -> list[tuple[str, str]]:
        """The kinds and sources of the events that a session itself wrote before one."""
        with self._database.read() as tx:
            rows = tx.run("own_sources", project=session.project_key, session=session.key, before=before)
        return [(kind, source) for kind, source in rows]

    def last_position(self) -> int:
        """The position of the newest event that a tail would show."""
        with self._database.read() as tx:
            rows = tx.run("last_position")
            return int(rows[0][0]) if rows else 0

    def end_position(self) -> int:
        """The last position given out: what a reader of the whole log has come to when it has seen all."""
        with self._database.read() as tx:
            return int(tx.run("end_position")[0][0])

    # Pages ------------------------------------------------------------------------------------------------------------

    def _parts(self, session: Session, after: int, upto: int | None) -> list[Segment]:
        return clip(lineage(self._database, session), after + 1, EVERYTHING if upto is None else upto)

    def _decoder(self, project: int, key: int, session: str) -> Decoder:
        return Decoder(self._database, self._blobs, project=project, key=key, session=session)

    def _pages(self, project: int, part: Segment, limit: int, *, is_open: bool) -> Iterator[list[Row]]:
        first, last = part.first, part.last
        while limit > 0:
            most = min(limit, PAGE)
            with self._database.read() as tx:
                rows = tx.run("events", project=project, session=part.key, first=first, last=last, limit=most)
                if is_open and len(rows) == most < limit:
                    # What is appended while a long session is read is not part of it: the reader would never end.
                    [(_, head, *_)] = tx.run("head_read", project=project, session=part.key)
                    last, is_open = min(last, head), False
            yield rows
            if len(rows) < most:
                return
            limit -= len(rows)
            first = rows[-1][0] + 1

    def _rows_of_kind(self, project: int, part: Segment, kind: str, limit: int) -> Iterator[Row]:
        first = part.first
        while limit > 0:
            most = min(limit, PAGE)
            with self._database.read() as tx:
                rows = tx.run(
                    "events_of_kind", project=project, session=part.key, first=first, last=part.last, kind=kind,
                    limit=most,
                )  # fmt: skip
            yield from rows
            if len(rows) < most:
                return
            limit -= len(rows)
            first = rows[-1][0] + 1


def _seq(row: Row) -> int:
    seq: int = row[0]
    return seq
