"""Materialise: write a session in another program's own form, so that the program's own resume continues it.

Where the session already is a native session of that program, nothing is converted: its file is used as it is, or put
back byte for byte if the program has deleted it. Otherwise the conversation is fitted to the target, written as a new
native session, and a fork is opened for it: what is captured from that file later is the fork's own.

clew records the fork and the content of the file first, in one commit, and then puts the file in place. Files beside it
are written earlier, because no capture takes one for a session. A process that is killed in between leaves a fork
without a file, which is written when the fork is resumed. In the other order the next capture would read the file as an
unknown session.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import ClewError, InvalidInput, Lossy, NotFound
from clew.model.events import Draft, RuntimeAttached, SessionClosed, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.session import Session
from clew.model.source import identity
from clew.runtimes import names, resolve, runtime
from clew.runtimes.contract import Native, Reading, Runtime, Target
from clew.runtimes.fit import Fitted, fit
from clew.runtimes.records import read_lines, read_records
from clew.runtimes.rehome import Rehoming
from clew.service.capture.discovery import home_of
from clew.service.capture.reconcile import fork_at
from clew.service.handover import program_files
from clew.service.handover.materialised import (
    Materialised,
    ResumeOptions,
    check_runnable,
    preparation,
    update_fingerprint,
    writer_of,
)
from clew.service.handover.resumed import WrittenBefore, check_writable, written_before
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.history import History
from clew.store.log.opening import Forking
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import FileUpdate, ends_digest_of, file_id_of
from clew.store.native_files.updates import apply_updates
from clew.store.objects import objects


@operation(right=Right.APPEND, hidden=True)
def materialise(
    context: Context,
    session: Session,
    *,
    runtime: Annotated[str, msgspec.Meta(description="The program to go on in. [default: the session's own]")] = "",
    cwd: Annotated[str, msgspec.Meta(description="The directory to work in.")] = "",
    at: Annotated[int, msgspec.Meta(ge=1, description="Go on from this event instead of the last.")] | None = None,
    strict: Annotated[bool, msgspec.Meta(description="Refuse if anything would be dropped.")] = False,
    flatten: Annotated[bool, msgspec.Meta(description="Tell calls and results as text.")] = False,
    dry_run: Annotated[bool, msgspec.Meta(description="Check everything and write nothing.")] = False,
    to_run: Annotated[bool, msgspec.Meta(description="Refuse if the program cannot be run here.")] = False,
    files_in: Annotated[str, msgspec.Meta(description="The folder that its files will be in, if it is another.")] = "",
) -> Materialised:
    """Write a session as a native session of an agent program, ready to be resumed there."""
    options = ResumeOptions(flatten=flatten, dry_run=dry_run, to_run=to_run, files_in=files_in)
    head = context.store.head(session).head
    if at is not None and at > head:
        raise InvalidInput(f"session {session.id} has events 1 to {head}; it cannot go on from {at}", head=head, at=at)
    attached = last_attached(context, session, at)
    target, directory = _target_and_directory(session, runtime, cwd, attached)
    if at is None and not flatten and attached is not None and attached.runtime == target.name:
        from clew.service.handover.resume_in_place import (
            own_native_session,  # Loads zstandard and the masking of files.
        )

        native = own_native_session(context, session, target, attached, directory, options)
        if native is not None:
            return native
    writable(target.name)
    history = History(context.store, session, upto=at)
    moved = _moved(context, session, attached, directory, at, files_in)
    fitted = fitted_for(history, target, attached, directory, flatten=flatten, moved=moved)
    if strict:
        _refuse_losses(target, fitted)
    if not fitted.rounds:
        raise InvalidInput(f"session {session.id} has no conversation to go on with yet", session=session.id)
    last = history.last
    before = written_before(context, session, target, directory, at=last, flat=flatten)
    if before is not None:
        return _repeat(target, before, fitted, directory, options)
    return _write_elsewhere(context, session, target, fitted, directory, at=last, options=options)


def _target_and_directory(
    session: Session, runtime: str, cwd: str, attached: RuntimeAttached | None
) -> tuple[Runtime, str]:
    """The program to go on in, and the directory: the session's own, unless others are named."""
    if not runtime and attached is None:
        raise InvalidInput(f"session {session.id} ran in no agent program; name one to go on in", session=session.id)
    name = runtime or (attached.runtime if attached else "")
    is_own = attached is not None and resolve(name) == attached.runtime
    target = own_program(name) if is_own else writable(name)
    # Programs see the folder itself, and not a link to it: they file their sessions under its real path.
    return target, os.path.realpath(cwd or (attached.cwd if attached else "") or os.getcwd())


def _refuse_losses(target: Runtime, fitted: Fitted) -> None:
    if fitted.fidelity.dropped:
        lost = ", ".join(f"{change.count} {change.what} ({change.why})" for change in fitted.fidelity.dropped)
        raise Lossy(f"{target.title} cannot take everything: {lost}; leave out --strict to go on without", lost=lost)


def _repeat(
    target: Runtime, before: WrittenBefore, fitted: Fitted, directory: str, options: ResumeOptions
) -> Materialised:
    """What an earlier resume wrote, and nothing else."""
    from clew.service.handover.running import note_of_running  # Few resumes are repeated.

    fork, first = before.fork, before.path
    command = writer_of(target).resume(before.native_id, first)
    return Materialised(
        session=fork.id, runtime=target.name, command=command.argv, cwd=directory, env=command.env,
        native_id=before.native_id, files=[first], fidelity=fitted.fidelity,
        notes=["written by an earlier resume", *check_runnable(fork, target, command.argv, directory, options),
               *note_of_running(target, directory)],
        prepare=preparation(target, first),
    )  # fmt: skip


def _write_elsewhere(
    context: Context,
    session: Session,
    target: Runtime,
    fitted: Fitted,
    directory: str,
    *,
    at: int,
    options: ResumeOptions,
) -> Materialised:
    """Write a conversation as a new native session, and open the fork that it belongs to."""
    writer = writer_of(target)
    wanted = Target(
        id=str(uuid.uuid4()), cwd=directory, at=context.store.now(), title=session.title,
        blob=partial(objects.load, context.store), file=lambda path: program_files.read(home_of(target), path),
    )  # fmt: skip
    native = writer.write(fitted.rounds, wanted)
    paths = _new_paths(target, native)
    command = writer.resume(native.id, str(paths[0]))
    notes = [*native.notes, *check_runnable(session, target, command.argv, directory, options)]
    check_writable(paths)
    made = Materialised(
        session="", runtime=target.name, command=command.argv, cwd=directory, env=command.env,
        native_id=native.id, files=[str(path) for path in paths], fidelity=fitted.fidelity, notes=notes,
        prepare=preparation(target, str(paths[0])),
    )  # fmt: skip
    if options.dry_run:
        return made
    about = _metadata(context, session, target, native, paths, flat=options.flatten)
    with _other_files(paths[1:], native):
        fork = fork_at(context.store, session, at, about)
        child = _register(context, fork, target, native, paths, directory)
        _write_first_file(context, child, target, native, paths[0])
    return msgspec.structs.replace(made, session=child.id)


def own_program(name: str) -> Runtime:
    """A program that may go on with a session of its own: one that clew can write, or that can be told to reopen it."""
    target = runtime(resolve(name))
    return target if any(format.reopen is not None for format in target.formats) else writable(name)


def writable(name: str) -> Runtime:
    target = runtime(resolve(name))
    if target.writer is None:
        from clew.runtimes.connect.connections import CONNECTIONS

        can = ", ".join(name for name in names() if runtime(name).writer is not None)
        brief = f"; `clew connect {target.name}` hands its next session a brief" if target.name in CONNECTIONS else ""
        raise InvalidInput(f"{target.title} cannot be written, only read{brief}; these can: {can}", runtime=target.name)
    return target


def last_attached(context: Context, session: Session, upto: int | None) -> RuntimeAttached | None:
    attached = None
    for event in context.store.read(session, kinds=(RuntimeAttached.kind,), upto=upto):
        if isinstance(event.body, RuntimeAttached):
            attached = event.body
    return attached


def fitted_for(
    history: History,
    target: Runtime,
    attached: RuntimeAttached | None,
    directory: str,
    *,
    flatten: bool,
    moved: tuple[str, str] | None = None,
) -> Fitted:
    outline = history.outline()
    ran_in = {event.body.runtime for event in outline.events if isinstance(event.body, RuntimeAttached)}
    programs = [runtime(name) for name in ran_in if name in names()]
    return fit(
        outline,
        target,
        tools={program.name: program.tools for program in programs},
        unsent={program.name: program.unsent for program in programs},
        rehoming=Rehoming(*(moved or (attached.cwd, directory))) if attached and attached.cwd else None,
        flatten=flatten,
        brief=partial(_brief, history),
    )


def _moved(
    context: Context,
    session: Session,
    attached: RuntimeAttached | None,
    directory: str,
    at: int | None,
    files_in: str,
) -> tuple[str, str] | None:
    """The folder of the files and where they are now, if the program works in or below both of them."""
    if not files_in or attached is None or not attached.cwd:
        return None
    from clew.service.workspaces.points import point_at
    from clew.service.workspaces.whereabouts import is_in

    body = point_at(context, session, at).event.body
    was = body.workspace.folder if isinstance(body, WorkspaceSnapshotted | WorkspaceRestored) else ""
    return (was, files_in) if was and is_in(attached.cwd, was) and is_in(directory, files_in) else None


def _brief(history: History) -> str:
    from clew.service.handover.brief import brief_of_history  # Only a target without room for everything needs it.

    return brief_of_history(history)


# Another program ----------------------------------------------------------------------------------------------------


def _metadata(
    context: Context, session: Session, target: Runtime, native: Native, paths: list[Path], *, flat: bool
) -> str:
    """What the metadata of the fork says: as the session's, but for where it is, and that no call began it."""
    known = msgspec.json.decode(session.metadata or "{}", type=dict[str, msgspec.Raw])
    others = ("parent", "call", "resumed", "flat")
    about: dict[str, Any] = {name: value for name, value in known.items() if name not in others}
    about |= {"runtime": target.name, "native": native.id, "machine": context.machine}
    about |= {"resumed": [str(path) for path in paths]} | ({"flat": True} if flat else {})
    return msgspec.json.encode(about).decode()


def _new_paths(target: Runtime, native: Native) -> list[Path]:
    """Where the files go; nothing is there yet."""
    paths = [program_files.inside(home_of(target), file.path) for file in native.files]
    for path in paths:
        program_files.refuse_if_there(path)
    return paths


@contextmanager
def _other_files(paths: list[Path], native: Native) -> Iterator[None]:
    """All files of a native session but the first, which is the one that is captured; gone again if the block fails.

    They are put in place before anything is recorded: a fork whose first file is missing gets that one back.
    """
    written: list[Path] = []
    try:
        for path, file in zip(paths, native.files[1:], strict=True):
            program_files.write_new(path, [file.data])
            written.append(path)
        yield
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _write_first_file(context: Context, child: Session, target: Runtime, native: Native, path: Path) -> None:
    """Put the first file in place; without it the fork is closed, and says why."""
    try:
        program_files.write_new(path, [native.files[0].data])
    except BaseException as error:
        closed = SessionClosed(outcome="failed", summary=f"it could not be written for {target.title}: {error}")
        # An open fork does no harm either; what is wrong with the store is not what went wrong here.
        with suppress(ClewError):
            context.store.append(child, [Draft(body=closed)], actor=context.principal)
        raise
    for native_file in files_of(context.store, child):
        update_fingerprint(context, native_file)


def _register(
    context: Context, fork: Forking, target: Runtime, native: Native, paths: list[Path], directory: str
) -> Session:
    """Open the fork and remember what is going to be written, so that only what comes after it is captured into it."""
    lines = next((format for format in target.formats if format.split is None and format.rows is None), None)
    rows = next((format for format in target.formats if format.rows is not None), None)
    attached = RuntimeAttached(runtime=target.name, native=native.id, cwd=directory, machine=context.machine)
    drafts = [Draft(body=attached, source=f"clew:{native.id}")]
    data = native.files[0].data
    if writer_of(target).prepare and rows is not None:
        path, format, kept = f"{home_of(target) / rows.patterns[0]}#{native.id}", rows, b""
        state, written, translated, opaque = "{}", _identities_of_document(target, native, data), 0, 0
    elif lines is not None:
        path, format, kept = str(paths[0]), lines, data
        reading = Reading(target.name, native.id, format.state())
        done = read_lines(format, reading, data)
        state = msgspec.json.encode(reading.state).decode()
        written, translated, opaque = [identity(draft.source) for draft in done.drafts], done.translated, done.opaque
    else:
        raise NotFound(f"{target.title} has no format to capture from; this adapter is incomplete")
    root = next((name for name in written if name and "@" not in name), "")
    [child] = apply_updates(
        context.store,
        [
            FileUpdate(
                file_id=file_id_of(context.machine, target.name, path), machine=context.machine, runtime=target.name,
                format=format.name, path=path, native_id=native.id, fingerprint="", before=None,
                into=fork, drafts=drafts, data=kept, start=0, generation=0, read_bytes=len(kept),
                ends_digest=ends_digest_of(kept, kept), state=state, translated=translated, opaque=opaque,
                quarantined=0, root=root, written=msgspec.json.encode(sorted(written)).decode(),
            )
        ],
        actor=context.principal,
    )  # fmt: skip
    if isinstance(child, ClewError):
        raise child
    return child


def _identities_of_document(target: Runtime, native: Native, data: bytes) -> list[str]:
    """The sources of what was written for import, as the program's own store will show them."""
    for format in target.formats:
        if format.split is not None and format.rows is None:
            done = read_records(format, Reading(target.name, native.id, format.state()), format.split(data))
            return [identity(draft.source) for draft in done.drafts]
    return []
