"""The filters that searches, lists and sums share: project, person, period, file."""

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from clew.model.access import Right
from clew.model.dates import Period, period, since, until
from clew.model.errors import InvalidInput, NotFound
from clew.model.labels import STAR, TAG, tag_from
from clew.model.session import State as Stored
from clew.model.session import Status
from clew.service.kernel.context import Context
from clew.store.log.rows import EVERYTHING
from clew.store.projects import ALL_PROJECTS, is_in_reach, keys_by_name, list_projects
from clew.views.contract import LONGEST, storable
from clew.views.files import TouchedFile, name_of
from clew.views.sessions import status_parameters

# Among so many tags a wrong one is compared, the most used ones.
MOST_SUGGESTED = 1000

Project = Annotated[str, msgspec.Meta(description="Only this project.")]
Agent = Annotated[str, msgspec.Meta(description="Only this agent.")]
Person = Annotated[str, msgspec.Meta(description="Only what this person did: ada, or person:ada.")]
Runtime = Annotated[str, msgspec.Meta(description="Only this program: claude-code, codex ...")]
Machine = Annotated[str, msgspec.Meta(description="Only this machine.")]
When = Annotated[str, msgspec.Meta(description="A time as people write it: today, 'last week', 2026-10 ...")]
Since = Annotated[str, msgspec.Meta(description="From then on: tuesday, 3d, 2026-10-05 ...")]
Until = Annotated[str, msgspec.Meta(description="Up to then, and all of it.")]
State = (
    Annotated[
        Status,
        msgspec.Meta(
            description="Only sessions in this state. One that is going on is active, waiting for a person, or idle."
        ),
    ]
    | None
)
File = Annotated[str, msgspec.Meta(description="Only sessions that touched this file: billing.py, app/billing.py ...")]

Tag = Annotated[str, msgspec.Meta(description="Only sessions with this tag.")]
Starred = Annotated[bool, msgspec.Meta(description="Only sessions that you starred.")]
QuietSince = Annotated[
    str, msgspec.Meta(description="Only sessions in which nothing has happened since then: 90d, 2026-01-01 ...")
]


def now() -> datetime:
    """The current time in this machine's time zone."""
    try:
        name = os.environ.get("TZ") or str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
        return datetime.now(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A zone without a known name still has today's offset from UTC.
        return datetime.now().astimezone()


def times(when: str, since_text: str, until_text: str) -> Period:
    """The period that satisfies `when`, `since` and `until` together."""
    today = now()
    named = period(when, today) if when else Period(None, None)
    starts = (named.start, since(since_text, today) if since_text else None)
    ends = (named.end, until(until_text, today) if until_text else None)
    start = max((start for start in starts if start is not None), default=None)
    end = min((end for end in ends if end is not None), default=None)
    if start is not None and end is not None and end <= start:
        raise InvalidInput("the period ends before it begins; when, since and until apply together")
    return Period(start, end)


def in_project(keys: list[int]) -> dict[str, Any]:
    """A project as parameters of a statement. One that others became part of has several keys."""
    return {"project": keys[0]} if len(keys) == 1 else {"projects": msgspec.json.encode(keys).decode()}


def project_keys(context: Context, name: str, right: Right = Right.SEE) -> list[int]:
    """The keys of a project in which the caller has this right on at least one session; else `NotFound`."""
    readable = {key: project for key, project in projects(context, right).items() if project != ALL_PROJECTS}
    if name in readable.values():
        return keys_by_name(context.store)[name]
    if not context.reach(right):
        from clew.model.nearest import suggestion  # An error needs it.

        near = suggestion(name, readable.values())
        some = ", ".join(sorted(set(readable.values()))[:10]) or "none yet"
        raise NotFound(f"no project {name!r}; {near or f'there are: {some}'}", project=name)
    raise NotFound(f"no project {name!r} that you may look into", project=name)


def runtime_name(context: Context, name: str) -> str:
    """The name of a runtime as sessions have it, from the name that people use; else `InvalidInput`."""
    if not name:
        return ""
    from clew.runtimes import canonical, unknown_runtime  # Imported here: most lists name no runtime.

    if known := canonical(name):
        return known
    context.views.catch_up()
    with context.views.read() as tx:
        wanted = {"runtime": storable(name), "before_at": EVERYTHING, "before": EVERYTHING, "limit": 1}
        # A program of another package, which is not installed here.
        if tx.run("sessions_page", **wanted, **context.reach(Right.SEE)):
            return storable(name)
    raise unknown_runtime(name)


def with_status(context: Context, status: Status | None) -> dict[str, Any]:
    """The parameters of a list of sessions with this status; the stored state, which has an index, is one of them."""
    if status is None:
        return {}
    stored = Stored.ACTIVE if status in (Status.WAITING, Status.IDLE) else Stored(status)
    return {"state": str(stored), **status_parameters(str(status), context.store.now())}


def projects(context: Context, right: Right) -> dict[int, str]:
    """The projects in which the caller has this right on at least one session, by key."""
    names = list_projects(context.store)
    reach = context.reach(right)
    if not reach:
        return names
    unrestricted = msgspec.json.decode(reach["reach_projects"], type=set[int])
    return {key: name for key, name in names.items() if key in unrestricted or is_in_reach(context.store, key, reach)}


def principal(name: str) -> str:
    """The full name of a principal; a name without a kind is a person's."""
    return name if ":" in name else f"person:{name}"


def touching(context: Context, path: str, right: Right) -> frozenset[int]:
    """The keys of the sessions that touched a file and on which the caller has this right."""
    with context.views.read() as tx:
        rows = tx.run("files_by_name", name=name_of(path), type="file", limit=100_000, **context.reach(right))
    files = (TouchedFile(*row) for row in rows)
    return frozenset(touched.session for touched in files if same_path(path, touched.what))


def tag_name(context: Context, text: str, right: Right) -> str:
    """A tag that a session has on which the caller has this right; else `NotFound`."""
    wanted = tag_from(text)
    with context.views.read() as tx:
        if tx.run("labels_sessions", kind=TAG, name=storable(wanted), limit=1, **context.reach(right)):
            return storable(wanted)
        known = [name for name, *_ in tx.run("labels_tags", limit=MOST_SUGGESTED, **context.reach(right))]
    from clew.model.nearest import suggestion

    near = suggestion(wanted, known)
    some = ", ".join(known[:10]) or "none yet"
    raise NotFound(f"no session has the tag {text[:60]!r}; {near or f'there are: {some}'}", missing="tag")


def labelled(context: Context, right: Right, *, tag: str, starred: bool) -> frozenset[int] | None:
    """The keys of the sessions with this tag and the caller's star, if asked for, on which they have this right."""
    wanted = ([(TAG, tag_name(context, tag, right))] if tag else []) + (
        [(STAR, storable(context.principal))] if starred else []
    )
    if not wanted:
        return None
    with context.views.read() as tx:
        found = [
            frozenset(
                key
                for (key,) in tx.run("labels_sessions", kind=kind, name=name, limit=EVERYTHING, **context.reach(right))
            )
            for kind, name in wanted
        ]
    return frozenset.intersection(*found)


def same_path(path: str, touched: str) -> bool:
    """Whether two paths can name the same file: the shorter is the end of the longer."""
    parts, touched_parts = _parts(path[-LONGEST:]), _parts(touched)
    length = min(len(parts), len(touched_parts))
    is_absolute = path.startswith(("/", "\\", "~")) or path[1:2] == ":"
    return length > 0 and parts[-length:] == touched_parts[-length:] and (length == len(parts) or is_absolute)


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").casefold().split("/") if part not in ("", ".", "~")]
