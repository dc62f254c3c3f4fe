"""Reading: the events of a session through all its ancestors, or of all sessions in the order they became visible.

Everything here is an iterator that reads a page at a time, so that no caller holds a whole session. Pages have no gap
and no duplicate between them: seqs and positions are given out once, become visible in their order and never change,
and each page begins right behind the last row of the one before.
"""

import heapq
from collections.abc import Iterator, Sequence

from clew.model.events import Event
from clew.model.lineage import Segment, clip
from clew.model.session import Session
from clew.store.database.contract import Blobs, Database, Row
from clew.store.log.decoding import Decoder
from clew.store.log.rows import EVENTS_PAGE, EVERYTHING, tail_row_from
from clew.store.log.sessions import head_in, lineage
from clew.store.reach import ReachParameters


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
            for rows in pages(self._database, session.project_key, part, left):
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

    def tail(self, *, after: int, project: str, limit: int, reach: ReachParameters) -> Iterator[Event]:
        """Events of all sessions in reach after a position, in the order they became visible."""
        after = min(after, EVERYTHING)
        while limit > 0:
            most = min(limit, EVENTS_PAGE)
            with self._database.read() as tx:
                if project:
                    answer = tx.run("tail_project", after=after, limit=most, project=project, **reach)
                else:
                    answer = tx.run("tail", after=after, limit=most, **reach)
            rows = [tail_row_from(row) for row in answer]
            for row in rows:
                yield self._decoder(row.project, row.key, row.session).event(row.event)
            if len(rows) < most:
                return
            limit -= len(rows)
            after = rows[-1].position

    def last_position(self) -> int:
        """The position of the newest event that a tail would show."""
        with self._database.read() as tx:
            rows = tx.run("last_position")
            return int(rows[0][0]) if rows else 0

    # Pages ------------------------------------------------------------------------------------------------------------

    def _parts(self, session: Session, after: int, upto: int | None) -> list[Segment]:
        return clip(lineage(self._database, session), after + 1, EVERYTHING if upto is None else upto)

    def _decoder(self, project: int, key: int, session: str) -> Decoder:
        return Decoder(self._database, self._blobs, project=project, key=key, session=session)

    def _rows_of_kind(self, project: int, part: Segment, kind: str, limit: int) -> Iterator[Row]:
        first = part.first
        while limit > 0:
            most = min(limit, EVENTS_PAGE)
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


def pages(database: Database, project: int, part: Segment, limit: int) -> Iterator[list[Row]]:
    """The rows of a part of a session, a page at a time.

    What is appended while a long session is read is not part of it: the reader would never end.
    """
    first, last = part.first, part.last
    while limit > 0:
        most = min(limit, EVENTS_PAGE)
        with database.read() as tx:
            rows = tx.run("events", project=project, session=part.key, first=first, last=last, limit=most)
            if last == EVERYTHING and len(rows) == most < limit:
                [(_, last, *_)] = tx.run("head_read", project=project, session=part.key)
        yield rows
        if len(rows) < most:
            return
        limit -= len(rows)
        first = rows[-1][0] + 1


def _seq(row: Row) -> int:
    seq: int = row[0]
    return seq
