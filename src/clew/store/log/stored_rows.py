"""The events of one session as they are stored, for a copy whose chain can be verified."""

from collections.abc import Iterator

from clew.model.session import Session
from clew.store.log.rows import EVENTS_PAGE, EventRow
from clew.store.objects import objects
from clew.store.store import Store


def stored_rows(store: Store, session: Session, *, upto: int) -> Iterator[EventRow]:
    """The events that the session itself wrote, in order, up to one of them."""
    after = session.upto
    while after < upto:
        with store.database.read() as tx:
            rows = tx.run(
                "events", project=session.project_key, session=session.key, first=after + 1, last=upto,
                limit=EVENTS_PAGE,
            )  # fmt: skip
        for row in rows:
            yield EventRow(*row)
        if len(rows) < EVENTS_PAGE:
            return
        after = rows[-1][0]


def body_of(store: Store, row: EventRow) -> str | None:
    """The text of a body, wherever it is stored; None for one that was removed."""
    if row.body is None and row.blob is not None:
        return objects.load(store, bytes(row.blob).hex()).decode()
    return row.body
