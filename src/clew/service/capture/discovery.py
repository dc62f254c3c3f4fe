"""Where agent programs keep sessions on this machine, and which program a file belongs to."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from functools import cache
from pathlib import Path, PurePath
from typing import BinaryIO

import msgspec

from clew.capture_cache import look as look_at
from clew.capture_cache import stamp_of
from clew.model.errors import InvalidInput, NotFound
from clew.runtimes import absent, names, present, runtime, runtimes, sources
from clew.runtimes.contract import Format, Runtime

HEAD_BYTES = 64 * 1024
SQLITE = b"SQLite format 3\0"


Seen = dict[str, str | None]
"""What was looked at, and how each looked (capture_cache.py)."""


class SessionFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that holds a session, or a database that holds many."""

    runtime: str
    format: str
    path: str
    size: int
    stamp: str


def home_of(one: Runtime, home: str = "") -> Path:
    """The folder of a runtime: below `home` if one is named, else where the environment says."""
    if home:
        return Path(home) / one.home
    variable = os.environ.get(one.home_variable, "") if one.home_variable else ""
    if variable:
        return Path(variable) / one.home_below
    return Path.home() / one.home


def find(*, runtime_name: str = "", home: str = "", seen: Seen | None = None) -> list[SessionFile]:
    """Every session file below the runtimes' own folders; one that lies there under two names only once.

    All that the answer depends on is noted in `seen`: whoever finds that as it was need not look again.
    """
    noted = seen if seen is not None else {}
    base = Path(home) if home else Path.home()
    wanted = [runtime(runtime_name)] if runtime_name else list(present(base, variables=not home))
    noted |= dict.fromkeys(absent(base)) | {place: look_at(place) for place in sources()}
    found: dict[str, SessionFile] = {}
    for one in wanted:
        root = str(home_of(one, home))
        files: set[tuple[int, int]] = set()
        for format in one.formats:
            paths = (path for pattern in format.patterns for path in _matches(root, pattern.split("/"), noted))
            for path in sorted(paths):
                if path in found or not (file := _seen(path)):
                    noted.setdefault(path, look_at(path))
                    continue
                if (file.st_dev, file.st_ino) not in files:
                    files.add((file.st_dev, file.st_ino))
                    found[path] = _found(path, one.name, format.name, file)
                noted[path] = stamp_of(file)
    return sorted(found.values(), key=lambda one: (one.runtime, one.path))


def at(paths: Iterable[str], *, runtime_name: str = "") -> list[SessionFile]:
    """Files named by a person, or all below a folder; the program is told by what is in them."""
    found: dict[str, SessionFile] = {}
    for path in paths:
        if not os.path.lexists(path):
            raise NotFound(f"no file {shown(path)}; check the path", path=shown(path))
        for file in _below(path) if os.path.isdir(path) else [path]:
            named = file == path
            name, format = recognise(file, runtime_name, named=named)
            if name and (seen := look(os.path.abspath(file), name, format)):
                found[seen.path] = seen
            elif named:
                raise InvalidInput(
                    f"{shown(path)} looks like no session of {', '.join(names())}; name the runtime with --runtime",
                    path=shown(path),
                )
    return list(found.values())


def recognise(path: str, runtime_name: str = "", *, named: bool = True) -> tuple[str, str]:
    """The runtime and the format of a file, by its beginning; empty when nobody knows it.

    A file that was `named` together with its runtime is taken for the runtime's first format, whatever it looks like.
    """
    wanted = [runtime(runtime_name)] if runtime_name else list(runtimes())
    try:
        with open_file(path) as file:
            head = file.read(HEAD_BYTES)
    except (OSError, InvalidInput) as error:
        if named:
            raise InvalidInput(f"{shown(path)} cannot be read: {getattr(error, 'strerror', error)}") from error
        return "", ""
    for one in wanted:
        for format in one.formats:
            if head.startswith(SQLITE) == (format.rows is not None) and format.recognises(PurePath(path), head):
                return one.name, format.name
    if runtime_name and named and wanted[0].formats:
        return runtime_name, wanted[0].formats[0].name
    return "", ""


def look(path: str, runtime_name: str, format_name: str) -> SessionFile | None:
    """A file as it is now; None when it is gone, or is no file."""
    seen = _seen(path)
    return _found(path, runtime_name, format_name, seen) if seen else None


def open_file(path: str) -> BinaryIO:
    """A file for reading; refused if it is anything else, because a pipe would keep us waiting for ever."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise InvalidInput(f"{shown(path)} is not a file")
    return open(number, "rb")


def shown(path: str) -> str:
    """A path as text that every database and terminal takes: bytes that are not UTF-8 are spelled out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _seen(path: str) -> os.stat_result | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen if stat.S_ISREG(seen.st_mode) else None


def _found(path: str, runtime_name: str, format_name: str, seen: os.stat_result) -> SessionFile:
    return SessionFile(runtime=runtime_name, format=format_name, path=path, size=seen.st_size, stamp=stamp_of(seen))


def format_of(found: SessionFile) -> Format:
    """The format a file was found by."""
    return next(one for one in runtime(found.runtime).formats if one.name == found.format)


def _matches(folder: str, pattern: list[str], noted: Seen) -> Iterator[str]:
    """What matches a pattern below a folder; `**` is any number of folders, and no link: it could lead back."""
    first, *rest = pattern
    if first == "**":
        yield from _matches(folder, rest, noted)
        for entry in _entries(folder, noted):
            if entry.is_dir(follow_symlinks=False):
                yield from _matches(entry.path, pattern, noted)
    elif not _WILD.search(first):
        path = os.path.join(folder, first)
        if rest:
            yield from _matches(path, rest, noted)
        elif os.path.lexists(path):
            yield path
        else:
            noted[path] = None
    else:
        matches = _matcher(first)
        for entry in _entries(folder, noted):
            if matches(entry.name):
                if not rest:
                    yield entry.path
                elif not entry.is_file(follow_symlinks=False):
                    yield from _matches(entry.path, rest, noted)


_WILD = re.compile(r"[*?\[]")


@cache
def _matcher(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern)).match


def _entries(folder: str, noted: Seen) -> list[os.DirEntry[str]]:
    # Before it is read: what comes meanwhile makes the note wrong, and not the answer.
    noted.setdefault(folder, look_at(folder))
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _below(folder: str) -> list[str]:
    return sorted(os.path.join(place, name) for place, _, files in os.walk(folder) for name in files)
