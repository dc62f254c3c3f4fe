"""The projects whose content a result shows, read from the result itself, for every operation."""

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.store import Store
from clew.store.projects import projects_of


def projects_in(store: Store, result: Any) -> set[str]:
    """The projects of everything that a result shows: each value names its project or its session."""
    projects, sessions = set[str](), set[str]()
    for value in _structs(result):
        project, session = getattr(value, "project", None), getattr(value, "session", None)
        if isinstance(project, str) and project:
            projects.add(project)
        elif isinstance(session, str) and session:
            sessions.add(session)
    return projects | projects_of(store, sessions)


def _structs(value: Any) -> Iterator[msgspec.Struct]:
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from _structs(getattr(value, name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _structs(item)
