"""Resume a session in the program it came from: its own native file, or that file put back byte for byte."""

import os
from pathlib import Path

from clew.model.events import RuntimeAttached
from clew.model.session import Session
from clew.runtimes.contract import Command, Format, Runtime
from clew.runtimes.fit import Fidelity
from clew.service.capture.discovery import home_of
from clew.service.capture.packed_files import SUFFIX, files_to_export
from clew.service.handover import program_files
from clew.service.handover.materialised import (
    Materialised,
    ResumeOptions,
    check_runnable,
    update_fingerprint,
)
from clew.service.handover.native_export import exact_pieces
from clew.service.handover.resumed import check_writable
from clew.service.handover.running import note_of_running
from clew.service.kernel.context import Context
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.stored_bytes import is_complete


def own_native_session(
    context: Context,
    session: Session,
    target: Runtime,
    attached: RuntimeAttached,
    directory: str,
    options: ResumeOptions,
) -> Materialised | None:
    """The session's own native form, when that is what is asked for and it belongs to this home."""
    if attached.runtime != target.name or (attached.cwd and os.path.realpath(attached.cwd) != directory):
        return None
    root = os.path.realpath(home_of(target))
    for native_file in reversed(files_to_export(files_of(context.store, session), exact=False)):
        path = native_file.path.partition("#")[0]
        if not os.path.exists(path) and os.path.exists(f"{path}{SUFFIX}"):
            path = f"{path}{SUFFIX}"  # The program has packed it, and knows where to look.
        is_here = native_file.machine == context.machine and Path(os.path.realpath(path)).is_relative_to(root)
        if native_file.erased or native_file.runtime != target.name or not is_here:
            continue
        command = _resume_command(target, native_file, path)
        if command is None:
            continue
        notes = [
            *check_runnable(session, target, command.argv, directory, options),
            *note_of_running(target, directory),
        ]
        if not os.path.exists(path) and not _put_back(
            context, target, native_file, Path(path), dry_run=options.dry_run
        ):
            continue  # The conversation is written as a new session, as for another program.
        return Materialised(
            session=session.id, runtime=target.name, command=command.argv, cwd=directory, env=command.env,
            native_id=native_file.native_id, files=[path], notes=notes,
            fidelity=Fidelity(carried={"records": native_file.records}),
        )  # fmt: skip
    return None


def _resume_command(target: Runtime, native_file: NativeFile, path: str) -> Command | None:
    """How the program resumes its own session; None if that is not known for sessions of this format."""
    reopen = _format(target, native_file).reopen
    if reopen is not None:
        return reopen(native_file.native_id)
    return target.writer.resume(native_file.native_id, path) if target.writer is not None else None


def _put_back(context: Context, target: Runtime, native_file: NativeFile, path: Path, *, dry_run: bool) -> bool:
    """Write a native file again that the program has deleted, byte for byte; False where that cannot be done.

    A database is not put back, nor is a file of which a retention policy has removed something.
    """
    if _format(target, native_file).rows is not None or not is_complete(context.store, native_file):
        return False
    check_writable([path])
    if dry_run:
        return True
    program_files.write_new(path, exact_pieces(context.store, native_file))
    update_fingerprint(context, native_file)
    return True


def _format(target: Runtime, native_file: NativeFile) -> Format:
    return next(format for format in target.formats if format.name == native_file.format)
