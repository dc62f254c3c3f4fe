"""Subagents: sessions that a call in another one began. Each names the other as their runtime calls it."""

from clew.model.access import Right
from clew.model.errors import NotFound
from clew.model.session import Session
from clew.model.transcript import Subagent
from clew.service.kernel.context import Context
from clew.store.native_files.lookup import files_with_native_id
from clew.views.contract import origin_of, storable

MOST = 1000


def caller(context: Context, session: Session) -> str:
    """The session that a subagent was called in, or its native id when that was not captured or is out of reach."""
    origin = origin_of(session.metadata)
    if not origin.parent:
        return ""
    for file in files_with_native_id(context.store, origin.runtime, origin.parent):
        if file.session == session.id or file.erased:
            continue
        try:
            return context.store.session(file.session, context.reach(None)).id
        except NotFound:
            continue
    return origin.parent


def subagents(context: Context, session: Session) -> list[Subagent]:
    """The subagents that were called in a session and are in reach, in the order in which they were captured."""
    origin = origin_of(session.metadata)
    if not origin.native:
        return []
    context.views.catch_up()
    wanted = {"native": storable(origin.native), "runtime": storable(origin.runtime), "limit": MOST}
    with context.views.read() as tx:
        rows = tx.run("sessions_called_by", **wanted, **context.reach(Right.SEE))
    return [Subagent(**dict(zip(Subagent.__struct_fields__, row, strict=True))) for row in rows if row[0] != session.id]
