"""Zed: the threads of its agent in one database, `threads/threads.db`, each a JSON document that may be packed (zstd).

Evidence: the shapes of Zed's public sources (crates/agent) and tests of a public project, 2026-11-19. Not run.
"""

from collections.abc import Iterator
from pathlib import PurePath
from sqlite3 import Connection
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.errors import InvalidInput
from clew.model.events import Draft, Usage, UsageCounted
from clew.runtimes.adapters.database_rows import assemble, has, stamp_of
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached, document, whole_number
from clew.runtimes.contract import Format, Identity, Reading, Record, Rows, Runtime, Tool, identity_in, opaque, raw

NAME = "zed"
# A packed thread may become this large; a larger one is a mistake or an attack.
LARGEST_BYTES = 256 * 1024 * 1024


class Project(msgspec.Struct):
    worktree_snapshots: list[dict[str, Any]] = []


class About(msgspec.Struct):
    title: str = ""
    summary: Any = None
    version: str = ""
    model: dict[str, Any] | None = None
    initial_project_snapshot: Project | None = None
    cumulative_token_usage: dict[str, Any] = {}

    @property
    def cwd(self) -> str:
        project = self.initial_project_snapshot or Project()
        return next((str(one.get("worktree_path") or "") for one in project.worktree_snapshots), "")


class Use(msgspec.Struct):
    id: str
    name: str
    input: Raw = Raw(b"{}")


class Result(msgspec.Struct):
    content: Raw = Raw(b"null")
    is_error: bool = False
    output: Raw = Raw(b"null")


class Said(msgspec.Struct):
    """What a person or the agent said: parts, each an object with one member that names its kind."""

    id: str | None = None
    content: list[Raw] = []
    tool_results: dict[str, Result] = {}


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One message, or what the thread says about itself."""
    if key == "about":
        return _about(msgspec.json.decode(record, type=About), record, key, reading)
    message = msgspec.json.decode(record, type=dict[str, Raw] | str)
    kind = next(iter(message)) if isinstance(message, dict) and len(message) == 1 else "message"
    if isinstance(message, str) or kind not in ("User", "Agent"):
        return [opaque(f"{NAME}.{kind}", record, key)]
    said = msgspec.json.decode(message[kind], type=Said)
    role = "user" if kind == "User" else "assistant"
    bodies = Bodies(reading, role, answer=f"{reading.native}/{key}", model=reading.state.model)
    for content in said.content:
        _add_part(bodies, content)
    for call, result in said.tool_results.items():
        bodies.returned(call, _output(result), failed=result.is_error)
    return bodies.drafts(key, None, record)


def _about(about: About, record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    model = str((about.model or {}).get("model") or "")
    reading.state.model = model
    title = about.title or (about.summary if isinstance(about.summary, str) else "")
    drafts = attached(reading, key, None, cwd=about.cwd, title=title)
    tokens = {name: whole_number(value) for name, value in about.cumulative_token_usage.items()}
    usage = Usage(
        input=tokens.get("input_tokens", 0),
        output=tokens.get("output_tokens", 0),
        cache_read=tokens.get("cache_read_input_tokens", 0),
        cache_write=tokens.get("cache_creation_input_tokens", 0),
    )
    if usage != Usage():
        # The thread has one sum that grows: each reading gives the sum anew, as a revision.
        drafts.append(Draft(body=UsageCounted(usage=usage, model=model), source=f"{key}/usage"))
    return [*drafts, opaque(f"{NAME}.thread", record, f"{key}/record")]


def _add_part(bodies: Bodies, content: Raw) -> None:
    part = msgspec.json.decode(content, type=dict[str, Raw])
    if "Text" in part:
        bodies.text(msgspec.json.decode(part["Text"], type=str))
    elif "Thinking" in part:
        thought = msgspec.json.decode(part["Thinking"], type=dict[str, str | None])
        bodies.thinking(thought.get("text"), thought.get("signature"))
    elif "Mention" in part:
        mention = msgspec.json.decode(part["Mention"], type=dict[str, Any])
        bodies.text(mention["content"] if isinstance(mention.get("content"), str) else "")
    elif "ToolUse" in part:
        use = msgspec.json.decode(part["ToolUse"], type=Use)
        bodies.call(use.id, use.name, use.input)
    elif "Image" in part:
        image = msgspec.json.decode(part["Image"], type=dict[str, Any])
        bodies.image(str(image.get("source") or ""), "image/png")
    else:
        bodies.other(next(iter(part), ""), bytes(content))


def _output(result: Result) -> Raw:
    """The text that the model got; other content verbatim."""
    value = msgspec.json.decode(result.content)
    blocks = value if isinstance(value, list) else [value]
    texts = [block.get("Text") if isinstance(block, dict) else block for block in blocks]
    if texts and all(isinstance(text, str) for text in texts):
        return raw("\n".join(text for text in texts if isinstance(text, str)))
    return result.content


# The database ---------------------------------------------------------------------------------------------------------


def sessions(connection: Connection) -> Iterator[tuple[Identity, str]]:
    if not has(connection, "threads"):
        return
    columns = {str(row[1]) for row in connection.execute("PRAGMA table_info(threads)")}
    parent = "parent_id" if "parent_id" in columns else "NULL"
    folder = "folder_paths" if "folder_paths" in columns else "NULL"
    query = f"SELECT id, {parent}, {folder}, CAST(data AS BLOB) FROM threads ORDER BY updated_at, id"  # noqa: S608  # two names
    for native, parent_id, folders, data in connection.execute(query):
        cwd = str(folders or "").partition("\n")[0]
        yield identity_in(cwd, str(native), parent=str(parent_id or "")), stamp_of(data or b"")


def records(connection: Connection, native: str) -> Iterator[Record]:
    row = connection.execute("SELECT data_type, CAST(data AS BLOB) FROM threads WHERE id = ?", (native,)).fetchone()
    if row is not None:
        yield from document(_unpacked(str(row[0] or ""), bytes(row[1] or b"")), "messages")


def _unpacked(type: str, data: bytes) -> bytes:
    if type.lower() != "zstd":
        return data
    import zstandard  # Only packed threads need it.

    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data) as reader:
            whole = reader.read(LARGEST_BYTES + 1)
    except zstandard.ZstdError as error:
        raise InvalidInput(f"a packed thread that cannot be unpacked: {error}") from error
    if len(whole) > LARGEST_BYTES:
        raise InvalidInput(f"a packed thread of more than {LARGEST_BYTES:,} bytes")
    return bytes(whole)


# Finding and recognising ----------------------------------------------------------------------------------------------


def recognises(path: PurePath, head: bytes) -> bool:
    return path.name == "threads.db" and b"data_type" in head


def identify(path: PurePath, first: bytes) -> Identity:
    return Identity(native=path.stem)


_FOLDERS = (".local/share/zed", "Library/Application Support/Zed", "AppData/Local/Zed")

RUNTIME = Runtime(
    name=NAME,
    title="Zed",
    home="",
    binary="zed",
    formats=(
        Format(
            name="threads",
            patterns=tuple(f"{folder}/threads/threads.db" for folder in _FOLDERS),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
            rows=Rows(sessions=sessions, records=records, assemble=assemble),
        ),
    ),
    tools={
        "shell": Tool("terminal", {"command": "command"}),
        "read": Tool("read_file", {"path": "path"}),
        "search": Tool("grep", {"pattern": "regex"}),
    },
    evidence="public sources and tests, not run",
)
