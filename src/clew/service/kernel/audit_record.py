"""The audit record of a call, in the control log of its project.

An event that an operation appends to a session names its actor already. A call that leaves no such event is recorded
here, and so is every refusal. What is recorded comes from what a call touched: the projects whose content its result
shows, and the credentials and grants that it made and ended.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import msgspec

from clew.model.access import Right, Ruling, Target
from clew.model.errors import SourceReused
from clew.model.events import Draft, OperationCalled
from clew.service.kernel.context import Context
from clew.service.kernel.refusals import refusals_of
from clew.service.kernel.registry import Operation
from clew.store import Store
from clew.store.access.rule_rows import describe_all, digests_of
from clew.store.access.settings import list_settings, set_setting
from clew.store.projects import ALL_PROJECTS, control_log, list_projects

LONGEST_ARGUMENT = 200
LONGEST_REASON = 500
# The entry that lists the credentials and grants from before such rows were recorded.
BASELINE = "access_baseline"
RECORDED = "recorded"


def record(
    context: Context, operation: Operation, target: Target, ruling: Ruling, parsed: msgspec.Struct | None = None
) -> None:
    """Record a call, or its refusal. Many refusals of one operation to one principal within a minute share entries."""
    # The unrestricted log: the caller may not be able to see the log that records the call.
    store = context.unrestricted
    count = 1
    if not ruling.allowed:
        refusals = refusals_of(store)
        for late in refusals.left_over(store.now()):
            _append_refusals(store, late.principal, late.operation, late.times)
        count = refusals.add(context.principal, operation.name, store.now())
        if not count:
            return
    made = tuple(context.touched.made)
    if made:
        record_baseline(store)
    entry = OperationCalled(
        operation=operation.name, target=(target.session or target.project)[:LONGEST_ARGUMENT], allowed=ruling.allowed,
        because=ruling.because[:LONGEST_REASON], arguments=_arguments(operation, parsed),
        credential=context.credential.id, made=made, ended=tuple(context.touched.ended), rows=digests_of(store, made),
        count=count,
    )  # fmt: skip
    log = control_log(store, _project(context, target, ruling), context.principal)
    store.append(log, [Draft(body=entry)], actor=context.principal)


def record_reads(context: Context, operation: Operation, projects: Iterable[str]) -> None:
    """Record that content was read, in the log of each project whose setting wants it."""
    for project in sorted(set(projects)):
        if context.setting(project, "audit_reads") == "on":
            record(context, operation, Target(project=project), Ruling(True, "read"))


def record_login(
    store: Store,
    actor: str,
    *,
    operation: str = "login",
    allowed: bool = True,
    because: str,
    credential: str = "",
    made: str = "",
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Record a login or a logout, or that it was refused, with the credential it was done with and the one it made."""
    names = (made,) if made else ()
    if names:
        record_baseline(store)
    entry = OperationCalled(
        operation=operation, allowed=allowed, because=because[:LONGEST_REASON], credential=credential, made=names,
        rows=digests_of(store, names), arguments=msgspec.Raw(msgspec.json.encode(dict(facts))),
    )  # fmt: skip
    store.append(control_log(store, ALL_PROJECTS, actor), [Draft(body=entry)], actor=actor)


def record_baseline(store: Store) -> None:
    """Record, once, the credentials and grants that are older than their records, so that later ones stand out."""
    known = refusals_of(store)
    if known.has_baseline:
        return
    if list_settings(store).get(("", BASELINE)) != RECORDED:
        names = tuple(describe_all(store))
        entry = OperationCalled(
            operation=BASELINE, because="what was there before it was recorded", made=names,
            rows=digests_of(store, names),
        )  # fmt: skip
        # The log takes the entry once. The setting only saves looking for it, and proves nothing.
        with suppress(SourceReused):
            store.append(control_log(store, ALL_PROJECTS, "clew"), [Draft(body=entry, source=BASELINE)], actor="clew")
        set_setting(store, "", BASELINE, RECORDED)
    known.has_baseline = True


def record_job(context: Context, name: str, project: str, result: dict[str, Any], *, source: str) -> None:
    """Record what a job did; the same source is recorded once."""
    log = control_log(context.unrestricted, project or ALL_PROJECTS, context.principal)
    entry = OperationCalled(
        operation=name, target=project[:LONGEST_ARGUMENT], allowed=True, because="done by itself",
        arguments=msgspec.Raw(msgspec.json.encode(result)),
    )  # fmt: skip
    # An earlier attempt may have recorded its own numbers before it broke off.
    with suppress(SourceReused):
        context.unrestricted.append(log, [Draft(body=entry, source=source)], actor=context.principal)


def _project(context: Context, target: Target, ruling: Ruling) -> str:
    """The project whose log takes the entry. A refusal goes into the log of no project that the caller cannot see."""
    if not target.project:
        return ALL_PROJECTS
    if ruling.allowed:
        return target.project
    sees = any(context.caller.rule(right, target).allowed for right in Right)
    is_there = target.project in list_projects(context.unrestricted).values()
    return target.project if sees and is_there else ALL_PROJECTS


def _append_refusals(store: Store, principal: str, operation: str, count: int) -> None:
    because = f"refused {count} times more in one minute"
    entry = OperationCalled(operation=operation, allowed=False, because=because, count=count)
    store.append(control_log(store, ALL_PROJECTS, principal), [Draft(body=entry)], actor=principal)


def _arguments(operation: Operation, parsed: msgspec.Struct | None) -> msgspec.Raw:
    """The arguments that differ from their defaults. A value that is long, or may be content, is replaced by its
    hash.
    """
    if parsed is None:
        return msgspec.Raw(b"{}")
    defaults = {parameter.name: parameter.default for parameter in operation.parameters if not parameter.required}
    # A stream says nothing about what is in it.
    values = msgspec.to_builtins(parsed, enc_hook=lambda value: f"<{type(value).__name__}>")
    secret = {parameter.name for parameter in operation.parameters if parameter.is_secret}
    given = {
        name: _short(value)
        for name, value in values.items()
        if name not in secret and (name not in defaults or value != defaults[name])
    }
    return msgspec.Raw(msgspec.json.encode(given))


def _short(value: Any) -> Any:
    is_content = isinstance(value, list | dict) and any(isinstance(item, list | dict) for item in value)
    encoded = msgspec.json.encode(value)
    if len(encoded) <= LONGEST_ARGUMENT and not is_content:
        return value
    return {"sha256": sha256(encoded).hexdigest(), "bytes": len(encoded)}
