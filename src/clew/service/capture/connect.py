"""Connect: edit an agent program's settings so that it tells clew of its sessions, and undo exactly that."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import msgspec

from clew.hook import command
from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.plain import plain
from clew.runtimes import broken, runtime, runtimes
from clew.runtimes.contract import Connecting, Edit, Runtime
from clew.service.capture.discovery import discover, home_of
from clew.service.handover import program_files
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation

Name = Annotated[str, msgspec.Meta(description="The runtime.")]
# Stands for the server's command in what is left to do by hand.
SERVER_COMMAND = "SERVER_COMMAND"
DryRun = Annotated[bool, msgspec.Meta(description="Show the changes and make none.")]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """An agent program: whether it is here, and what clew can do with it."""

    name: str
    title: str
    installed: str
    home: str
    sessions: int
    connected: bool | None
    reads: bool
    writes: bool
    tested_with: str


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """One settings file, and what was or would be changed in it."""

    path: str
    diff: str


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """What connecting or disconnecting did. `by_hand` is left to the person, on purpose."""

    runtime: str
    connected: bool
    applied: bool
    changes: list[Changed]
    by_hand: str


@operation(right=Right.SEE, name="runtimes")
def list_runtimes(context: Context) -> list[Known]:
    """List the agent programs clew knows: installed, connected, and what can be done with each."""
    import shutil

    counts: dict[str, int] = {}
    for session_file in discover().session_files:
        counts[session_file.runtime] = counts.get(session_file.runtime, 0) + 1
    return [
        Known(
            name=one.name,
            title=one.title,
            installed=(shutil.which(one.binary) or "") if one.binary else "",
            home=str(home_of(one)) if one.home else "",
            sessions=counts.get(one.name, 0),
            connected=_is_connected(one),
            reads=bool(one.formats),
            writes=one.writer is not None,
            tested_with=one.evidence,
        )
        for one in runtimes()
        if any(format.patterns for format in one.formats)
    ] + [
        Known(
            name=name, title=name, installed="", home="", sessions=0, connected=None, reads=False, writes=False,
            tested_with=why,
        )
        for name, why in broken().items()
    ]  # fmt: skip


@operation(right=Right.ADMINISTER)
def connect(context: Context, *, runtime: Name, dry_run: DryRun = False) -> Connected:
    """Connect an agent program: hooks that capture its sessions live and brief new ones, and clew's MCP server."""
    return _edit(context, runtime, add=True, dry_run=dry_run)


@operation(right=Right.ADMINISTER)
def disconnect(context: Context, *, runtime: Name, dry_run: DryRun = False) -> Connected:
    """Disconnect an agent program: take out exactly what connecting put in."""
    return _edit(context, runtime, add=False, dry_run=dry_run)


def _edit(context: Context, name: str, *, add: bool, dry_run: bool) -> Connected:
    one = runtime(name)
    found = _connecting(name)
    if found is None:
        raise InvalidInput(
            f"{one.title} has no hooks clew can use; `clew capture --watch` follows its sessions instead", runtime=name
        )
    server, hook = [sys.executable, "-P", "-m", "clew", *_own(context.home), "mcp"], [*command(), *_own(context.home)]
    planned = [_plan(one, edit, (hook, server) if add else None) for edit in found.edits]
    changes = [(path, before, after) for path, before, after in planned if before != after]
    # Every edit was worked out before the first is made, so that bad settings leave everything as it was.
    for path, _, after in changes if not dry_run else []:
        if after is None:
            path.unlink(missing_ok=True)
        else:
            target = Path(path).resolve()
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
            program_files.replace(target, after, mode=mode)
    return Connected(
        runtime=name,
        connected=add,
        applied=not dry_run,
        changes=[Changed(path=str(path), diff=_diff(path, before, after)) for path, before, after in changes],
        by_hand=found.by_hand.replace(SERVER_COMMAND, shlex.join(server)) if add else "",
    )


def _connecting(name: str) -> Connecting | None:
    # Only here: reading settings of every kind takes parsers that no other command needs.
    from clew.runtimes.connect.connections import CONNECTIONS

    return CONNECTIONS.get(name) or runtime(name).connection


def _plan(
    one: Runtime, edit: Edit, commands: tuple[list[str], list[str]] | None
) -> tuple[Path, bytes | None, bytes | None]:
    """A settings file as it is and as it will be: with these hooks and this server, or without what is ours."""
    path = Path.home() / edit.path[2:] if edit.path.startswith("~/") else home_of(one) / edit.path
    before = path.read_bytes() if path.exists() else None
    try:
        if commands is not None:
            return path, before, edit.add(before, *commands) or None
        return path, before, edit.remove(before) if before is not None else None
    except InvalidInput as error:
        raise InvalidInput(f"{plain(str(path))}: {error}", runtime=one.name) from error


def _own(home: str) -> list[str]:
    """How a command is told of a home of one's own: programs start it with few of a person's variables."""
    return [] if not home or Path(home) == Path.home() / ".clew" else ["--home", home]


def _is_connected(one: Runtime) -> bool | None:
    """Whether any of our entries is there; None when the program cannot be connected."""
    found = _connecting(one.name)
    if found is None:
        return None
    try:
        plans = [_plan(one, edit, None) for edit in found.edits]
    except (InvalidInput, OSError):
        return False
    return any(before != after for _, before, after in plans)


def _diff(path: Path, before: bytes | None, after: bytes | None) -> str:
    import difflib

    old, new = ((data or b"").decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    was, now = ("/dev/null" if data is None else str(path) for data in (before, after))
    return "".join(difflib.unified_diff(old, new, was, now))
