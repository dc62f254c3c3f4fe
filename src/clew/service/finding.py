"""Where agent programs keep sessions on this machine, and which program a file belongs to."""

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

import msgspec

from clew.model.errors import InvalidInput, NotFound
from clew.runtimes import names, present, runtime, runtimes
from clew.runtimes.contract import Format, Runtime

HEAD_BYTES = 64 * 1024
SQLITE = b"SQLite format 3\0"


class Found(msgspec.Struct, frozen=True, kw_only=True):
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


def find(*, runtime_name: str = "", home: str = "") -> list[Found]:
    """Every session file below the runtimes' own folders."""
    base = Path(home) if home else Path.home()
    wanted = [runtime(runtime_name)] if runtime_name else list(present(base, variables=not home))
    found: dict[str, Found] = {}
    for one in wanted:
        root = home_of(one, home)
        for format in one.formats:
            for path in _matches(root, format):
                if path not in found and (seen := look(path, one.name, format.name)):
                    found[path] = seen
    return sorted(found.values(), key=lambda one: (one.runtime, one.path))


def at(paths: Iterable[str], *, runtime_name: str = "") -> list[Found]:
    """Files named by a person, or all below a folder; the program is told by what is in them."""
    found = []
    for path in paths:
        if not os.path.exists(path):
            raise NotFound(f"no file {path}; check the path", path=path)
        inside = sorted(str(one) for one in Path(path).rglob("*") if one.is_file()) if os.path.isdir(path) else [path]
        for file in inside:
            name, format = recognise(file, runtime_name)
            if name and (seen := look(os.path.abspath(file), name, format)):
                found.append(seen)
            elif file == path:
                raise InvalidInput(
                    f"{path} looks like no session of {', '.join(names())}; name the runtime with --runtime", path=path
                )
    return found


def recognise(path: str, runtime_name: str = "") -> tuple[str, str]:
    """The runtime and the format of a file, by its beginning; empty when nobody knows it."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return "", ""
    wanted = [runtime(runtime_name)] if runtime_name else list(runtimes())
    for one in wanted:
        for format in one.formats:
            if head.startswith(SQLITE) == (format.rows is not None) and format.recognises(PurePath(path), head):
                return one.name, format.name
    if runtime_name and wanted[0].formats:
        return runtime_name, wanted[0].formats[0].name
    return "", ""


def look(path: str, runtime_name: str, format_name: str) -> Found | None:
    """A file as it is now; None when it is gone."""
    try:
        seen = os.stat(path)
    except OSError:
        return None
    stamp = f"{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ino}"
    return Found(runtime=runtime_name, format=format_name, path=path, size=seen.st_size, stamp=stamp)


def format_of(found: Found) -> Format:
    """The format a file was found by."""
    return next(one for one in runtime(found.runtime).formats if one.name == found.format)


def _matches(root: Path, format: Format) -> Iterator[str]:
    if not root.is_dir():
        return
    for pattern in format.patterns:
        for path in glob.iglob(os.path.join(glob.escape(str(root)), pattern), recursive=True, include_hidden=True):
            if os.path.isfile(path):
                yield path
