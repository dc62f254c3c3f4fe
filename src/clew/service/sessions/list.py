"""The list of sessions, those with the latest activity first."""

from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import NotFound
from clew.model.session import Session
from clew.service.find import filters
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.line import SessionLine, session_lines
from clew.store.derived import Transaction
from clew.store.log.rows import EVERYTHING
from clew.views.contract import storable
from clew.views.sessions import session_row


@operation(right=Right.SEE, route="GET /sessions", filters_by_reach=True, reads_views=True)
def sessions(
    context: Context,
    *,
    project: filters.Project = "",
    agent: filters.Agent = "",
    person: filters.Person = "",
    runtime: filters.Runtime = "",
    machine: filters.Machine = "",
    state: filters.State = None,
    folder: Annotated[str, msgspec.Meta(description="Only sessions that worked in this folder or below it.")] = "",
    file: filters.File = "",
    failed: Annotated[bool, msgspec.Meta(description="Only sessions with calls that failed.")] = False,
    when: filters.When = "",
    since: filters.Since = "",
    until: filters.Until = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")] = 50,
    before: Session | None = None,
) -> list[SessionLine]:
    """List sessions, those with the latest activity first."""
    period = filters.times(when, since, until)
    context.views.catch_up()
    wanted: dict[str, Any] = {
        "project": filters.project_key(context, project) if project else None, "agent": storable(agent) or None,
        "person": storable(filters.principal(person)) if person else None,
        "runtime": filters.runtime_name(context, runtime) or None, "machine": storable(machine) or None,
        "since": period.start, "until": period.end, **filters.with_status(context, state),
        "failed": 1 if failed else None, **_below(folder),
    }  # fmt: skip
    given = {name: value for name, value in wanted.items() if value is not None} | dict(context.reach(Right.SEE))
    touching = filters.touching(context, file, Right.SEE) if file else None
    with context.views.read() as tx:
        at, key = _place_of(tx, before) if before else (EVERYTHING, EVERYTHING)
        if touching is not None:
            given["keys"] = msgspec.json.encode(sorted(touching)).decode()
        rows = [session_row(row) for row in tx.run("sessions_page", before_at=at, before=key, limit=limit, **given)]
    return session_lines(context, rows)


def _below(folder: str) -> dict[str, str]:
    """A folder, and the bounds of the paths below it."""
    path = storable(folder.rstrip("/") or folder)
    # The character after the slash ends the range of paths that begin with the folder and a slash.
    return {"folder": path, "below": path.rstrip("/") + "/", "beyond": path.rstrip("/") + "0"} if path else {}


def _place_of(tx: Transaction, session: Session) -> tuple[int, int]:
    """Where a session is in the list: the time of its last activity, and its key."""
    rows = tx.run("sessions_row", session=session.key)
    if not rows:
        raise NotFound(f"session {session.id} is in no list any more; begin again without --before")
    row = session_row(rows[0])
    return row.last_at, row.session
