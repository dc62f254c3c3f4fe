"""One way to every operation: parse -> rule -> run -> record.

A session that the caller has no right on at all is not found. The right that an operation needs is ruled on for its
session, or for the project it names. An operation that filters by reach is ruled on by its own statements, which leave
out what the caller may not reach.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from clew.model.access import Right, Ruling, Target
from clew.model.errors import Denied, InvalidInput, NotFound
from clew.model.ids import LENGTH, check_name
from clew.model.session import Session
from clew.service.kernel.context import Context, Touched
from clew.service.kernel.registry import OPERATIONS, Operation, operation_named
from clew.store.projects import ALL_PROJECTS, current_name
from clew.views.contract import Rebuilding

if TYPE_CHECKING:
    from clew.store.log.plan import Request

# Operations with these rights show what was said; whether they are recorded is a project's setting.
CONTENT = (Right.READ, Right.EXPORT)
# A long-lived program remembers no more sessions than this.
MOST_KNOWN = 10_000


class PreparedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was parsed, and that the caller may make."""

    context: Context
    operation: Operation
    arguments: msgspec.Struct
    values: dict[str, Any]
    """The arguments as the operation takes them: sessions are resolved."""
    target: Target
    """What the audit record says it was about."""
    targets: tuple[Target, ...] = ()
    """The sessions it is about."""


def call(context: Context, name: str, arguments: Mapping[str, Any]) -> Any:
    """Carry out an operation, if the principal may."""
    prepared = prepare_call(context, name, arguments)
    result = run(prepared)
    record_done(prepared, result)
    return result


def prepare_call(context: Context, name: str, arguments: Mapping[str, Any]) -> PreparedCall:
    """Parse the arguments and rule on the call; a refusal is recorded."""
    operation = OPERATIONS.get(name) or operation_named(name)
    context = msgspec.structs.replace(context, touched=Touched())
    parsed = _parse(operation, arguments)
    values = {parameter.name: getattr(parsed, parameter.name) for parameter in operation.parameters}
    for parameter in operation.parameters:
        if parameter.is_session and values[parameter.name] is not None:
            values[parameter.name] = _session_asked_for(context, operation, values[parameter.name], parsed)
    targets = [target_of(value) for value in values.values() if isinstance(value, Session)]
    project = Target(project=_current_project(context, check_project(getattr(parsed, "project", ""))))
    if project.project:
        values["project"] = project.project
    for target in targets or ([] if operation.filters_by_reach else [project]):
        _rule(context, operation, target, parsed)
    if operation.filters_by_reach:
        _check_scopes(context, operation, parsed)
    return PreparedCall(
        context=context,
        operation=operation,
        arguments=parsed,
        values=values,
        target=(targets or [project])[0],
        targets=tuple(targets),
    )


def run(prepared: PreparedCall) -> Any:
    """Run the operation; a refusal that it raises while it runs is recorded."""
    return _run(prepared, prepared.operation.run)


def run_in_pieces(prepared: PreparedCall) -> Iterator[bytes]:
    """Run an operation whose result is sent while it is made; a refusal before the first piece is recorded."""
    if prepared.operation.in_pieces is None:
        raise AssertionError(f"{prepared.operation.name} does not give its result in pieces")
    pieces: Iterator[bytes] = _run(prepared, prepared.operation.in_pieces)
    return pieces


def _run(prepared: PreparedCall, function: Callable[..., Any]) -> Any:
    context, operation = prepared.context, prepared.operation
    try:
        try:
            return function(context, **prepared.values)
        except Rebuilding:
            if not operation.reads_views:
                raise
            return function(context, **prepared.values)
    except Denied as error:
        is_about_project = operation.filters_by_reach and not prepared.target.session
        target = Target() if is_about_project else prepared.target
        _record(context, operation, target, Ruling(False, str(error)), prepared.arguments)
        raise
    except NotFound as error:
        # A caller with limited reach gets the same error for a session that does not exist and for one of others.
        if operation.audited and context.reach(None):
            _record(context, operation, prepared.target, Ruling(False, str(error)), prepared.arguments)
        raise


def request_of(prepared: PreparedCall) -> "Request":
    """The request of an operation that can share a commit; who commits it records the call as done."""
    if prepared.operation.prepare is None:
        raise AssertionError(f"{prepared.operation.name} does not say how it is prepared for a shared commit")
    return prepared.operation.prepare(prepared.context, **prepared.values)


def record_done(prepared: PreparedCall, result: Any = None) -> None:
    """Record a call that was carried out, if its operation or a project that it read wants that."""
    context, operation, target = prepared.context, prepared.operation, prepared.target
    if operation.audited:
        _record(context, operation, target, Ruling(True, "done"), prepared.arguments)
    elif operation.right in CONTENT and context.has_setting("audit_reads", "on"):
        for session in prepared.targets:
            if context.setting(session.project, "audit_reads") == "on":
                _record(context, operation, session, Ruling(True, "read"))
        if not prepared.targets:
            from clew.service.kernel.audit_record import record_reads
            from clew.service.kernel.touched import projects_in

            record_reads(context, operation, projects_in(context.unrestricted, result))


def _record(
    context: Context, operation: Operation, target: Target, ruling: Ruling, parsed: msgspec.Struct | None = None
) -> None:
    from clew.service.kernel.audit_record import record  # Most commands of a person are neither audited nor refused.

    record(context, operation, target, ruling, parsed)


def _parse(operation: Operation, arguments: Mapping[str, Any]) -> msgspec.Struct:
    try:
        return msgspec.convert(dict(arguments), operation.arguments)
    except msgspec.ValidationError as error:
        from clew.service.kernel.argument_error import argument_error

        raise argument_error(operation.name, arguments, operation.arguments, error) from error


def _session(context: Context, operation: Operation, prefix: str) -> Session:
    """The session with this id, or with the only id that begins so, among those the caller has any right on."""
    known = context.known_sessions if operation.prepare is not None else None
    if known is not None and prefix in known:
        return known[prefix]
    session = context.store.session(prefix, context.reach(None))
    if known is not None and len(prefix) == LENGTH:
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[prefix] = session
    return session


def _session_asked_for(context: Context, operation: Operation, prefix: str, parsed: msgspec.Struct) -> Session:
    """The session that an argument names. A session out of the caller's reach is recorded like a refusal."""
    try:
        return _session(context, operation, prefix)
    except NotFound:
        if context.reach(None):
            _record(context, operation, Target(), Ruling(False, "no such session in the caller's reach"), parsed)
        raise


def _check_scopes(context: Context, operation: Operation, parsed: msgspec.Struct) -> None:
    if context.scopes is not None and operation.right not in context.scopes:
        because = f"the key of {context.principal} does not carry the right to {operation.right}"
        _record(context, operation, Target(), Ruling(False, because), parsed)
        raise Denied(
            f"{operation.name} was refused: this key is not good for the right to {operation.right}; use one that is",
            right=str(operation.right),
        )


def check_project(name: str) -> str:
    """The name of a project, limited in length; a mark stands for no project."""
    if name == ALL_PROJECTS:
        raise InvalidInput(f"no project is called {ALL_PROJECTS!r}; leave it out for all of them")
    return check_name(name, "the project", longest=200)


def _current_project(context: Context, name: str) -> str:
    """The name that a project has now. Who has no right on all of the project is not told that it was renamed."""
    now = current_name(context.unrestricted, name) if name else ""
    is_known = any(context.caller.rule(right, Target(project=now)).allowed for right in Right)
    return now if is_known else name


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


def _rule(context: Context, operation: Operation, target: Target, parsed: msgspec.Struct) -> None:
    ruling = context.caller.rule(operation.right, target)
    if not ruling.allowed:
        _record(context, operation, target, ruling, parsed)
        raise Denied(
            f"{operation.name} was refused: {ruling.because}; ask an owner for a grant", right=str(operation.right)
        )
