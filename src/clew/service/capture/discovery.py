"""Discover the session files of agent programs on this machine, and recognise which program wrote a file."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from functools import cache
from pathlib import Path, PurePath
from typing import BinaryIO

import msgspec

from clew.capture_cache import file_fingerprint, fingerprint
from clew.model.errors import InvalidInput, NotFound
from clew.runtimes import absent, present, recognisers, runtime, sources
from clew.runtimes.contract import Format, Runtime

HEAD_BYTES = 64 * 1024
SQLITE = b"SQLite format 3\0"

Fingerprints = dict[str, str | None]
"""The fingerprint of every path that was looked at, as capture_cache.py computes it."""


class SessionFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that holds a session, or a database that holds many."""

    runtime: str
    format: str
    path: str
    size: int
    fingerprint: str


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """The session files that were found. The answer is valid while every fingerprint is unchanged.

    `unrecognised` are the other files below folders that a person named.
    """

    session_files: list[SessionFile]
    fingerprints: Fingerprints = {}
    unrecognised: list[str] = []


def discover(*, runtime_name: str = "", home: str = "") -> Discovery:
    """Find every session file below the runtimes' own folders. A file with two names there counts once."""
    base = Path(home) if home else Path.home()
    wanted = [runtime(runtime_name)] if runtime_name else list(present(base, variables=not home))
    fingerprints: Fingerprints = dict.fromkeys(absent(base))
    fingerprints |= {path: fingerprint(path) for path in sources()}
    by_path: dict[str, SessionFile] = {}
    for program in wanted:
        root = str(home_of(program, home))
        files: set[tuple[int, int]] = set()
        for format in program.formats:
            for path in sorted(_paths(format, root, fingerprints, variables=not home)):
                if path in by_path or not (status := _status_of_file(path)):
                    fingerprints.setdefault(path, fingerprint(path))
                    continue
                if (status.st_dev, status.st_ino) not in files:
                    files.add((status.st_dev, status.st_ino))
                    by_path[path] = _session_file(path, program.name, format.name, status)
                fingerprints[path] = file_fingerprint(status)
    session_files = sorted(by_path.values(), key=lambda session_file: (session_file.runtime, session_file.path))
    return Discovery(session_files=session_files, fingerprints=fingerprints)


def _paths(format: Format, root: str, fingerprints: Fingerprints, *, variables: bool) -> Iterator[str]:
    """The paths that match a format's patterns, below its program's home and folders that the environment names."""
    folders = [(root, format.patterns)]
    if variables:
        named = ((os.environ.get(variable), patterns) for variable, patterns in format.elsewhere.items())
        folders += [(os.path.expanduser(folder), patterns) for folder, patterns in named if folder]
    for folder, patterns in folders:
        for pattern in patterns:
            yield from _matches(folder, pattern.split("/"), fingerprints)


def recognise_files(paths: Iterable[str], runtime_name: str = "") -> Discovery:
    """Find the session files among these files and below these folders, by their content."""
    by_path: dict[str, SessionFile] = {}
    unrecognised: list[str] = []
    for named_path in paths:
        if not os.path.lexists(named_path):
            raise NotFound(f"no file {printable_path(named_path)}; check the path", path=printable_path(named_path))
        for path in _files_below(named_path) if os.path.isdir(named_path) else [named_path]:
            is_named = path == named_path
            name, format = recognise(path, runtime_name, is_named=is_named)
            if name and (session_file := session_file_at(os.path.abspath(path), name, format)):
                by_path[session_file.path] = session_file
            elif is_named:
                from clew.service.capture.unrecognised import why_unrecognised  # Only for an error.

                raise InvalidInput(why_unrecognised(path, printable_path(path)), path=printable_path(path))
            else:
                unrecognised.append(path)
    return Discovery(session_files=list(by_path.values()), unrecognised=unrecognised)


def recognise(path: str, runtime_name: str = "", *, is_named: bool = True) -> tuple[str, str]:
    """The runtime and the format of a file, by its beginning; empty if no runtime recognises it.

    A file that a person named together with its runtime has that runtime's first format, if no other fits.
    """
    wanted = [runtime(runtime_name)] if runtime_name else recognisers()
    try:
        with open_file(path) as file:
            head = file.read(HEAD_BYTES)
    except (OSError, InvalidInput) as error:
        if is_named:
            reason = getattr(error, "strerror", error)
            raise InvalidInput(f"{printable_path(path)} cannot be read: {reason}") from error
        return "", ""
    for program in wanted:
        for format in program.formats:
            if head.startswith(SQLITE) == (format.rows is not None) and format.recognises(PurePath(path), head):
                return program.name, format.name
    if runtime_name and is_named and wanted[0].formats:
        return runtime_name, wanted[0].formats[0].name
    return "", ""


def home_of(program: Runtime, home: str = "") -> Path:
    """The folder of a runtime: below `home` if that is given, else where the environment says."""
    if home:
        return Path(home) / program.home
    variable = os.environ.get(program.home_variable, "") if program.home_variable else ""
    if variable:
        return Path(variable) / program.home_below
    return Path.home() / program.home


def session_file_at(path: str, runtime_name: str, format_name: str) -> SessionFile | None:
    """A session file as it is now; None if it is gone or is not a regular file."""
    status = _status_of_file(path)
    return _session_file(path, runtime_name, format_name, status) if status else None


def format_of(session_file: SessionFile) -> Format:
    """The format of a session file."""
    return next(format for format in runtime(session_file.runtime).formats if format.name == session_file.format)


def open_file(path: str) -> BinaryIO:
    """Open a regular file for reading; refuse anything else, because reading a pipe could block for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidInput(f"{printable_path(path)} is not a file")
    return open(descriptor, "rb")


def printable_path(path: str) -> str:
    """A path as text that every database and terminal accepts: bytes that are not UTF-8 are spelled out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _status_of_file(path: str) -> os.stat_result | None:
    """The status of a regular file; None for anything else."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _session_file(path: str, runtime_name: str, format_name: str, status: os.stat_result) -> SessionFile:
    return SessionFile(
        runtime=runtime_name,
        format=format_name,
        path=path,
        size=status.st_size,
        fingerprint=file_fingerprint(status),
    )


def _matches(folder: str, pattern: list[str], fingerprints: Fingerprints) -> Iterator[str]:
    """The paths below a folder that match a pattern. `**` is any number of folders; links could form a circle."""
    first, *rest = pattern
    if first == "**":
        yield from _matches(folder, rest, fingerprints)
        for entry in _entries(folder, fingerprints):
            if entry.is_dir(follow_symlinks=False):
                yield from _matches(entry.path, pattern, fingerprints)
    elif not _WILDCARD.search(first):
        path = os.path.join(folder, first)
        if rest:
            yield from _matches(path, rest, fingerprints)
        elif os.path.lexists(path):
            yield path
        else:
            fingerprints[path] = None
    else:
        matches = _matcher(first)
        for entry in _entries(folder, fingerprints):
            if matches(entry.name):
                if not rest:
                    yield entry.path
                elif not entry.is_file(follow_symlinks=False):
                    yield from _matches(entry.path, rest, fingerprints)


_WILDCARD = re.compile(r"[*?\[]")


@cache
def _matcher(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern)).match


def _entries(folder: str, fingerprints: Fingerprints) -> list[os.DirEntry[str]]:
    # The fingerprint comes first: a file that appears meanwhile then makes the fingerprint stale, not the answer.
    fingerprints.setdefault(folder, fingerprint(folder))
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _files_below(folder: str) -> list[str]:
    return sorted(os.path.join(parent, name) for parent, _, files in os.walk(folder) for name in files)
