"""The last look: what the last `clew capture` saw, so that the next can tell in a moment that nothing has changed.

A capture that found nothing new leaves word of everything its answer depended on: each session file, each folder that
was searched, each that was not there, the store's own files and the variables that say where to look. If all of that is
as it was, the answer is, too, and is given again without opening the store. All else is left to the capture itself.

Only the standard library is imported here: loading the rest is what takes the time.
"""

import json
import os
import stat
import sys
import time

TYPE_CHECKING = False  # Importing typing takes longer than looking at a hundred files.
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAME = "last-look.json"
# What was touched more recently may be touched again without a sign: the clocks of some file systems tick that slowly.
SETTLED_NS = 2_000_000_000
# What the answer depends on beside files; a program's own variables come to them.
VARIABLES = ("HOME", "CLEW_HOME", "CLEW_STORE", "CLEW_PRINCIPAL", "CLEW_MACHINE", "LOGNAME", "USER", "PYTHONPATH")


def look(path: str) -> "str | None":
    """What tells whether a file or a folder has changed; None for what is not there."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(seen.st_mode):
        # Rights count as well: what could not be searched may be searched now.
        return f"{seen.st_ctime_ns}:{seen.st_ino}"
    return stamp_of(seen)


def stamp_of(seen: os.stat_result) -> str:
    """What tells whether a file has changed; kept in the store, too."""
    return f"{seen.st_size}:{seen.st_mtime_ns}:{seen.st_ino}"


def remember(
    home: str, seen: "dict[str, str | None]", variables: "Iterable[str]", rows: "Sequence[Sequence[str]]"
) -> None:
    """Leave word that nothing was new, for as long as all that was `seen` stays as it is."""
    settled = time.time_ns() - SETTLED_NS
    # What was not there is no question of time.
    if any(_changed_ns(path) > settled for path, stamp in seen.items() if stamp is not None):
        return
    about = {name: os.environ.get(name) for name in (*VARIABLES, *variables)}
    text = json.dumps({"who": _who(), "variables": about, "seen": seen, "rows": rows})
    place = os.path.join(home, NAME)
    new = f"{place}.{os.getpid()}"
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, place)
    except OSError:
        # A home that is not there, is full or cannot be written: the next capture looks for itself.
        _remove(new)


def forget(home: str) -> None:
    """Take the word back: it names files of sessions that are no more."""
    # Where the home cannot be written, the word stays, and is worth nothing: the store has changed.
    if home:
        _remove(os.path.join(home, NAME))


def last_answer() -> "list[list[str]] | None":
    """What the last capture said, if this one would say the same; else None."""
    home = os.path.abspath(os.path.expanduser(os.environ.get("CLEW_HOME") or "~/.clew"))
    try:
        with open(os.path.join(home, NAME), encoding="utf-8") as file:
            last = json.load(file)
        if last["who"] != _who() or any(os.environ.get(name) != value for name, value in last["variables"].items()):
            return None
        if any(look(path) != stamp for path, stamp in last["seen"].items()):
            return None
        rows: list[list[str]] = last["rows"]
        return rows
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # None was left, or it is damaged: the capture finds out by itself.


def _remove(path: str) -> None:
    from contextlib import suppress

    with suppress(OSError):
        os.unlink(path)


def _who() -> list[object]:
    """Which program asks, for whom and where."""
    from clew import __version__

    return [__version__, sys.executable, os.getuid(), os.uname().nodename]


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_ctime_ns
    except (OSError, ValueError):
        return 0
