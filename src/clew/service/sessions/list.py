"""The list of sessions, those with the latest activity first, and how many there are."""

import enum
from typing import Annotated, Any, Never

import msgspec

from clew.model.access import Right
from clew.model.errors import NotFound
from clew.model.session import Session
from clew.service.find import filters
from clew.service.find.spending import price_table
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.line import SessionLine, session_lines
from clew.store.derived import Transaction
from clew.store.log.rows import EVERYTHING
from clew.views.contract import storable
from clew.views.prices import Prices
from clew.views.sessions import SessionRow, session_row

Folder = Annotated[str, msgspec.Meta(description="Only sessions that worked in this folder or below it.")]
Failed = Annotated[bool, msgspec.Meta(description="Only sessions with calls that failed.")]
View = Annotated[str, msgspec.Meta(description="A saved view of yours: its filters, where you give none.")]


class Sort(enum.StrEnum):
    """What a list of sessions is sorted by, the largest value first."""

    LAST = "last"
    BEGAN = "began"
    DURATION = "duration"
    TURNS = "turns"
    CALLS = "calls"
    ERRORS = "errors"
    TOKENS = "tokens"
    COST = "cost"


class SessionCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions a list has in all, and how many of them have nothing in them."""

    sessions: int
    empty: int


@operation(
    right=Right.SEE, route="GET /sessions", filters_by_reach=True, reads_views=True, counted_by="sessions_count"
)  # fmt: skip
def sessions(
    context: Context,
    *,
    project: filters.Project = "",
    agent: filters.Agent = "",
    person: filters.Person = "",
    runtime: filters.Runtime = "",
    machine: filters.Machine = "",
    state: filters.State = None,
    folder: Folder = "",
    file: filters.File = "",
    failed: Failed = False,
    tag: filters.Tag = "",
    starred: filters.Starred = False,
    when: filters.When = "",
    since: filters.Since = "",
    until: filters.Until = "",
    quiet_since: filters.QuietSince = "",
    view: View = "",
    empty: Annotated[
        bool, msgspec.Meta(description="Also sessions with nothing in them.", extra={"flag": "all"})
    ] = False,
    sort: Annotated[Sort, msgspec.Meta(description="What comes first: what happened last, what cost the most ...")] = (
        Sort.LAST
    ),
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")] = 50,
    before: Session | None = None,
) -> list[SessionLine]:
    """List sessions, those with the latest activity first."""
    given = _Wanted(
        project=project, agent=agent, person=person, runtime=runtime, machine=machine, state=state, folder=folder,
        file=file, failed=failed, tag=tag, starred=starred, when=when, since=since, until=until,
        quiet_since=quiet_since,
    )  # fmt: skip
    saved = _saved(context, view)
    sort = saved.get("sort", sort) if sort is Sort.LAST else sort
    wanted = given.filled_in(saved).parameters(context)
    wanted |= {} if empty or saved.get("empty") else {"filled": 1}
    with context.views.read() as tx:
        if sort is not Sort.LAST:
            return session_lines(context, _sorted(tx, sort, price_table(context), wanted, before, limit))
        at, key = _place_of(tx, before) if before else (EVERYTHING, EVERYTHING)
        rows = [session_row(row) for row in tx.run("sessions_page", before_at=at, before=key, limit=limit, **wanted)]
    return session_lines(context, rows)


@operation(right=Right.SEE, route="GET /session-count", filters_by_reach=True, reads_views=True, hidden=True)
def sessions_count(
    context: Context,
    *,
    project: filters.Project = "",
    agent: filters.Agent = "",
    person: filters.Person = "",
    runtime: filters.Runtime = "",
    machine: filters.Machine = "",
    state: filters.State = None,
    folder: Folder = "",
    file: filters.File = "",
    failed: Failed = False,
    tag: filters.Tag = "",
    starred: filters.Starred = False,
    when: filters.When = "",
    since: filters.Since = "",
    until: filters.Until = "",
    quiet_since: filters.QuietSince = "",
    view: View = "",
) -> SessionCount:
    """Count the sessions that a list with these filters has in all."""
    given = _Wanted(
        project=project, agent=agent, person=person, runtime=runtime, machine=machine, state=state, folder=folder,
        file=file, failed=failed, tag=tag, starred=starred, when=when, since=since, until=until,
        quiet_since=quiet_since,
    )  # fmt: skip
    wanted = given.filled_in(_saved(context, view)).parameters(context)
    with context.views.read() as tx:
        [(count, empty)] = tx.run("sessions_count", **wanted)
    return SessionCount(sessions=int(count), empty=int(empty))


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions are asked for: what `sessions` and `sessions_count` have in common."""

    project: str
    agent: str
    person: str
    runtime: str
    machine: str
    state: filters.State
    folder: str
    file: str
    failed: bool
    tag: str
    starred: bool
    when: str
    since: str
    until: str
    quiet_since: str

    def filled_in(self, saved: dict[str, Any]) -> "_Wanted":
        """These filters, and those of a saved view where none is given."""
        return msgspec.structs.replace(
            self, **{name: value for name, value in saved.items() if getattr(self, name, True) in ("", None, False)}
        )

    def parameters(self, context: Context) -> dict[str, Any]:
        """The parameters of the statements that list and count; only those that are given."""
        period = filters.times(self.when, self.since, self.until)
        quiet = filters.times("", self.quiet_since, "").start
        context.views.catch_up()
        wanted: dict[str, Any] = {
            **(filters.in_project(filters.project_keys(context, self.project)) if self.project else {}),
            "agent": storable(self.agent) or None,
            "person": storable(filters.principal(self.person)) if self.person else None,
            "runtime": filters.runtime_name(context, self.runtime) or None, "machine": storable(self.machine) or None,
            "since": period.start, "until": period.end, "quiet": quiet,
            **filters.with_status(context, self.state), "failed": 1 if self.failed else None,
            "tag": filters.tag_name(context, self.tag, Right.SEE) if self.tag else None,
            "starred": storable(context.principal) if self.starred else None, **_below(self.folder),
        }  # fmt: skip
        given = {name: value for name, value in wanted.items() if value is not None} | dict(context.reach(Right.SEE))
        if self.file:
            given["keys"] = msgspec.json.encode(sorted(filters.touching(context, self.file, Right.SEE))).decode()
        return given


def _saved(context: Context, view: str) -> dict[str, Any]:
    """What a saved view asks for, if one is named."""
    if not view:
        return {}
    from clew.service.find.saved_views import arguments_of_view  # Most lists name no view.

    return arguments_of_view(context, view)


def _below(folder: str) -> dict[str, str]:
    """A folder, and the bounds of the paths below it."""
    path = storable(folder.rstrip("/") or folder)
    # The character after the slash ends the range of paths that begin with the folder and a slash.
    return {"folder": path, "below": path.rstrip("/") + "/", "beyond": path.rstrip("/") + "0"} if path else {}


def _sorted(
    tx: Transaction, sort: Sort, table: Prices, wanted: dict[str, Any], before: Session | None, limit: int
) -> list[SessionRow]:  # fmt: skip
    """The sessions with the largest values, from the session `before` on."""
    models = [model for (model,) in tx.run("sessions_models")] if sort is Sort.COST else []
    prices = [[model, *msgspec.structs.astuple(price)] for model in models if (price := table.price(model))]
    given = {"sort": str(sort), "prices": msgspec.json.encode(prices).decode()}
    value, key = EVERYTHING, EVERYTHING
    if before:
        own = {"keys": msgspec.json.encode([before.key]).decode(), "limit": 1}
        rows = tx.run("sessions_sorted", before_value=value, before=key, **own, **given)
        value, key = rows[0][0] if rows else _refuse_place(before), before.key
    rows = tx.run("sessions_sorted", before_value=value, before=key, limit=limit, **wanted, **given)
    return [session_row(row[1:]) for row in rows]


def _refuse_place(session: Session) -> Never:
    raise NotFound(f"session {session.id} is in no list any more; begin again without --before")


def _place_of(tx: Transaction, session: Session) -> tuple[int, int]:
    """Where a session is in the list: the time of its last activity, and its key."""
    rows = tx.run("sessions_row", session=session.key)
    if not rows:
        _refuse_place(session)
    row = session_row(rows[0])
    return row.last_at, row.session
