"""Which sessions go into a bundle: those that are asked for, and of each ancestor the events that they read of it."""

from collections.abc import Iterable

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput, WrongState
from clew.model.session import Session, State
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context


class Chosen(msgspec.Struct, kw_only=True):
    """A session of a bundle, up to which event, and at which events others of the bundle were forked from it."""

    session: Session
    head: int
    last: int = 0
    forked_at: set[int] = msgspec.field(default_factory=set)


def chosen_sessions(context: Context, ids: Iterable[str]) -> list[Chosen]:
    """The sessions of a bundle, each after the one it was forked from; refused when the caller may not export one."""
    chosen: dict[str, Chosen] = {}
    asked = list(dict.fromkeys(ids))
    for id in asked:
        session = context.store.session(id, context.reach(None))
        head = context.unrestricted.head(session)
        if head.state == State.ERASED:
            if len(asked) == 1:
                raise WrongState(f"session {session.id} was erased; nothing of it is left to export", state="erased")
            continue
        for part in context.unrestricted.lineage(session):
            if part.id not in chosen:
                # A session shows what its ancestors said, so each of them is ruled on.
                writer = context.unrestricted.session(part.id)
                permit(context, Right.EXPORT, writer)
                chosen[part.id] = Chosen(session=writer, head=context.unrestricted.head(writer).head)
            chosen[part.id].last = max(chosen[part.id].last, min(part.last, chosen[part.id].head))
    for member in chosen.values():
        if member.session.parent:
            chosen[member.session.parent].forked_at.add(member.session.upto)
    if not chosen:
        raise InvalidInput("there is no session to export; name one, or filters that select some")
    # A session is always younger than the one it was forked from.
    return sorted(chosen.values(), key=lambda member: member.session.key)
