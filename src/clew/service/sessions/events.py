"""Turns: append what happened, read it back, follow it live."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from clew.model import codec
from clew.model.access import Right
from clew.model.errors import InvalidInput, TooLarge
from clew.model.events import Draft, Event
from clew.model.session import SPENDING, Session
from clew.model.steps import end_step
from clew.service.find.filters import project_keys
from clew.service.kernel.context import Context
from clew.service.kernel.effects import permit_objects
from clew.service.kernel.registry import operation
from clew.service.privacy.mask_on_write import masked_if_required
from clew.service.sessions.history import text_bytes
from clew.store.log.plan import Appended, Request

# The texts of the events in one answer of a server.
MOST_ANSWER_BYTES = 16 * 1024 * 1024
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


def prepare_append(
    context: Context, session: Session, *, drafts: list[Any], expect: int | None, lease: int | None
) -> Request:
    """The request of an append, ready to be committed."""
    accepted = masked_if_required(context, session.project, [_draft(value) for value in drafts])
    permit_objects(context, session, [draft.body for draft in accepted])
    request = context.store.prepare(session, accepted, actor=context.principal, expect=expect, lease=lease)
    if any(isinstance(draft.body, SPENDING) and draft.body.usage is not None for draft in accepted):
        from clew.service.sessions.budget import unmetered  # Most appends use nothing, and need no views.

        request.unmetered = unmetered(context, session, context.store.head(session), accepted)
    return request


@operation(
    right=Right.APPEND, route="POST /sessions/{session}/events", prepare=prepare_append, if_match="expect",
    drafts="drafts",
)  # fmt: skip
def append(
    context: Context, session: Session, *, drafts: list[Any], expect: Seq | None = None, lease: int | None = None
) -> Appended:
    """Append drafts to a session, all or none; returns once they are durable."""
    request = prepare_append(context, session, drafts=drafts, expect=expect, lease=lease)
    if not request.drafts:
        return Appended(seqs=[], deduplicated=[], head=context.store.head(session).head)
    context.store.commit([request])
    return request.outcome()


@operation(right=Right.READ, route="GET /sessions/{session}/events", hidden=True)
def events(
    context: Context, session: Session, *, after: Seq = 0, upto: Seq | None = None, limit: Limit = 100_000
) -> list[Event]:
    """Read a session's events in order, through all its ancestors."""
    return within_an_answer(context, context.store.read(session, after=after, upto=upto, limit=limit))


@operation(right=Right.READ, route="GET /events", filters_by_reach=True)
def tail(context: Context, *, after: Seq = 0, project: str = "", limit: Limit = 1000) -> list[Event]:
    """Read the events of all sessions in the order they became visible."""
    if project:
        project_keys(context, project, Right.READ)
    reach = context.reach(Right.READ)
    return within_an_answer(context, context.store.tail(after=after, project=project, limit=limit, reach=reach))


def within_an_answer(context: Context, events: Iterable[Event]) -> list[Event]:
    """The events of one answer. A server refuses more than fit its memory; a caller that has gone gets none."""
    if not context.answers_leave_machine:
        return list(events)
    answer: list[Event] = []
    size = 0
    for event in events:
        end_step()
        size += text_bytes(event.body)
        if answer and size > MOST_ANSWER_BYTES:
            raise TooLarge(
                f"these events are larger than {MOST_ANSWER_BYTES:,} bytes; ask for {len(answer)} or fewer at once, "
                "and go on after the last one",
                limit=len(answer),
            )
        answer.append(event)
    return answer


def _draft(value: Any) -> Draft:
    if not isinstance(value, Draft | str | bytes | Mapping):
        raise InvalidInput(f"a draft is a JSON object, not {type(value).__name__}")
    found = value if isinstance(value, Draft) else codec.draft(value)
    if found.body.reserved:
        raise InvalidInput(codec.reserved(found.body.kind))
    return found
