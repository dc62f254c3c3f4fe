"""Projects: their names by key, whether a caller reaches any session of one, and the control log of each."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from clew.model.errors import Conflict
from clew.model.session import Session
from clew.store.log import sessions
from clew.store.log.opening import Opening
from clew.store.reach import ReachParameters

if TYPE_CHECKING:
    from clew.store.store import Store

# The name under which the control log of what concerns no project in particular is stored; no project has it.
ALL_PROJECTS = "*"


def list_projects(store: "Store") -> dict[int, str]:
    """The name of every project by its key; one that became part of another has the name of that."""
    with store.database.read() as tx:
        return dict(tx.run("projects"))


def names_now(store: "Store") -> dict[str, str]:
    """Every name that a project has or had, each with the name of that project now."""
    with store.database.read() as tx:
        return dict(tx.run("project_names"))


def keys_by_name(store: "Store") -> dict[str, list[int]]:
    """The keys of every project by its name: its own, and those of the projects that became part of it."""
    keys: dict[str, list[int]] = {}
    for key, name in list_projects(store).items():
        keys.setdefault(name, []).append(key)
    return keys


def sessions_by_project(store: "Store", reach: ReachParameters) -> dict[str, int]:
    """How many sessions each project has in reach, without those that were erased."""
    with store.database.read() as tx:
        names: dict[int, str] = dict(tx.run("projects"))
        return {names[key]: int(count) for key, count in tx.run("sessions_counted", **reach) if key in names}


def current_name(store: "Store", name: str) -> str:
    """The name that a project has now; the same name if there is no such project."""
    with store.database.read() as tx:
        rows = tx.run("project_named", name=name)
    return str(rows[0][1]) if rows else name


def projects_of(store: "Store", ids: Iterable[str]) -> set[str]:
    """The projects of sessions, by their ids in full; ids of no session count for none."""
    keys = sessions.keys_of(store.database, ids)
    return {listed.session.project for listed in sessions.sessions_with(store.database, keys.values())}


def is_in_reach(store: "Store", project: int, reach: ReachParameters) -> bool:
    """Whether any session of a project is in reach."""
    with store.database.read() as tx:
        return bool(tx.run("project_reached", project=project, **reach))


def control_log(store: "Store", project: str, actor: str) -> Session:
    """The session that records who asked for what in a project, opened on first use and listed nowhere."""
    control = sessions.control_session(store.database, project)
    if control is not None:
        return control
    try:
        opening = Opening(project=project, title=f"control log of {project}", control=True)
        return store.open(opening, actor=actor)
    except Conflict:
        # Another caller opened it first; a project has one.
        control = sessions.control_session(store.database, project)
        if control is None:
            raise
        return control
