"""What becomes of a session in a program: reported before anything is written, and wherever the session is stored."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.session import Session
from clew.runtimes import names, resolve, runtime
from clew.runtimes.contract import Runtime
from clew.runtimes.fit import Fidelity
from clew.service.handover.resume_elsewhere import fitted_for, last_attached, writable
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.history import History
from clew.store.native_files.lookup import files_of


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that a session can go on in."""

    runtime: str
    title: str
    is_own: bool
    """Whether it is the program that the session ran in last."""


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a session in a program. `runtime` is empty when it ran in none, and none was named."""

    session: str
    runtime: str
    title: str
    cwd: str
    at: int
    """The event after which it goes on."""
    is_in_place: bool
    """Whether the session's own file is used as it is, so that nothing is converted."""
    is_empty: bool
    """Whether there is no conversation to go on with yet."""
    fidelity: Fidelity
    programs: list[Program]


@operation(right=Right.READ, route="GET /sessions/{session}/continuation", hidden=True)
def continuation(
    context: Context,
    session: Session,
    *,
    runtime: Annotated[str, msgspec.Meta(description="The program to go on in. [default: the session's own]")] = "",
    at: Annotated[int, msgspec.Meta(ge=1, description="Go on from this event instead of the last.")] | None = None,
) -> Continuation:
    """Say what a program would be given of a session, what changes on the way and what is lost; write nothing."""
    head = context.store.head(session).head
    if at is not None and at > head:
        raise InvalidInput(f"session {session.id} has events 1 to {head}; it cannot go on from {at}", head=head, at=at)
    attached = last_attached(context, session, at)
    own, cwd = (attached.runtime, attached.cwd) if attached is not None else ("", "")
    target = _target(runtime, own)
    programs = [Program(runtime=one.name, title=one.title, is_own=one.name == own) for one in _writable()]
    made = Continuation(
        session=session.id, runtime="", title="", cwd=cwd, at=at or head, is_in_place=False, is_empty=False,
        fidelity=Fidelity(carried={}), programs=sorted(programs, key=lambda program: not program.is_own),
    )  # fmt: skip
    if target is None:
        return made
    made = msgspec.structs.replace(made, runtime=target.name, title=target.title)
    records = _own_records(context, session, own) if at is None and target.name == own else 0
    if records:
        return msgspec.structs.replace(made, is_in_place=True, fidelity=Fidelity(carried={"records": records}))
    fitted = fitted_for(History(context.store, session, upto=at), target, attached, cwd, flatten=False)
    return msgspec.structs.replace(made, fidelity=fitted.fidelity, is_empty=not fitted.rounds)


def _own_records(context: Context, session: Session, own: str) -> int:
    """How many records the session's own files have, as they are stored."""
    return sum(file.records for file in files_of(context.store, session) if file.runtime == own and not file.erased)


def _writable() -> list[Runtime]:
    return [program for program in map(runtime, names()) if program.writer is not None]


def _target(wanted: str, own: str) -> Runtime | None:
    """The program that is named; else the session's own, if clew can write its sessions."""
    if wanted:
        return writable(wanted)
    target = runtime(resolve(own)) if own in names() else None
    return target if target is not None and target.writer is not None else None
