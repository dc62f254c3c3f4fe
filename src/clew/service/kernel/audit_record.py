"""The audit record of a call, in the control log of its project.

An event that an operation appends to a session carries its actor already. A call that leaves no such event is recorded
here, and so is every refusal.
"""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import msgspec

from clew.model.access import Ruling, Target
from clew.model.errors import SourceReused
from clew.model.events import Draft, OperationCalled
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Operation
from clew.store import Store
from clew.store.projects import control_log, list_projects

# The control log of what concerns no project in particular.
WHOLE = "*"
LONGEST_ARGUMENT = 200
LONGEST_REASON = 500


def record(
    context: Context, operation: Operation, target: Target, ruling: Ruling, parsed: msgspec.Struct | None = None
) -> None:
    # Whoever asks need not be able to see the log that their asking is recorded in.
    store = context.unrestricted
    project = target.project or WHOLE
    if not ruling.allowed and project not in list_projects(store).values():
        # Whoever is refused makes no project by it.
        project = WHOLE
    log = control_log(store, project, context.principal)
    entry = OperationCalled(
        operation=operation.name, target=(target.session or target.project)[:LONGEST_ARGUMENT], allowed=ruling.allowed,
        because=ruling.because[:LONGEST_REASON], arguments=_arguments(parsed), credential=context.credential.id,
        made=tuple(context.touched.made), ended=tuple(context.touched.ended),
    )  # fmt: skip
    store.append(log, [Draft(body=entry)], actor=context.principal)


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
    entry = OperationCalled(
        operation=operation, allowed=allowed, because=because[:LONGEST_REASON], credential=credential,
        made=(f"credential {made}",) if made else (), arguments=msgspec.Raw(msgspec.json.encode(dict(facts))),
    )  # fmt: skip
    store.append(control_log(store, WHOLE, actor), [Draft(body=entry)], actor=actor)


def record_job(context: Context, name: str, project: str, result: dict[str, Any], *, source: str) -> None:
    """Record what a job did; the same source is recorded once."""
    log = control_log(context.unrestricted, project or WHOLE, context.principal)
    entry = OperationCalled(
        operation=name, target=project[:LONGEST_ARGUMENT], allowed=True, because="done by itself",
        arguments=msgspec.Raw(msgspec.json.encode(result)),
    )  # fmt: skip
    # An earlier attempt may have recorded its own numbers before it broke off.
    with suppress(SourceReused):
        context.unrestricted.append(log, [Draft(body=entry, source=source)], actor=context.principal)


def _arguments(parsed: msgspec.Struct | None) -> msgspec.Raw:
    """The arguments that differ from their defaults, as long as they are short."""
    if parsed is None:
        return msgspec.Raw(b"{}")
    given = {
        name: value
        for name, value in msgspec.to_builtins(parsed).items()
        if value not in (None, "", [], False) and len(str(value)) <= LONGEST_ARGUMENT
    }
    return msgspec.Raw(msgspec.json.encode(given))
