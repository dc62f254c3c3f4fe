"""Briefs: what the next worker needs to continue a session."""

import msgspec

from clew.model import knowledge
from clew.model.access import Right
from clew.model.brief import brief as brief_of
from clew.model.conversation import conversation
from clew.model.events import CallMade, MessageAdded, RuntimeAttached, TextPart
from clew.model.session import Session
from clew.model.working_set import working_set
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """A brief, and where the session was at work."""

    session: str
    cwd: str
    text: str


@operation(right=Right.READ, route="GET /sessions/{session}/brief")
def brief(context: Context, session: Session) -> Brief:
    """Print the brief of a session: its goal, what was decided and learned, what is done and what is next."""
    events = list(context.store.read(session))
    attached = [one.body for one in events if isinstance(one.body, RuntimeAttached)]
    said = [one.body for one in conversation(events) if isinstance(one.body, MessageAdded)]
    answers = [text for body in said if body.role == "assistant" and (text := _text(body))]
    text = brief_of(
        session.title,
        knowledge.fold(events),
        working_set(one for one in events if isinstance(one.body, CallMade)),
        last=answers[-1] if answers else "",
    )
    cwd = next((one.cwd for one in reversed(attached) if one.cwd), "")
    return Brief(session=session.id, cwd=cwd, text=f"{text}\nThe whole session: clew show {session.id} --events")


def _text(body: MessageAdded) -> str:
    return "\n".join(part.text for part in body.content if isinstance(part, TextPart))
