"""What `clew connect` wrote, so that `clew doctor` finds a change by others; and whether others could change what runs.

A hook is a command that an agent program runs with all rights of its person. So its path is absolute, nobody else may
write to what is on it, and clew keeps the commands that it wrote.
"""

import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

import clew.hook
from clew.model.errors import InvalidInput
from clew.service.handover import program_files

NAME = "connected.json"
# A session that was open while the program was connected may go on without hooks for a while.
_SETTLED_SECONDS = 60


class Commands(msgspec.Struct, frozen=True):
    """The commands that a program's settings got: of the hooks, and of the MCP server; `at`: since when, in seconds."""

    hook: list[str]
    server: list[str]
    at: int = 0


_decode = msgspec.json.Decoder(dict[str, Commands]).decode


def connected_commands(home: Path) -> dict[str, Commands]:
    """What was written for each program."""
    try:
        return _decode((home / NAME).read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}


def keep_commands(home: Path, runtime: str, commands: Commands | None) -> None:
    """Keep what was written for a program; None after it was disconnected."""
    known = connected_commands(home)
    kept = {name: value for name, value in known.items() if name != runtime}
    if commands is not None:
        before = known.get(runtime)
        is_same = before is not None and (before.hook, before.server) == (commands.hook, commands.server)
        kept[runtime] = before if before and is_same else msgspec.structs.replace(commands, at=int(time.time()))
    if kept != known:
        program_files.replace(home / NAME, msgspec.json.encode(kept))


def hooks_ran_at(home: Path, runtime: str) -> float:
    """When a hook of this program ran last, in seconds; 0 if none ever ran."""
    try:
        return (home / "hooks" / runtime).stat().st_mtime
    except OSError:
        return 0


def silent_since(home: Path, runtime: str, newest_session: float) -> float:
    """Since when a connected program has sessions, and none of its hooks ever ran; 0 if that is not so.

    `newest_session` is when its newest session changed. A session from before the connection proves nothing, nor does
    one from before the installed hook: older ones left no sign of life.
    """
    commands = connected_commands(home).get(runtime)
    if commands is None or hooks_ran_at(home, runtime):
        return 0
    try:
        since = max(commands.at, Path(clew.hook.__file__).stat().st_mtime)
    except OSError:
        return 0
    return since if newest_session > since + _SETTLED_SECONDS else 0


def check_private(paths: Iterable[str]) -> None:
    """Refuse to let a program run a file that another account could replace."""
    for path in paths:
        real = Path(os.path.realpath(path))
        if not os.path.isabs(path):
            raise InvalidInput(f"a hook needs an absolute path, and {path!r} is none; install clew again")
        for part in (real, *real.parents):
            if problem := _problem(part):
                raise InvalidInput(
                    f"{part} {problem}, so another account could change what the agent program runs; take that right "
                    "away, or install clew in a folder that only you can write"
                )


def _problem(path: Path) -> str:
    """Why another account could change what is at a path; empty if none could."""
    try:
        status = path.stat()
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    if status.st_uid not in (os.geteuid(), 0):
        return "belongs to another account"
    # In a sticky folder, such as /tmp, only the owner of an entry replaces it.
    is_sticky = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
    if status.st_mode & stat.S_IWOTH and not is_sticky:
        return "can be written by every account"
    # Many systems give each person a group of their own, and files that it may write.
    if status.st_mode & stat.S_IWGRP and not is_sticky and status.st_gid not in (os.getegid(), 0):
        return "can be written by a group"
    return ""
