"""A caller's reach as parameters of a statement: lines that begin with `--if me` narrow it to what is in reach."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from clew.model.access import Reach

if TYPE_CHECKING:
    from clew.store.store import Store

ReachParameters = Mapping[str, Any]

# The reach of a caller who may see everything.
EVERYWHERE: ReachParameters = MappingProxyType({})


def reach_parameters(store: "Store", reach: Reach) -> ReachParameters:
    """The keys of the projects and sessions that a reach names."""
    from clew.store.log.sessions import keys_of
    from clew.store.projects import keys_by_name

    projects = keys_by_name(store)
    return parameters_of(reach, projects, keys_of(store.database, reach.sessions) if reach.sessions else {})


def parameters_of(reach: Reach, projects: Mapping[str, list[int]], sessions: Mapping[str, int]) -> ReachParameters:
    """A reach as parameters, given the keys of projects by name and of sessions by id."""
    # A project that does not exist has no sessions; no session's project has the key -1.
    nowhere = [-1]
    agents = (
        f"{key}/{agent}"
        for project, agent in reach.agents
        for key in (projects.get(project, nowhere) if project else "*")
    )
    return {
        "me": reach.me,
        "reach_bound": _json(projects.get(reach.bound, nowhere) if reach.bound else ()),
        "reach_everything": int(reach.everything),
        "reach_projects": _json(key for name in reach.projects for key in projects.get(name, ())),
        "reach_agents": _json(agents),
        "reach_sessions": _json(sessions[id] for id in reach.sessions if id in sessions),
    }


def _json(values: Iterable[Any]) -> str:
    return msgspec.json.encode(sorted(values)).decode()
