"""The cached report of `clew capture`: if nothing has changed since, the next capture prints it again at once.

A capture that finds nothing new caches its report together with the fingerprint of everything that the report depends
on: each session file, each folder that was searched, each path that did not exist, the store's own files, and the
environment variables that say where to look. The report is valid while every fingerprint is unchanged; then it is
printed without opening the store. In every other case the capture runs.

This module imports only the standard library: loading the rest of clew is what takes the time.
"""

import json
import os
import stat
import sys
import time

TYPE_CHECKING = False  # Importing typing takes longer than computing a hundred fingerprints.
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAME = "last-look.json"
# Some file systems have clocks that tick this slowly: a file changed more recently may change again unnoticed.
CLOCK_TICK_NS = 2_000_000_000
# The environment variables that the report depends on, besides those of the agent programs.
VARIABLES = ("HOME", "CLEW_HOME", "CLEW_STORE", "CLEW_PRINCIPAL", "CLEW_MACHINE", "LOGNAME", "USER", "PYTHONPATH")


def fingerprint(path: str) -> "str | None":
    """The fingerprint of a file or a folder: it changes whenever that does. None if nothing is there."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode):
        # The ctime also changes with the permissions: a folder that could not be searched may be searchable now.
        return f"{status.st_ctime_ns}:{status.st_ino}"
    return file_fingerprint(status)


def file_fingerprint(status: os.stat_result) -> str:
    """The fingerprint of a file; the store keeps it, too."""
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"


def save_report(
    home: str, fingerprints: "dict[str, str | None]", variables: "Iterable[str]", rows: "Sequence[Sequence[str]]"
) -> None:
    """Cache the report; it is valid while every fingerprint is unchanged."""
    latest_change_ns = time.time_ns() - CLOCK_TICK_NS
    # A path that did not exist has no time at which it changed.
    if any(_changed_ns(path) > latest_change_ns for path, known in fingerprints.items() if known is not None):
        return
    environment = {name: os.environ.get(name) for name in (*VARIABLES, *variables)}
    cache = {"caller": _caller(), "variables": environment, "fingerprints": fingerprints, "rows": rows}
    path = os.path.join(home, NAME)
    new_path = f"{path}.{os.getpid()}"
    try:
        with open(os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(cache))
        os.replace(new_path, path)
    except OSError:
        # The home does not exist, is full or is read-only. Without a cached report the next capture runs.
        _remove(new_path)


def discard_report(home: str) -> None:
    """Remove the cached report: it names files of sessions that were erased."""
    # A report that cannot be removed from a read-only home is not valid any more: the store's files have changed.
    if home:
        _remove(os.path.join(home, NAME))


def cached_report() -> "list[list[str]] | None":
    """The rows of the cached report if it is valid, else None."""
    home = os.path.abspath(os.path.expanduser(os.environ.get("CLEW_HOME") or "~/.clew"))
    try:
        with open(os.path.join(home, NAME), encoding="utf-8") as file:
            cache = json.load(file)
        if cache["caller"] != _caller():
            return None
        if any(os.environ.get(name) != value for name, value in cache["variables"].items()):
            return None
        if any(fingerprint(path) != expected for path, expected in cache["fingerprints"].items()):
            return None
        rows: list[list[str]] = cache["rows"]
        return rows
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # There is no cached report, or it is damaged.


def _remove(path: str) -> None:
    from contextlib import suppress

    with suppress(OSError):
        os.unlink(path)


def _caller() -> list[object]:
    """Which clew runs, as which user, on which machine."""
    from clew import __version__

    return [__version__, sys.executable, os.getuid(), os.uname().nodename]


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_ctime_ns
    except (OSError, ValueError):
        return 0
