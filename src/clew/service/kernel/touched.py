"""Which projects a result shows something of: found in the result itself, whichever operation made it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.store import Store
from clew.store.projects import projects_of


def projects_in(store: Store, result: Any) -> set[str]:
    """The projects of all that a result shows: values name their project, or the session they are from."""
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
