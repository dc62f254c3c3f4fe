"""The database of Kiro's command line before it wrote files: a row of `conversations_v2` for each conversation.

A conversation is a list of pairs: what the person or the calls before said, and the answer to it.
"""

from collections.abc import Iterator
from sqlite3 import Connection
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft
from clew.runtimes.adapters.database_rows import has, stamp_of
from clew.runtimes.adapters.message_bodies import Bodies, Chat, attached
from clew.runtimes.contract import Identity, Reading, Record, identity_in, micros


class ToolUse(msgspec.Struct):
    id: str
    name: str
    args: Raw = Raw(b"{}")


class Said(msgspec.Struct):
    message_id: str | None = None
    content: str = ""
    tool_uses: list[ToolUse] = []


class ToolResult(msgspec.Struct):
    tool_use_id: str
    content: list[dict[str, Any]] = []
    status: str = ""


class Asked(msgspec.Struct):
    prompt: str = ""
    tool_use_results: list[ToolResult] = []


class User(msgspec.Struct):
    content: dict[str, Asked] = {}
    timestamp: str | None = None


class Pair(msgspec.Struct):
    user: User = msgspec.field(default_factory=User)
    assistant: dict[str, Said] = {}


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """What a person or the calls before said, and the answer to it; or the record about the conversation."""
    if key == "about":
        about = msgspec.json.decode(record, type=dict[str, Any])
        return attached(reading, key, None, cwd=str(about.get("key") or ""))
    pair = msgspec.json.decode(record, type=Pair)
    at = micros(pair.user.timestamp)
    asked, answered = Bodies(reading, "user"), None
    for content in pair.user.content.values():
        for result in content.tool_use_results:
            values = [value for item in result.content for value in item.values()]
            asked.returned_values(result.tool_use_id, values, failed=result.status.lower() == "error")
        asked.text(content.prompt)
    for said in pair.assistant.values():
        answered = Bodies(reading, "assistant", answer=said.message_id or f"{reading.native}/{key}")
        answered.text(said.content)
        for use in said.tool_uses:
            answered.call(use.id, use.name, use.args)
    drafts = asked.drafts(key, at, record)
    return [*drafts, *answered.drafts(f"{key}/answer", None, record)] if answered else drafts


def sessions(connection: Connection) -> Iterator[tuple[Identity, str]]:
    if has(connection, "conversations_v2"):
        rows = connection.execute(
            "SELECT key, conversation_id, CAST(value AS BLOB) FROM conversations_v2 ORDER BY created_at"
        )
        for cwd, native, value in rows:
            yield identity_in(str(cwd or ""), str(native)), stamp_of(value or b"")


def records(connection: Connection, native: str) -> Iterator[Record]:
    rows = connection.execute(
        "SELECT key, CAST(value AS BLOB) FROM conversations_v2 WHERE conversation_id = ?", (native,)
    )
    row = rows.fetchone()
    if row is None:
        return
    yield "about", msgspec.json.encode({"key": str(row[0] or "")})
    value = msgspec.json.decode(bytes(row[1] or b"{}"), type=dict[str, Raw])
    history = msgspec.json.decode(value.get("history", Raw(b"[]")), type=list[Raw])
    yield from ((f"#{number}", bytes(pair)) for number, pair in enumerate(history))
