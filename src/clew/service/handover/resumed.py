"""Sessions that a resume wrote: the same resume finds its session again while nothing is new in it."""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew.model.errors import StoreError
from clew.model.events import RuntimeAttached
from clew.model.session import Session, State
from clew.runtimes.contract import Runtime
from clew.service.capture.discovery import home_of, session_file_at
from clew.service.capture.reconcile import fork_at
from clew.service.kernel.context import Context
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import NativeFile

# The events that a fork begins with: that it was forked, and in which program it continues.
FIRST_EVENTS = 2


class Mark(msgspec.Struct, frozen=True):
    """What the metadata of a fork says of it, when a resume wrote it: its program, its machine and its files."""

    runtime: str = ""
    machine: str = ""
    resumed: list[str] = []
    flat: bool = False


def mark_of(metadata: str | msgspec.Raw) -> Mark:
    try:
        return msgspec.json.decode(metadata or "{}", type=Mark)
    except msgspec.DecodeError:
        return Mark()  # Any caller may write metadata.


class WrittenBefore(NamedTuple):
    """What an earlier resume wrote: its fork, its native id, and the first file."""

    fork: Session
    native_id: str
    path: str


def written_before(
    context: Context, session: Session, target: Runtime, directory: str, *, at: int, flat: bool
) -> WrittenBefore | None:
    """The fork that an earlier resume wrote for the same program from the same event, if nothing is new in it."""
    parent = fork_at(context.store, session, at, "").parent
    for child in context.store.children(parent):
        fork = context.store.session(child.id)
        mark = mark_of(fork.metadata)
        asked = (target.name, context.machine, flat)
        if child.at != at or not mark.resumed or (mark.runtime, mark.machine, mark.flat) != asked:
            continue
        before = _untouched(context, fork, target, mark)
        if before is not None and _directory(context, fork) == directory:
            return before
    return None


def _untouched(context: Context, fork: Session, target: Runtime, mark: Mark) -> WrittenBefore | None:
    head = context.store.head(fork)
    if head.state == State.ERASED or head.head > fork.upto + FIRST_EVENTS:
        return None
    files = [file for file in files_of(context.store, fork) if not file.erased]
    if len(files) != 1:
        return None
    if target.writer is not None and target.writer.prepare:
        # The program imports the written file, and keeps what was said since if it imported it before.
        path = mark.resumed[0]
        is_own = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(home_of(target)))
        return WrittenBefore(fork, files[0].native_id, path) if is_own and os.path.isfile(path) else None
    return WrittenBefore(fork, files[0].native_id, files[0].path) if is_untouched(files[0]) else None


def is_untouched(file: NativeFile) -> bool:
    seen = session_file_at(file.path, file.runtime, file.format)
    return seen is not None and seen.fingerprint == file.fingerprint


def _directory(context: Context, fork: Session) -> str:
    """The directory in which the fork continues, from its own event."""
    events = context.store.read(fork, after=fork.upto, kinds=(RuntimeAttached.kind,))
    return next((event.body.cwd for event in events if isinstance(event.body, RuntimeAttached)), "")


def check_writable(paths: list[Path]) -> None:
    """Refuse before anything is written if a file could not be."""
    for path in paths:
        folder = next(parent for parent in path.parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise StoreError(f"cannot write {path}, so nothing was written; check {folder} and its permissions")
