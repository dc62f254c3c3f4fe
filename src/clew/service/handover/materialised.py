"""A native session that is ready to be resumed in a program, and the checks before one is returned."""

import os

import msgspec

from clew.model.errors import InvalidInput
from clew.model.plain import plain
from clew.model.session import Session
from clew.runtimes.contract import Runtime, Writer
from clew.runtimes.fit import Fidelity
from clew.service.capture.discovery import session_file_at
from clew.service.kernel.context import Context
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.updates import set_fingerprint


class ResumeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is written: as text, not at all, or for a program that is run at once."""

    flatten: bool
    dry_run: bool
    to_run: bool
    files_in: str = ""
    """The folder that its files are written into after this, if they are not where they were."""


class Materialised(msgspec.Struct, frozen=True, kw_only=True):
    """A native session: the command that resumes it, what was written, and how faithful the conversation is.

    `prepare` are the commands to run before `command`, in the same directory and in this order.
    """

    session: str
    runtime: str
    command: list[str]
    cwd: str
    env: dict[str, str]
    native_id: str
    files: list[str]
    fidelity: Fidelity
    notes: list[str]
    prepare: list[list[str]] = []


def command_line(made: Materialised) -> str:
    """The commands that prepare and resume it, in its directory and with its settings, as a person pastes them."""
    settings = "".join(f"{name}={quoted(value)} " for name, value in made.env.items())
    steps = [" ".join(map(quoted, step)) for step in made.prepare]
    return " && ".join([f"cd {quoted(made.cwd)}", *steps, settings + " ".join(map(quoted, made.command))])


def quoted(word: str) -> str:
    """The word quoted for a shell; control characters are escaped."""
    import shlex

    if plain(word) == word:
        return shlex.quote(word)
    spelled = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in os.fsencode(word))
    return f"$'{''.join(spelled)}'"


def writer_of(target: Runtime) -> Writer:
    if target.writer is None:
        raise AssertionError(f"{target.name} cannot be written")
    return target.writer


def preparation(target: Runtime, file: str) -> list[list[str]]:
    """The commands that make a written session ready to be resumed; `file` is its first file."""
    return [[word.replace("{file}", file) for word in command] for command in writer_of(target).prepare]


def check_runnable(
    session: Session, target: Runtime, argv: list[str], directory: str, options: ResumeOptions
) -> list[str]:
    """Refuse to go on if the program is to be run and cannot be; else what the user has to know."""
    notes = []
    if not os.path.isdir(directory) and not options.files_in:
        missing = f"the directory {directory} does not exist"
        if options.to_run:
            raise InvalidInput(f"{missing}; name another to work in", session=session.id, cwd=directory)
        notes.append(f"{missing}, so the command fails here")
    if which(argv[0]):
        return notes
    if options.to_run:
        raise InvalidInput(
            f"{argv[0]} is not on the PATH, so nothing was written; install {target.title}, or write the session "
            "without running the program",
            session=session.id,
            program=argv[0],
        )
    return [*notes, f"{argv[0]} is not on the PATH; install {target.title} to run the command"]


def which(program: str) -> str | None:
    import shutil

    return shutil.which(program)


def update_fingerprint(context: Context, native_file: NativeFile) -> None:
    seen = session_file_at(native_file.path, native_file.runtime, native_file.format)
    if seen is not None:
        set_fingerprint(context.store, native_file, seen.fingerprint)
