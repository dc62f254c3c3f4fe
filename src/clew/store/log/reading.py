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
from clew.store.database.contract import Database, Row
from clew.store.log.decoding import Decoder
from clew.store.log.rows import EVENTS_PAGE, EVERYTHING, position_of, stretches
from clew.store.log.sessions import head_in, lineage
from clew.store.objects.pack_store import PackStores
from clew.store.reach import ReachParameters

# A tail is mostly asked for this much; a page of it is one query.
TAIL_PAGE = 1000


class Reader:
    """Reads the events of one database."""

    def __init__(self, database: Database, pack_stores: PackStores) -> None:
        self._database = database
        self._pack_stores = pack_stores

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
        left = limit
        for part in self._parts(session, after, upto):
            decoder = self._decoder(session.project_key, part.key, part.id)
            for row in self._rows_of_kinds(session, part, kinds, upto):
                if left <= 0:
                    return
                yield decoder.event(row)
                left -= 1

    def tail(self, *, after: int, project: str, limit: int, reach: ReachParameters) -> Iterator[Event]:
        """Events of all sessions in reach after a position, in the order they became visible."""
        after = min(after, EVERYTHING)
        while limit > 0:
            most = min(limit, TAIL_PAGE)
            with self._database.read() as tx:
                if project:
                    answer = tx.run("tail_project", after=after, limit=most, project=project, **reach)
                else:
                    answer = tx.run("tail", after=after, limit=most, **reach)
            for stretch in stretches(answer):
                yield from self._decoder(stretch.project, stretch.key, stretch.session).events(stretch.events)
            if len(answer) < most:
                return
            limit -= len(answer)
            after = position_of(answer[-1])

    def last_position(self) -> int:
        """The position of the newest event that a tail would show."""
        with self._database.read() as tx:
            rows = tx.run("last_position")
            return int(rows[0][0]) if rows else 0

    # Pages ------------------------------------------------------------------------------------------------------------

    def _parts(self, session: Session, after: int, upto: int | None) -> list[Segment]:
        return clip(lineage(self._database, session), after + 1, EVERYTHING if upto is None else upto)

    def _decoder(self, project: int, key: int, session: str) -> Decoder:
        return Decoder(self._database, self._pack_stores, project=project, key=key, session=session)

    def _rows_of_kinds(
        self, session: Session, part: Segment, kinds: Sequence[str], upto: int | None
    ) -> Iterator[Row]:  # fmt: skip
        """The rows of several kinds, in order. Mostly one page of each is all, and one round trip reads them."""
        bounds = {"project": session.project_key, "session": part.key, "first": part.first, "last": part.last}
        with self._database.read() as tx:
            pages = tx.batch([("events_of_kind", {**bounds, "kind": kind, "limit": EVENTS_PAGE}) for kind in kinds])
            is_all = all(len(page) < EVENTS_PAGE for page in pages)
            if not is_all and upto is None:
                # Each kind is paged on its own: without one end for all of them, one kind could be ahead of another.
                part = msgspec.structs.replace(part, last=min(part.last, head_in(tx, session).head))
        if is_all:
            yield from sorted((row for page in pages for row in page), key=_seq)
            return
        streams = [
            self._rows_of_kind(session.project_key, part, kind, page) for kind, page in zip(kinds, pages, strict=True)
        ]
        yield from heapq.merge(*streams, key=_seq)

    def _rows_of_kind(self, project: int, part: Segment, kind: str, page: list[Row]) -> Iterator[Row]:
        """The rows of one kind up to the end of a part; `page` is the first page of them."""
        while page:
            yield from (row for row in page if row[0] <= part.last)
            if len(page) < EVENTS_PAGE or page[-1][0] >= part.last:
                return
            with self._database.read() as tx:
                page = tx.run(
                    "events_of_kind", project=project, session=part.key, first=page[-1][0] + 1, last=part.last,
                    kind=kind, limit=EVENTS_PAGE,
                )  # fmt: skip


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
