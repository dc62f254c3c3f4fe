"""What newer versions of Cursor's editor keep apart from a chat's bubbles: the messages that it exchanges with the llm.

`conversationState` of a composer is a protobuf message (base64 behind a `~`) whose field 1 lists the messages, each a
row `agentKv:blob:<sha256>` as in the store of the CLI. They hold the results of calls that a bubble keeps only in a
binary form. The database also holds keys and tokens of the account: only the rows named here are read.
"""

import base64
from collections.abc import Iterator
from sqlite3 import Connection

import msgspec
from msgspec import Raw

from clew.runtimes.adapters.cursor_cli import protobuf
from clew.runtimes.records import without_halves


class Result(msgspec.Struct):
    type: str = ""
    toolCallId: str = ""


class Message(msgspec.Struct):
    role: str = ""
    content: str | list[Raw] = ""


def results(connection: Connection, state: str) -> dict[str, dict[str, Raw]]:
    """The results in a chat's messages, by the name of their call."""
    found: dict[str, dict[str, Raw]] = {}
    for message in _messages(connection, state):
        if message.role != "tool" or isinstance(message.content, str):
            continue
        for content in message.content:
            try:
                result = msgspec.json.decode(without_halves(bytes(content)), type=Result)
            except (ValueError, RecursionError):
                continue
            if result.type == "tool-result" and result.toolCallId:
                found[call_name(result.toolCallId)] = msgspec.json.decode(content, type=dict[str, Raw])
    return found


def result_of(call: str, result: dict[str, Raw]) -> bytes:
    """A result as a message of its own, for this call."""
    return msgspec.json.encode({"role": "tool", "content": [{**result, "toolCallId": call}]})


def call_name(id: str) -> str:
    """The part of a call's id that a bubble and a message share: a second line is the llm's own id."""
    return id.partition("\n")[0]


def _messages(connection: Connection, state: str) -> Iterator[Message]:
    if not state.startswith("~"):
        return
    try:
        names = [value for field, value in protobuf(base64.b64decode(state[1:])) if field == 1]
    except (ValueError, LookupError):
        return  # A newer form: the bubbles are read all the same.
    for name in names:
        if not isinstance(name, bytes) or len(name) != 32:
            continue
        key = f"agentKv:blob:{name.hex()}"
        row = connection.execute("SELECT CAST(value AS BLOB) FROM cursorDiskKV WHERE key = ?", (key,)).fetchone()
        try:
            yield msgspec.json.decode(without_halves(bytes(row[0])), type=Message)
        except (ValueError, TypeError, RecursionError):
            continue  # Missing, or not a message in JSON.
