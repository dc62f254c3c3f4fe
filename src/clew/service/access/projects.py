"""The operations on projects: which there are, another name for one, two that are one, and folders that moved."""

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec

from clew.model.access import Right, Target
from clew.model.errors import Conflict, InvalidInput, NotFound
from clew.model.ids import check_name
from clew.service.access.settings import VALUES
from clew.service.capture.find_project import Found, ProjectFinder
from clew.service.find.filters import project_keys
from clew.service.kernel.call import check_project, permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.project_joining import Joined, merge, rename, standing_of, why_not
from clew.store.project_places import KnownPlace, Place, places_of, places_shown, remember
from clew.store.projects import current_name, keys_by_name, list_projects, names_now, sessions_by_project

PROJECTS = Group("project", "List, rename, merge and move projects; each is a repository or a folder.")
# The value of a setting that holds for a merged project if one of the two has it.
STRICTEST = tuple((name, values[-1]) for name, values in VALUES.items())
DryRun = Annotated[bool, msgspec.Meta(description="Only say what would change.")]


class ProjectLine(msgspec.Struct, frozen=True, kw_only=True):
    """A project: its sessions that the caller may see, the repositories and folders it is captured from, and the names
    that it had or that became part of it."""

    project: str
    sessions: int
    last_at: int
    repositories: list[str]
    folders: list[str]
    formerly: list[str]


class ProjectChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a change does: the project afterwards, the names and folders that lead to it then, the sessions it has then,
    and what else to know."""

    project: str
    formerly: list[str]
    folders: list[str]
    sessions: int
    notes: list[str]
    is_done: bool


@operation(right=Right.SEE, route="GET /projects", filters_by_reach=True, reads_views=True, group=PROJECTS)
def project_list(context: Context) -> list[ProjectLine]:
    """List projects with their sessions, repositories and folders, the ones with the latest activity first."""
    sessions = _sessions(context)
    seen = {name for name in keys_by_name(context.unrestricted) if _may_see(context, name)}
    places: dict[str, list[KnownPlace]] = {}
    for place in places_shown(context.unrestricted):
        places.setdefault(place.project, []).append(place)
    formerly: dict[str, list[str]] = {}
    for old, now in sorted(names_now(context.unrestricted).items()):
        if old != now:
            formerly.setdefault(now, []).append(old)
    lines = [
        _line(context, name, sessions.get(name, (0, 0)), places.get(name, []), formerly.get(name, []))
        if name in seen
        else _line(context, name, sessions[name], [], [])
        for name in sessions.keys() | (places.keys() & seen)
    ]
    return sorted(lines, key=lambda line: (-line.last_at, line.project))


@operation(
    right=Right.ADMINISTER, route="POST /projects/rename", audited=True, group=PROJECTS,
    warning="This gives the project {project} the name {name}; the name {project} goes on working",
)  # fmt: skip
def project_rename(context: Context, project: str, name: str, *, dry_run: DryRun = False) -> ProjectChange:
    """Give a project another name; the old one goes on working."""
    new = check_name(check_project(name.strip()), "the project", longest=200)
    if not new:
        raise InvalidInput("the new name is empty; give a name")
    permit(context, Right.ADMINISTER, new)
    project_keys(context, project, Right.ADMINISTER)
    taken = names_now(context.unrestricted).get(new, project)
    if taken != project:
        raise Conflict(f"there is a project {new!r} already; merge the two, or choose another name", project=new)
    change = _change(context, new, [project], dry_run=dry_run)
    if not dry_run:
        _note(context, rename(context.unrestricted, project, new))
        _rename_shared(context, project, new)
    return change


@operation(
    right=Right.ADMINISTER, route="POST /projects/merge", audited=True, group=PROJECTS,
    warning="This makes all sessions of {project} sessions of {into}; no command takes them apart again",
)  # fmt: skip
def project_merge(context: Context, project: str, into: str, *, dry_run: DryRun = False) -> ProjectChange:
    """Make one project a part of another: one list, one search, one set of rights; both names go on working."""
    into = _named(context, into)
    project_keys(context, project, Right.ADMINISTER)
    return _merge(context, project, into, dry_run=dry_run)


@operation(
    right=Right.ADMINISTER, route="POST /projects/move", audited=True, group=PROJECTS,
    warning="This changes to which project sessions in {folder} and {to} belong",
)  # fmt: skip
def project_move(
    context: Context,
    folder: Annotated[str, msgspec.Meta(extra={"path": "always"})],
    to: Annotated[str, msgspec.Meta(extra={"path": "has a slash"})],
    *,
    machine: Annotated[str, msgspec.Meta(description="The machine with the folder. [default: this one]")] = "",
    dry_run: DryRun = False,
) -> ProjectChange:
    """Say where a folder is now, or to which project its sessions belong from now on.

    TO is the folder's new path, or the name of a project, which has no slash in it. A folder that moved takes along all
    that was captured in it and below. Sessions stay in the project they are in when their folder gets another one.
    """
    machine = machine or context.machine
    old = _path(folder)
    if "/" in to:
        return _move_folder(context, machine, old, _path(to), dry_run=dry_run)
    return _assign_folder(context, machine, old, to, dry_run=dry_run)


def _merge(context: Context, project: str, into: str, *, dry_run: bool) -> ProjectChange:
    if project == into:
        raise InvalidInput(f"{project!r} is {into!r} already; name two projects")
    store = context.unrestricted
    if problem := why_not(standing_of(store, project), standing_of(store, into), project, into) or _shared_problem(
        context, project, into
    ):
        raise Conflict(problem, project=into)
    change = _change(context, into, [project], notes=_who_sees_more(context, project, into), dry_run=dry_run)
    if not dry_run:
        _note(context, merge(store, project, into, strictest=STRICTEST))
        _rename_shared(context, project, into)
    return change


class _Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a folder that moved: its new path, and the project that this has in place of its own, if another."""

    place: KnownPlace
    path: str
    other: str = ""
    is_free: bool = True
    """Whether the other project was captured nowhere else, so that it is the same."""


def _move_folder(context: Context, machine: str, old: str, new: str, *, dry_run: bool) -> ProjectChange:
    """Every place in the folder is at the new path now."""
    if _is_below(new, old) or _is_below(old, new):
        raise InvalidInput(f"{new!r} and {old!r} are one inside the other; name two folders")
    moved = _places_moved(context, machine, old, new)
    if not moved:
        raise NotFound(f"no session was captured in {old} on {machine}; the list of projects shows folders", folder=old)
    taken = [moving for moving in moved if moving.is_free]
    merged = {moving.other: moving.place.project for moving in taken if moving.other}
    for project, into in merged.items():
        _merge(context, project, into, dry_run=True)
    if not dry_run:
        for moving in taken:
            place = moving.place
            remember(context.unrestricted, place.project_key, [
                Place(machine=machine, place=moving.path, mark=place.mark, is_root=place.is_root, is_set=place.is_set)
            ])  # fmt: skip
        for project, into in merged.items():
            _merge(context, project, into, dry_run=False)
    project = min(moved, key=lambda moving: len(moving.path)).place.project
    notes = [
        f"{moving.path} stays with {moving.other}, which has other folders" for moving in moved if not moving.is_free
    ]
    folders = [moving.path for moving in taken]
    return _change(context, project, [*merged], folders=folders, notes=notes, dry_run=dry_run)


def _places_moved(context: Context, machine: str, old: str, new: str) -> list[_Moved]:
    finder = ProjectFinder(context.unrestricted, machine)
    moved = []
    for place in places_shown(context.unrestricted):
        if place.machine != machine or not _is_below(place.place, old):
            continue
        path = new + place.place[len(old) :]
        found = finder.of_folder(path)
        if found.is_new or found.project == place.project:
            moved.append(_Moved(place=place, path=path))
        else:
            is_free = _is_only_in(context, found, machine, path)
            moved.append(_Moved(place=place, path=path, other=found.project, is_free=is_free))
    return moved


def _assign_folder(context: Context, machine: str, folder: str, to: str, *, dry_run: bool) -> ProjectChange:
    """Sessions in the folder and below belong to a project from now on."""
    into = _named(context, to)
    found = ProjectFinder(context.unrestricted, machine).of_folder(folder)
    notes = []
    if not found.is_new and found.project != into:
        notes.append(f"sessions that were captured before stay in {found.project}; a merge of the two takes them along")
    if not dry_run:
        [key, *_] = keys_by_name(context.unrestricted)[into]
        remember(context.unrestricted, key, [Place(machine=machine, place=folder, is_set=True)])
    return _change(context, into, [], folders=[folder], notes=notes, dry_run=dry_run)


def _named(context: Context, name: str) -> str:
    """The name that a project has now, which the caller may administer."""
    name = check_project(name)
    now = current_name(context.unrestricted, name)
    if not context.caller.rule(Right.ADMINISTER, Target(project=now)).allowed:
        permit(context, Right.ADMINISTER, name)
    project_keys(context, now, Right.ADMINISTER)
    return now


def _path(folder: str) -> str:
    """A path without `..`."""
    if not folder.startswith("/"):
        raise InvalidInput(f"{folder[:200]!r} is not a whole path; give one that begins with /")
    return os.path.normpath(folder)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_only_in(context: Context, found: Found, machine: str, folder: str) -> bool:
    """Whether a project was captured nowhere but in this folder."""
    return all(
        not place.place or (place.machine == machine and _is_below(place.place, folder)) or place.place == found.address
        for place in places_of(context.unrestricted, found.project)
    )


def _may_see(context: Context, project: str) -> bool:
    return context.caller.rule(Right.SEE, Target(project=project)).allowed


def _sessions(context: Context) -> dict[str, tuple[int, int]]:
    """How many sessions each project has in reach, and when something was last said in one of them."""
    names = list_projects(context.unrestricted)
    context.views.catch_up()
    with context.views.read() as tx:
        rows = tx.run("sessions_by_project", **context.reach(Right.SEE))
    sessions: dict[str, tuple[int, int]] = {}
    for key, count, last_at in rows:
        before, last = sessions.get(names.get(key, ""), (0, 0))
        sessions[names.get(key, "")] = (before + int(count), max(last, int(last_at)))
    return sessions


def _line(
    context: Context, name: str, sessions: tuple[int, int], places: list[KnownPlace], formerly: list[str]
) -> ProjectLine:
    here = [place.place for place in places if place.machine == context.machine]
    elsewhere = [f"{place.machine}:{place.place}" for place in places if place.machine not in ("", context.machine)]
    return ProjectLine(
        project=name, sessions=sessions[0], last_at=sessions[1], folders=[*here, *elsewhere], formerly=formerly,
        repositories=[place.place for place in places if not place.machine],
    )  # fmt: skip


def _change(
    context: Context, project: str, joined: list[str], *, folders: list[str] | None = None,
    notes: list[str] | None = None, dry_run: bool,
) -> ProjectChange:  # fmt: skip
    """What a change does, described before it is made."""
    sessions = sessions_by_project(context.store, context.reach(Right.SEE))
    count = sum(sessions.get(name, 0) for name in {project, *joined})
    return ProjectChange(
        project=project, formerly=[name for name in joined if name != project], folders=folders or [],
        sessions=count, notes=notes or [], is_done=not dry_run,
    )  # fmt: skip


def _who_sees_more(context: Context, project: str, into: str) -> list[str]:
    """Who may see sessions that they could not see before."""
    one, other = (
        {who for _, who, rights, _, _ in standing_of(context.unrestricted, name).grants if "see" in rights.split()}
        for name in (project, into)
    )
    notes = [f"{who} may see the sessions of {into}, too" for who in sorted(one - other)]
    return notes + [f"{who} may see the sessions of {project}, too" for who in sorted(other - one)]


def _note(context: Context, joined: Joined) -> None:
    context.touched.made.extend(joined.changed)
    context.touched.ended.extend(joined.ended)


def _remotes(context: Context) -> list[Any]:
    from clew.service.replication import remotes  # Few projects are shared.

    return remotes.all_of(Path(context.home)) if context.home and not context.answers_leave_machine else []


def _shared_problem(context: Context, project: str, into: str) -> str:
    """Why a merge would send a project to a server that it is not shared with; empty if it would not."""
    for setting in _remotes(context):
        shared = [name for name in (project, into) if name in setting.projects]
        if len(shared) == 1:
            return (
                f"{shared[0]!r} is shared with {setting.name!r} and the other is not; share both or none of them first"
            )
    return ""


def _rename_shared(context: Context, project: str, name: str) -> None:
    from clew.service.replication import remotes

    for shared in _remotes(context):
        if project in shared.projects:
            with remotes.changing(Path(context.home), shared.name) as setting:
                setting.projects = sorted({*setting.projects, name} - {project})
