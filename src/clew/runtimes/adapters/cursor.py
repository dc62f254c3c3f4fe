"""Cursor stores a session in up to three files, and each is read by itself: transcript, CLI store and IDE database.

* `transcript`: JSON lines in Anthropic's format without ids, times or results of calls.
* `cli`: a SQLite file per session of content-addressed blobs. A root blob (protobuf) lists the messages in order.
* `ide`: one SQLite file for all sessions of the editor, keys and JSON values; in 2024 two keys held everything.

The transcript repeats a session of one of the other two with less detail. Both databases hold keys and tokens of the
account: the adapter reads only what is named here.
"""

import re
from pathlib import PurePath

from clew.runtimes.adapters.cursor_cli import cli_records, cli_sessions
from clew.runtimes.adapters.cursor_ide import ide_records, ide_sessions, read_ide
from clew.runtimes.adapters.cursor_rows import NAME
from clew.runtimes.adapters.cursor_transcript import State, read_cli, read_transcript
from clew.runtimes.adapters.database_rows import assemble
from clew.runtimes.contract import Command, Format, Identity, Rows, Runtime, Tool

SQLITE = b"SQLite format 3\0"


def recognises_transcript(path: PurePath, head: bytes) -> bool:
    opens = re.match(rb'\s*\{"role":\s*"(user|assistant)",\s*"message":\s*\{"content"', head)
    return path.suffix == ".jsonl" and opens is not None


def identify_transcript(path: PurePath, first: bytes) -> Identity:
    folders = path.parts
    at = folders.index("agent-transcripts") if "agent-transcripts" in folders else 0
    parent = path.parts[-3] if path.parent.name == "subagents" and len(path.parts) > 2 else ""
    return Identity(native=path.stem, project=f"-{folders[at - 1]}" if at else "", parent=parent)


def recognises_cli(path: PurePath, head: bytes) -> bool:
    return path.name == "store.db" and head.startswith(SQLITE)


def recognises_ide(path: PurePath, head: bytes) -> bool:
    return path.suffix == ".vscdb" and head.startswith(SQLITE)


def identify_database(path: PurePath, first: bytes) -> Identity:
    """The database has the ids of its sessions."""
    return Identity(native=path.parent.name or path.stem)


def reopen(native: str) -> Command:
    return Command(argv=["cursor-agent", "--resume", native])


_USER = (".config/Cursor/User", "Library/Application Support/Cursor/User", "AppData/Roaming/Cursor/User")
RUNTIME = Runtime(
    name=NAME,
    title="Cursor",
    home="",
    binary="cursor-agent",
    formats=(
        Format(
            name="transcript",
            patterns=tuple(
                f"{root}/projects/*/agent-transcripts/{name}"
                for root in (".cursor", ".cursor-server")
                for name in ("*.jsonl", "*/*.jsonl", "*/subagents/*.jsonl")
            ),
            recognises=recognises_transcript,
            identify=identify_transcript,
            read=read_transcript,
            state=State,
        ),
        Format(
            name="cli",
            patterns=(".cursor/chats/*/*/store.db",),
            recognises=recognises_cli,
            identify=identify_database,
            read=read_cli,
            state=State,
            mutable=True,
            rows=Rows(sessions=cli_sessions, records=cli_records, assemble=assemble),
            reopen=reopen,
        ),
        Format(
            name="ide",
            patterns=tuple(
                f"{user}/{folder}/state.vscdb" for user in _USER for folder in ("globalStorage", "workspaceStorage/*")
            ),
            recognises=recognises_ide,
            identify=identify_database,
            read=read_ide,
            state=State,
            mutable=True,
            rows=Rows(sessions=ide_sessions, records=ide_records, assemble=assemble),
        ),
    ),
    tools={
        "shell": Tool("Shell", {"command": "command"}),
        "read": Tool("Read", {"path": "path"}),
        "write": Tool("Write", {"path": "path", "content": "contents"}),
        "edit": Tool("StrReplace", {"path": "path"}),
        "glob": Tool("Glob"),
        "search": Tool("Grep"),
    },
    evidence="public files, not run",
)
