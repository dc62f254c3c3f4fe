"""Reads what is known from the view of the knowledge: of one session in one round trip, of all in one query."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from clew.model import codec
from clew.model.events import KINDS, Body, Event
from clew.model.knowledge import Known, Tier, known_by, standing
from clew.model.lineage import clip
from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.privacy.masking import masked_body, masker_of
from clew.store.derived import Row
from clew.store.log.feed import events_at
from clew.store.log.rows import EVERYTHING


class Place(NamedTuple):
    """Where a page of what is known ends: the time, the session's key and the seq of its last entry."""

    at: int
    session: int
    seq: int


NEWEST = Place(2**63 - 1, EVERYTHING, EVERYTHING)


def known_of(context: Context, session: Session, *, upto: int | None = None) -> list[Known]:
    """What a session knows, with all that its ancestors knew when it was forked; oldest first."""
    context.views.catch_up()
    parts = clip(context.store.lineage(session), 1, EVERYTHING if upto is None else upto)
    with context.views.read() as tx:
        answers = tx.batch(
            [("known_of", {"session": part.key, "first": part.first, "last": part.last}) for part in parts]
        )
    steps: dict[tuple[str, int], tuple[str, Row]] = {}
    for part, rows in zip(parts, answers, strict=True):
        for row in rows:
            # A newer step takes the place of an ancestor's.
            steps.pop((row[2], row[3]), None)
            steps[row[2], row[3]] = (part.id, row)
    long = [row[1] for _, row in steps.values() if _is_long(row)]
    read = events_at(context.store, session, long) if long else {}
    seen = _seen(context)
    return standing(seen(_known(id, row, read.get(row[1]))) for id, row in steps.values())


def known_anywhere(
    context: Context, *, match: str, before: Place, filters: Mapping[str, Any], limit: int
) -> list[tuple[Place, Known]]:
    """What the sessions in reach know, newest first, after the place where the page before ended."""
    place = {"at": before.at, "before": before.session, "seq": before.seq, "limit": limit}
    with context.views.read() as tx:
        if match:
            rows = tx.run("known_matching", match=match, **place, **filters)
        else:
            rows = tx.run("known_newest", **place, **filters)
    seen = _seen(context)
    return [(Place(row[6], row[0], row[1]), seen(_known(row[9], row, _long(context, row)))) for row in rows]


def _seen(context: Context) -> Callable[[Known], Known]:
    """The function that gives a known thing as the caller may see it."""
    if not context.masks_answers:
        return lambda known: known
    mask = masker_of(context)

    def seen(known: Known) -> Known:
        body = None if known.body is None else masked_body(mask, known.body)[0]
        return msgspec.structs.replace(known, body=body if isinstance(body, Body) else None)

    return seen


def _is_long(row: Row) -> bool:
    return row[8] is None and not row[5]


def _long(context: Context, row: Row) -> Event | None:
    """The event of a row whose body is in the log alone."""
    if not _is_long(row):
        return None
    [listed] = context.store.sessions(keys=[row[0]])
    return events_at(context.store, listed.session, [row[1]]).get(row[1])


def _known(session: str, row: Row, event: Event | None) -> Known:
    _, seq, tier, name, kind, _, at, who, text = row[:9]
    if event is not None and (known := known_by(event)) is not None:
        return known
    body = None if text is None else codec.decode(kind, KINDS[kind].version, text)
    own_name = next((getattr(body, field) for field in ("fact", "decision", "name") if hasattr(body, field)), "")
    return Known(
        tier=Tier(tier), name=own_name if isinstance(body, Body) else str(name), session=session, seq=seq, at=at,
        who=who, body=body if isinstance(body, Body) else None,
    )  # fmt: skip
