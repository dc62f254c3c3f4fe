"""Connect: edit an agent program's settings so that it reports its sessions to clew, and undo exactly that."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import msgspec

import clew
import clew.hook
from clew.hook import command
from clew.model.access import Right
from clew.model.errors import InvalidInput
from clew.model.plain import plain
from clew.runtimes import broken, resolve, runtime, runtimes
from clew.runtimes.contract import Connecting, Edit, Runtime
from clew.service.capture.connected import (
    Commands,
    check_private,
    connected_commands,
    keep_commands,
    silent_since,
)
from clew.service.capture.discovery import discover, home_of
from clew.service.capture.installed import installed_version, is_newer
from clew.service.handover import program_files
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation

Name = Annotated[str, msgspec.Meta(description="The runtime.")]
# Placeholder for the command of the MCP server in the instructions for the person.
SERVER_COMMAND = "SERVER_COMMAND"
DryRun = Annotated[bool, msgspec.Meta(description="Show the changes and make none.")]


class KnownProgram(msgspec.Struct, frozen=True, kw_only=True):
    """An agent program: whether it is installed, and what clew can do with it.

    `version` is the installed one, as far as a file says it; `proven` the newest that was run against a scripted model,
    `proven_on` the day. `hooks_silent`: it is connected and has sessions since, and none of its hooks ever ran.
    """

    name: str
    title: str
    installed: str
    home: str
    sessions: int
    connected: bool | None
    reads: bool
    writes: bool
    tested_with: str
    version: str = ""
    proven: str = ""
    proven_on: str = ""
    is_newer: bool = False
    hooks_silent: bool = False
    advice: list[str] = []


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """One settings file, and the change that was or would be made."""

    path: str
    diff: str


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """What connecting or disconnecting did. `by_hand` says what the person still has to do."""

    runtime: str
    connected: bool
    applied: bool
    changes: list[SettingsChange]
    by_hand: str
    runs: list[str] = []
    """What the program runs from then on, and with which rights."""


@operation(right=Right.SEE, name="runtimes")
def list_runtimes(context: Context) -> list[KnownProgram]:
    """List the agent programs clew knows: installed, connected, and what can be done with each."""
    return known_programs(Path(context.home) if context.home else None)


def known_programs(home: Path | None) -> list[KnownProgram]:
    """The agent programs that clew knows; `home` is clew's own, which says whether their hooks run."""
    files: dict[str, list[str]] = {}
    for session_file in discover().session_files:
        files.setdefault(session_file.runtime, []).append(session_file.path)
    return [
        _known_program(program, files.get(program.name, []), home)
        for program in runtimes()
        if any(format.patterns for format in program.formats)
    ] + [
        KnownProgram(
            name=name, title=name, installed="", home="", sessions=0, connected=None, reads=False, writes=False,
            tested_with=why,
        )
        for name, why in broken().items()
    ]  # fmt: skip


def _known_program(program: Runtime, files: list[str], home: Path | None) -> KnownProgram:
    import shutil

    version, proven = installed_version(program), program.proven
    newer = proven is not None and is_newer(version, proven.version)
    silent = home is not None and bool(silent_since(home, program.name, _newest(files)))
    advice = []
    if newer and proven is not None:
        advice.append(
            f"{program.title} {version} is newer than {proven.version}, the newest that was proven ({proven.on}); "
            f"`clew runtimes --drift` shows what is new in its sessions"
        )
    if silent:
        connection = _connection_of(program.name)
        remedy = (connection.when_silent if connection else "") or f"restart {program.title}"
        advice.append(f"{program.title} is connected, but its hooks have never run: {remedy}")
    return KnownProgram(
        name=program.name,
        title=program.title,
        installed=(shutil.which(program.binary) or "") if program.binary else "",
        home=str(home_of(program)) if program.home else "",
        sessions=len(files),
        connected=_is_connected(program),
        reads=bool(program.formats),
        writes=program.writer is not None,
        tested_with=f"{proven.version}, run against a scripted model" if proven else program.evidence,
        version=version,
        proven=proven.version if proven else "",
        proven_on=proven.on if proven else "",
        is_newer=newer,
        hooks_silent=silent,
        advice=advice,
    )


def _newest(files: list[str]) -> float:
    """When the newest of the files changed, in seconds."""
    times = []
    for path in files:
        try:
            times.append(os.stat(path.partition("#")[0]).st_mtime)
        except OSError:
            continue  # It is gone since it was found.
    return max(times, default=0)


@operation(right=Right.ADMINISTER)
def connect(context: Context, *, runtime: Name, dry_run: DryRun = False) -> Connected:
    """Connect an agent program: hooks that capture its sessions live and brief new ones, and clew's MCP server."""
    return _edit(context, runtime, add=True, dry_run=dry_run)


@operation(right=Right.ADMINISTER)
def disconnect(context: Context, *, runtime: Name, dry_run: DryRun = False) -> Connected:
    """Disconnect an agent program: take out exactly what connecting put in."""
    return _edit(context, runtime, add=False, dry_run=dry_run)


def _edit(context: Context, name: str, *, add: bool, dry_run: bool) -> Connected:
    program = runtime(resolve(name))
    name = program.name
    connection = _connection_of(name)
    if connection is None:
        raise InvalidInput(
            f"{program.title} has no hooks clew can use; `clew capture --watch` follows its sessions instead",
            runtime=name,
        )
    home_option = _home_option(context.home)
    server, hook = [sys.executable, "-P", "-m", "clew", *home_option, "mcp"], [*command(), *home_option]
    if add:
        check_private([hook[0], clew.hook.__file__, clew.__file__])
    planned = [_plan(program, edit, (hook, server) if add else None) for edit in connection.edits]
    changes = [(path, before, after) for path, before, after in planned if before != after]
    if not dry_run:
        # All edits are planned before the first is made: an error in one settings file leaves every file unchanged.
        for path, _, after in changes:
            _write(path, after)
        if context.home:
            keep_commands(Path(context.home), name, Commands(hook, server) if add else None)
    return Connected(
        runtime=name,
        connected=add,
        applied=not dry_run,
        changes=[SettingsChange(path=str(path), diff=_diff(path, before, after)) for path, before, after in changes],
        by_hand=connection.by_hand.replace(SERVER_COMMAND, shlex.join(server)) if add else "",
        runs=_runs(program, connection, hook, server) if add else [],
    )


def _write(path: Path, text: bytes | None) -> None:
    """Give a settings file this text, and keep its mode; None removes it."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    target = path.resolve()
    program_files.replace(target, text, mode=target.stat().st_mode & 0o777 if target.exists() else 0o600)


def _runs(program: Runtime, connection: Connecting, hook: list[str], server: list[str]) -> list[str]:
    """What the program will run, and what that may do: not every program has hooks, or MCP servers in its settings."""
    written = [_plan(program, edit, (hook, server)) for edit in connection.edits]
    with_others = ([["another"], server], [hook, ["another"]])
    has_hook, has_server = (
        written != [_plan(program, edit, (other[0], other[1])) for edit in connection.edits] for other in with_others
    )
    lines = []
    if has_hook:
        lines += [
            f"{program.title} runs at each of these events, with all your rights, outside of any sandbox: "
            f"{shlex.join(hook)}",
            "  It reads the event, writes a note below clew's home, prints a brief, and starts `clew capture`, which "
            "reads the sessions of this program.",
        ]
    if has_server or SERVER_COMMAND in connection.by_hand:
        lines += [
            f"{program.title} runs as its MCP server, with all your rights: {shlex.join(server)}",
            "  It lets the program find, read and write the sessions of clew as you; text that it returns is masked.",
        ]
    return lines


def changed_settings(home: Path) -> list[SettingsChange]:
    """The settings in which what clew wrote was changed or taken out since, each with what clew would write again."""
    changes = []
    for name, commands in connected_commands(home).items():
        program, connection = runtime(name), _connection_of(name)
        for edit in connection.edits if connection else ():
            try:
                path, before, after = _plan(program, edit, (commands.hook, commands.server))
            except (InvalidInput, OSError) as error:
                changes.append(SettingsChange(path=f"settings of {name}", diff=str(error)))
                continue
            if before != after:
                changes.append(SettingsChange(path=str(path), diff=_diff(path, before, after)))
    return changes


def _connection_of(name: str) -> Connecting | None:
    # Imported here: it loads parsers for every kind of settings file, which no other command needs.
    from clew.runtimes.connect.connections import CONNECTIONS

    return CONNECTIONS.get(name) or runtime(name).connection


def _plan(
    program: Runtime, edit: Edit, commands: tuple[list[str], list[str]] | None
) -> tuple[Path, bytes | None, bytes | None]:
    """A settings file before and after the edit: with our hooks and server, or without anything of ours."""
    path = Path.home() / edit.path[2:] if edit.path.startswith("~/") else home_of(program) / edit.path
    before = path.read_bytes() if path.exists() else None
    try:
        if commands is not None:
            return path, before, edit.add(before, *commands) or None
        return path, before, edit.remove(before) if before is not None else None
    except InvalidInput as error:
        raise InvalidInput(f"{plain(str(path))}: {error}", runtime=program.name) from error


def _home_option(home: str) -> list[str]:
    """The option for a home that is not the default: agent programs do not pass CLEW_HOME to what they start."""
    return [] if not home or Path(home) == Path.home() / ".clew" else ["--home", home]


def _is_connected(program: Runtime) -> bool | None:
    """Whether the settings have any entry of ours; None if the program cannot be connected."""
    connection = _connection_of(program.name)
    if connection is None:
        return None
    try:
        plans = [_plan(program, edit, None) for edit in connection.edits]
    except (InvalidInput, OSError):
        return False
    return any(before != after for _, before, after in plans)


def _diff(path: Path, before: bytes | None, after: bytes | None) -> str:
    import difflib

    old, new = ((data or b"").decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    old_name, new_name = ("/dev/null" if data is None else str(path) for data in (before, after))
    return "".join(difflib.unified_diff(old, new, old_name, new_name))
