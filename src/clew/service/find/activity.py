"""The operation `activity`: what each agent, program, person or machine did, and what of it is going on."""

import enum
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.service.find.filters import Project, Since, Until, When, in_project, project_keys, times
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.views.sessions import status_parameters


class Doer(enum.StrEnum):
    AGENT = "agent"
    RUNTIME = "runtime"
    PERSON = "person"
    MACHINE = "machine"


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent, program, person or machine did; `active` and `waiting` are sessions that are going on."""

    name: str
    sessions: int
    active: int
    waiting: int
    turns: int
    calls: int
    errors: int
    last_at: int


@operation(right=Right.SEE, route="GET /activity", filters_by_reach=True, reads_views=True)
def activity(
    context: Context,
    *,
    by: Annotated[Doer, msgspec.Meta(description="Whose activity.")] = Doer.AGENT,
    project: Project = "",
    when: When = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")] = 1000,
) -> list[Activity]:
    """Sum up the sessions, turns, calls and failed calls of each agent, program, person or machine, the latest first.

    Sessions count that had activity in the period, each with all that was done in it.
    """
    period = times(when, since, until)
    context.views.catch_up()
    only: dict[str, Any] = in_project(project_keys(context, project, Right.SEE)) if project else {}
    only |= {name: at for name, at in (("since", period.start), ("until", period.end)) if at is not None}
    going_on = status_parameters("", context.store.now())
    del going_on["status"]
    with context.views.read() as tx:
        rows = tx.run("sessions_summed", by=str(by), limit=limit, **going_on, **only, **context.reach(Right.SEE))
    return [
        Activity(
            name=name, sessions=sessions, turns=int(turns), calls=int(calls), errors=int(errors), last_at=last_at,
            active=int(active), waiting=int(waiting),
        )
        for name, sessions, turns, calls, errors, last_at, active, waiting in rows
    ]  # fmt: skip
