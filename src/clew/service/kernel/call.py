"""One door: parse -> rule -> run -> record.

A session that the caller has no right on at all is not found. The right that an operation needs is ruled on for its
session, or for the project it names. An operation that filters by reach is ruled on by its own statements, which leave
out what the caller may not reach.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from clew.model.access import Right, Ruling, Target
from clew.model.errors import Denied, InvalidInput
from clew.model.ids import check_name
from clew.model.session import Session
from clew.service.kernel.audit_record import WHOLE, record
from clew.service.kernel.context import Context
from clew.service.kernel.registry import OPERATIONS, Operation, operation_named
from clew.views.contract import Rebuilding


def call(context: Context, name: str, arguments: Mapping[str, Any]) -> Any:
    """Carry out an operation, if the principal may."""
    found = OPERATIONS.get(name) or operation_named(name)
    parsed = _parse(found, arguments)
    sessions = {
        parameter.name: context.store.session(text, context.reach(None))
        for parameter in found.parameters
        if parameter.is_session and (text := getattr(parsed, parameter.name)) is not None
    }
    project = check_project(getattr(parsed, "project", ""))
    targets = [target_of(session) for session in sessions.values()]
    if not targets and not found.filters_by_reach:
        targets = [Target(project=project)]
    for target in targets:
        _rule(context, found, target)
    if found.filters_by_reach and context.scopes is not None and found.right not in context.scopes:
        raise Denied(
            f"{found.name} was refused: this key is not good for the right to {found.right}; use one that is",
            right=str(found.right),
        )
    values = {parameter.name: getattr(parsed, parameter.name) for parameter in found.parameters}
    try:
        result = found.run(context, **{**values, **sessions})
    except Rebuilding:
        if not found.reads_views:
            raise
        result = found.run(context, **{**values, **sessions})
    except Denied as error:
        record(context, found, targets[0] if targets else Target(), Ruling(False, str(error)))
        raise
    about = targets[0] if targets else Target(project=project)
    if found.audited:
        record(context, found, about, Ruling(True, "done"), parsed)
    elif found.right in CONTENT and context.setting(about.project, "audit_reads") == "on":
        record(context, found, about, Ruling(True, "read"))
    return result


# Operations with these rights show what was said; whether they are recorded is a project's setting.
CONTENT = (Right.READ, Right.EXPORT)


def _parse(found: Operation, arguments: Mapping[str, Any]) -> msgspec.Struct:
    try:
        return msgspec.convert(dict(arguments), found.arguments)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{found.name}: {error}") from error


def check_project(name: str) -> str:
    """A project's name, as short as one is; what concerns no project has a mark in its place."""
    if name == WHOLE:
        raise InvalidInput(f"no project is called {WHOLE!r}; leave it out for all of them")
    return check_name(name, "the project", longest=200)


def target_of(session: Session) -> Target:
    return Target(
        project=session.project, agent=session.agent, session=session.id, owner=session.owner, private=session.private
    )


def permit(context: Context, right: Right, about: Session | str | Target) -> None:
    """Rule on what an operation finds only while it runs: a session, or a project by name."""
    target = Target(project=about) if isinstance(about, str) else about
    target = target_of(target) if isinstance(target, Session) else target
    ruling = context.caller.rule(right, target)
    if not ruling.allowed:
        where = f"in project {target.project}" if target.project else "on the store as a whole"
        raise Denied(f"refused {where}: {ruling.because}; ask an owner for a grant", right=str(right))


def _rule(context: Context, found: Operation, target: Target) -> None:
    ruling = context.caller.rule(found.right, target)
    if not ruling.allowed:
        record(context, found, target, ruling)
        raise Denied(f"{found.name} was refused: {ruling.because}; ask an owner for a grant", right=str(found.right))
