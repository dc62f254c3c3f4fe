"""Materialise: write a session in another program's own form, so that the program's own resume goes on with it.

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
from clew.model.course import identity
from clew.model.errors import ClewError, InvalidInput, Lossy, NotFound, Unavailable
from clew.model.events import Draft, RuntimeAttached, SessionClosed
from clew.model.session import Session
from clew.runtimes import names, resolve, runtime
from clew.runtimes.contract import Format, Native, Reading, Runtime, Target, Writer
from clew.runtimes.fit import Fidelity, Fitted, fit
from clew.runtimes.records import read_lines, read_records
from clew.runtimes.rehome import Rehoming
from clew.service.capture.discovery import home_of, look_at_file
from clew.service.capture.packed_files import SUFFIX, files_to_export
from clew.service.capture.reconcile import fork_at
from clew.service.handover import program_files
from clew.service.handover.brief import brief_of_history
from clew.service.handover.native_export import exact_pieces
from clew.service.handover.resumed import check_writable, written_before
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.history import History
from clew.store.log.opening import Forking
from clew.store.native_files.lookup import files_of, is_complete
from clew.store.native_files.native_file import FileUpdate, NativeFile, ends_digest_of, file_id_of
from clew.store.native_files.updates import apply_updates, set_fingerprint
from clew.store.objects import objects

IMPORT_SECONDS = 120


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is written: as text, not at all, or for a program that is run at once."""

    flatten: bool
    dry_run: bool
    to_run: bool


class Materialised(msgspec.Struct, frozen=True, kw_only=True):
    """A native session: how to go on with it, what was written, and what became of the conversation on the way."""

    session: str
    runtime: str
    command: list[str]
    cwd: str
    env: dict[str, str]
    native_id: str
    files: list[str]
    fidelity: Fidelity
    notes: list[str]


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
) -> Materialised:
    """Write a session as a native session of an agent program, ready to be resumed there."""
    how = How(flatten=flatten, dry_run=dry_run, to_run=to_run)
    head = context.store.head(session).head
    if at is not None and at > head:
        raise InvalidInput(f"session {session.id} has events 1 to {head}; it cannot go on from {at}", head=head, at=at)
    attached = _last_attached(context, session, at)
    target, directory = _where(session, runtime, cwd, attached)
    if at is None and not flatten and attached is not None:
        native = _own_native_session(context, session, target, attached, directory, how)
        if native is not None:
            return native
    history = History(context.store, session, upto=at)
    fitted = _fitted(history, target, attached, directory, flatten=flatten)
    if strict:
        _refuse_losses(target, fitted)
    if not fitted.rounds:
        raise InvalidInput(f"session {session.id} has no conversation to go on with yet", session=session.id)
    last = history.last
    before = written_before(context, session, target, directory, at=last, flat=flatten)
    if before is not None:
        return _again(target, *before, fitted, directory, how)
    return _write_elsewhere(context, session, target, fitted, directory, at=last, how=how)


def _where(session: Session, runtime: str, cwd: str, attached: RuntimeAttached | None) -> tuple[Runtime, str]:
    """The program to go on in, and the directory: the session's own, unless others are named."""
    if not runtime and attached is None:
        raise InvalidInput(f"session {session.id} ran in no agent program; name one to go on in", session=session.id)
    target = _target(runtime or (attached.runtime if attached else ""))
    return target, os.path.abspath(cwd or (attached.cwd if attached else "") or os.getcwd())


def _refuse_losses(target: Runtime, fitted: Fitted) -> None:
    if fitted.fidelity.dropped:
        lost = ", ".join(f"{change.count} {change.what} ({change.why})" for change in fitted.fidelity.dropped)
        raise Lossy(f"{target.title} cannot take everything: {lost}; leave out --strict to go on without", lost=lost)


def _again(target: Runtime, fork: Session, file: NativeFile, fitted: Fitted, directory: str, how: How) -> Materialised:
    """What an earlier resume wrote, and nothing else."""
    command = _writer(target).resume(file.native_id, file.path)
    return Materialised(
        session=fork.id, runtime=target.name, command=command.argv, cwd=directory, env=command.env,
        native_id=file.native_id, files=[file.path], fidelity=fitted.fidelity,
        notes=["written by an earlier resume", *_check_runnable(fork, target, command.argv, directory, how)],
    )  # fmt: skip


def _check_runnable(session: Session, target: Runtime, argv: list[str], directory: str, how: How) -> list[str]:
    """Refuse to go on if the program is to be run and cannot be; else what a person has to know."""
    if how.to_run and not os.path.isdir(directory):
        raise InvalidInput(f"the directory {directory} does not exist; name another to work in", session=session.id,
                           cwd=directory)  # fmt: skip
    if _which(argv[0]):
        return []
    if how.to_run:
        raise InvalidInput(
            f"{argv[0]} is not on the PATH, so nothing was written; install {target.title}, or write the session "
            "without running the program",
            session=session.id,
            program=argv[0],
        )
    return [f"{argv[0]} is not on the PATH; install {target.title} to run the command"]


def _write_elsewhere(
    context: Context, session: Session, target: Runtime, fitted: Fitted, directory: str, *, at: int, how: How
) -> Materialised:
    """Write a conversation as a new native session, and open the fork that it belongs to."""
    writer = _writer(target)
    wanted = Target(
        id=str(uuid.uuid4()), cwd=directory, at=context.store.now(), title=session.title,
        blob=partial(objects.load, context.store), file=lambda path: program_files.read(home_of(target), path),
    )  # fmt: skip
    native = writer.write(fitted.rounds, wanted)
    paths = _new_paths(target, native)
    command = writer.resume(native.id, str(paths[0]))
    notes = [*native.notes, *_check_runnable(session, target, command.argv, directory, how)]
    check_writable(paths)
    made = Materialised(
        session="", runtime=target.name, command=command.argv, cwd=directory, env=command.env,
        native_id=native.id, files=[str(path) for path in paths], fidelity=fitted.fidelity, notes=notes,
    )  # fmt: skip
    if how.dry_run:
        return made
    about = _metadata(context, session, target, native, paths, flat=how.flatten)
    with _other_files(paths[1:], native):
        fork = fork_at(context.store, session, at, about)
        child = _register(context, fork, target, native, paths, directory)
        _write_first_file(context, child, target, native, paths[0])
    notes += _import(native, target, paths[0], directory)
    return msgspec.structs.replace(made, session=child.id, notes=notes)


def _target(name: str) -> Runtime:
    target = runtime(resolve(name))
    if target.writer is None:
        from clew.runtimes.connect.connections import CONNECTIONS

        can = ", ".join(name for name in names() if runtime(name).writer is not None)
        brief = f"; `clew connect {target.name}` hands its next session a brief" if target.name in CONNECTIONS else ""
        raise InvalidInput(f"{target.title} cannot be written, only read{brief}; these can: {can}", runtime=target.name)
    return target


def _writer(target: Runtime) -> Writer:
    if target.writer is None:
        raise AssertionError("refused by _target")
    return target.writer


def _last_attached(context: Context, session: Session, upto: int | None) -> RuntimeAttached | None:
    attached = None
    for event in context.store.read(session, kinds=(RuntimeAttached.kind,), upto=upto):
        if isinstance(event.body, RuntimeAttached):
            attached = event.body
    return attached


def _fitted(
    history: History, target: Runtime, attached: RuntimeAttached | None, directory: str, *, flatten: bool
) -> Fitted:
    outline = history.outline()
    ran_in = {event.body.runtime for event in outline.events if isinstance(event.body, RuntimeAttached)}
    return fit(
        outline,
        target,
        tools={name: runtime(name).tools for name in ran_in if name in names()},
        rehoming=Rehoming(attached.cwd, directory) if attached and attached.cwd else None,
        flatten=flatten,
        brief=partial(brief_of_history, history),
    )


# The same program ---------------------------------------------------------------------------------------------------


def _own_native_session(
    context: Context, session: Session, target: Runtime, attached: RuntimeAttached, directory: str, how: How
) -> Materialised | None:
    """The session's own native form, when that is what is asked for and it belongs to this home."""
    if attached.runtime != target.name or (attached.cwd and os.path.abspath(attached.cwd) != directory):
        return None
    root = os.path.realpath(home_of(target))
    for native_file in reversed(files_to_export(files_of(context.store, session), exact=False)):
        path = native_file.path.partition("#")[0]
        if not os.path.exists(path) and os.path.exists(f"{path}{SUFFIX}"):
            path = f"{path}{SUFFIX}"  # The program has packed it, and knows where to look.
        is_here = native_file.machine == context.machine and Path(os.path.realpath(path)).is_relative_to(root)
        if native_file.erased or native_file.runtime != target.name or not is_here:
            continue
        command = _writer(target).resume(native_file.native_id, path)
        notes = _check_runnable(session, target, command.argv, directory, how)
        if not os.path.exists(path) and not _put_back(context, target, native_file, Path(path), dry_run=how.dry_run):
            continue  # The conversation is written anew, as for another program.
        return Materialised(
            session=session.id, runtime=target.name, command=command.argv, cwd=directory, env=command.env,
            native_id=native_file.native_id, files=[path], notes=notes,
            fidelity=Fidelity(carried={"records": native_file.records}),
        )  # fmt: skip
    return None


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
    _restamp(context, native_file)
    return True


def _format(target: Runtime, native_file: NativeFile) -> Format:
    return next(format for format in target.formats if format.name == native_file.format)


def _restamp(context: Context, native_file: NativeFile) -> None:
    seen = look_at_file(native_file.path, native_file.runtime, native_file.format)
    if seen is not None:
        set_fingerprint(context.store, native_file, seen.fingerprint)


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
        _restamp(context, native_file)


def _which(program: str) -> str | None:
    from shutil import which

    return which(program)


def _import(native: Native, target: Runtime, file: Path, directory: str) -> list[str]:
    """Run the program's own import command, if a session has to be added with it."""
    if native.door is None:
        return []
    import subprocess

    argv = [word.replace("{file}", str(file)) for word in native.door]
    if not _which(argv[0]):
        return [f"first run, in {directory}: {' '.join(argv)}"]
    by_hand = f"the session waits for it: run, in {directory}: {' '.join(argv)}"
    try:
        done = subprocess.run(
            argv, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=IMPORT_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{target.title} could not import {file}: {error}; {by_hand}") from error
    if done.returncode:
        output = (done.stderr or done.stdout).strip()[-400:]
        raise Unavailable(f"{target.title} did not import {file} (exit {done.returncode}): {output}; {by_hand}")
    return []


def _register(
    context: Context, fork: Forking, target: Runtime, native: Native, paths: list[Path], directory: str
) -> Session:
    """Open the fork and remember what is going to be written, so that only what comes after it is captured into it."""
    lines = next((format for format in target.formats if format.split is None and format.rows is None), None)
    rows = next((format for format in target.formats if format.rows is not None), None)
    attached = RuntimeAttached(runtime=target.name, native=native.id, cwd=directory, machine=context.machine)
    drafts = [Draft(body=attached, source=f"clew:{native.id}")]
    data = native.files[0].data
    if native.door is not None and rows is not None:
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
