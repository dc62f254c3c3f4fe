"""Take a resume back: remove what it wrote, while nothing is new in it."""

import os
from pathlib import Path

import msgspec

from clew.model.access import Right
from clew.model.errors import Conflict
from clew.model.session import Session
from clew.service.handover.resumed import FIRST_EVENTS, is_untouched, mark_of
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.retention import erase
from clew.store.native_files.lookup import files_of


class TakenBack(msgspec.Struct, frozen=True, kw_only=True):
    """A resume that was taken back: its fork, the program, and the files that are gone."""

    session: str
    runtime: str
    files: list[str]


@operation(right=Right.ADMINISTER, audited=True, hidden=True)
def take_back(context: Context, session: Session) -> TakenBack:
    """Take back a resume: remove the files it wrote and erase its fork, if nothing was said in it since."""
    mark = mark_of(session.metadata)
    if not mark.resumed or mark.machine != context.machine:
        raise Conflict(f"session {session.id} was not written by a resume on this machine", session=session.id)
    head = context.store.head(session)
    if head.head > session.upto + FIRST_EVENTS:
        count = head.head - session.upto - FIRST_EVENTS
        raise Conflict(f"session {session.id} has gone on: {count} events since; nothing was taken back",
                       session=session.id)  # fmt: skip
    for file in files_of(context.store, session):
        path = file.path.partition("#")[0]
        if not file.erased and path == file.path and os.path.exists(path) and not is_untouched(file):
            raise Conflict(f"{path} has grown since; nothing was taken back", session=session.id, path=path)
    gone = [path for path in mark.resumed if os.path.exists(path) and _is_below_home(context, session, path)]
    for path in gone:
        Path(path).unlink()
    erase(context, session, reason="the resume was taken back")
    return TakenBack(session=session.id, runtime=mark.runtime, files=gone)


def _is_below_home(context: Context, session: Session, path: str) -> bool:
    """Whether a path of the metadata, which anybody can write, is of a file that belongs to the session."""
    folders = [Path(file.path).parent for file in files_of(context.store, session) if not file.erased]
    return any(Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)) for folder in folders)
