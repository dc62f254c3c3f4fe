"""What searches, lists and sums are narrowed down to: the filters that many operations share."""

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from clew.model.access import Right
from clew.model.dates import Period, period, since, until
from clew.model.errors import InvalidInput, NotFound
from clew.service.kernel.context import Context
from clew.store.projects import is_in_reach, list_projects
from clew.views.contract import LONGEST
from clew.views.files import name_of

Project = Annotated[str, msgspec.Meta(description="Only this project.")]
Agent = Annotated[str, msgspec.Meta(description="Only this agent.")]
Person = Annotated[str, msgspec.Meta(description="Only what this person did: ada, or person:ada.")]
Runtime = Annotated[str, msgspec.Meta(description="Only this program: claude-code, codex ...")]
Machine = Annotated[str, msgspec.Meta(description="Only this machine.")]
When = Annotated[str, msgspec.Meta(description="A time as people write it: today, 'last week', 2026-10 ...")]
Since = Annotated[str, msgspec.Meta(description="From then on: tuesday, 3d, 2026-10-05 ...")]
Until = Annotated[str, msgspec.Meta(description="Up to then, and all of it.")]
File = Annotated[str, msgspec.Meta(description="Only sessions that touched this file: billing.py, app/billing.py ...")]


def now() -> datetime:
    """Now on the clock of this machine, in its time zone."""
    try:
        name = os.environ.get("TZ") or str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
        return datetime.now(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A zone without a name still has an offset today.
        return datetime.now().astimezone()


def times(when: str, from_: str, to: str) -> Period:
    """The time that is meant by `when`, `since` and `until` together."""
    at = now()
    found = period(when, at) if when else Period(None, None)
    start = max((one for one in (found.start, since(from_, at) if from_ else None) if one is not None), default=None)
    end = min((one for one in (found.end, until(to, at) if to else None) if one is not None), default=None)
    if start is not None and end is not None and end <= start:
        raise InvalidInput("that time ends before it begins; look at --when, --since and --until together")
    return Period(start, end)


def project_key(context: Context, name: str, right: Right = Right.SEE) -> int:
    """The key of a project, which there must be, and in which the caller must have something in reach."""
    known = projects(context, right)
    for key, one in known.items():
        if one == name:
            return key
    if not context.reach(right):
        some = ", ".join(sorted(known.values())[:10]) or "none yet"
        raise NotFound(f"no project {name!r}; there are: {some}", project=name)
    raise NotFound(f"no project {name!r} that you may look into", project=name)


def projects(context: Context, right: Right) -> dict[int, str]:
    """The projects in which the caller has something in reach, by key."""
    known = list_projects(context.store)
    reach = context.reach(right)
    if not reach:
        return known
    whole = msgspec.json.decode(reach["reach_projects"], type=set[int])
    return {key: name for key, name in known.items() if key in whole or is_in_reach(context.store, key, reach)}


def principal(name: str) -> str:
    """A person by the bare name, or any principal in full."""
    return name if ":" in name else f"person:{name}"


def touching(context: Context, path: str, right: Right) -> frozenset[int]:
    """The keys of the sessions in reach that touched a file."""
    with context.views.read() as tx:
        rows = tx.run("files_by_name", name=name_of(path), type="file", limit=100_000, **context.reach(right))
    return frozenset(row[0] for row in rows if same_path(path, row[2]))


def same_path(path: str, what: str) -> bool:
    """Whether two paths mean one file, as far as both tell: one is the end of the other."""
    one, other = _parts(path[-LONGEST:]), _parts(what)
    length = min(len(one), len(other))
    is_whole = path.startswith(("/", "\\", "~")) or path[1:2] == ":"
    return length > 0 and one[-length:] == other[-length:] and (length == len(one) or is_whole)


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").casefold().split("/") if part not in ("", ".", "~")]
