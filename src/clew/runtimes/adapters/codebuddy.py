"""CodeBuddy Code (Tencent): `~/.codebuddy/projects/<folder>/<id>.jsonl`, an item per line in the manner of OpenAI's.

WorkBuddy writes the same (workbuddy.py). A newer form wraps each item as the `payload` of a line.

Evidence: notes that another project read from the program's bundle 2.161, and tests of public readers, 2026-11-19. No
real file, not run.
"""

import re
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import Draft, SessionTitled, Usage
from clew.model.title import shortened
from clew.runtimes.adapters.message_bodies import Bodies, Chat, json_or_text, once_attached, whole_number
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Tool, micros, project_of

NAME = "codebuddy"
_ITEM = re.compile(
    rb'"type":\s*"(?:function_call_result|reasoning|ai-title|topic|session-meta|function_call)"|"(?:input|output)_text"'
)
# Marks of turns that the program itself put in.
_PUT_IN = {"skipRun", "isMeta", "isCompactInternal", "isCompacted", "isSummary", "compactType", "teammateMessage"}
_NOTICE = re.compile(
    r"\s*<(system-reminder|command-name|local-command-stdout|teammate-message|task-notification)>.*?</\1>\s*", re.DOTALL
)


class Block(msgspec.Struct):
    type: str = ""
    text: str | None = None


class Item(msgspec.Struct):
    type: str
    id: str = ""
    role: str = ""
    content: str | list[Raw] | None = None
    timestamp: float | None = None
    sessionId: str = ""
    cwd: str = ""
    callId: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")
    output: Raw = Raw(b"null")
    status: str = ""
    providerData: dict[str, Any] | None = None
    aiTitle: str = ""
    customTitle: str = ""
    topic: str = ""
    title: str = ""
    payload: Raw = Raw()


_decode = msgspec.json.Decoder(Item).decode


def read(record: bytes, key: str, reading: Reading[Chat]) -> list[Draft]:
    """One item."""
    item, state = _decode(record), reading.state
    if bytes(item.payload):
        item = _decode(item.payload)
    at, source, about = micros(item.timestamp), item.id or key, item.providerData or {}
    model = about.get("model")
    bodies = Bodies(reading, item.role or "assistant", answer=source, model=model if isinstance(model, str) else "")
    title = item.customTitle or item.aiTitle or item.topic or (item.title if "title" in item.type else "")
    if title and " ".join(title.split()):
        before = once_attached(reading, key, at, cwd=item.cwd)
        state.titled = True
        return [*before, Draft(body=SessionTitled(title=shortened(" ".join(title.split()))), source=source, said_at=at)]
    if item.type == "message" and item.role in ("user", "assistant") and not _PUT_IN & about.keys():
        for text in [item.content] if isinstance(item.content, str) else map(_text, item.content or []):
            bodies.text(_NOTICE.sub("", text) if item.role == "user" else text)
    elif item.type == "function_call" and item.callId and item.name:
        given = bytes(item.arguments)
        is_text = given.startswith(b'"')
        bodies.call(item.callId, item.name, json_or_text(msgspec.json.decode(given)) if is_text else item.arguments)
    elif item.type == "function_call_result" and item.callId:
        bodies.returned(item.callId, _output(item.output), failed=item.status in ("failed", "incomplete", "error"))
    elif item.type == "reasoning":
        bodies.thinking("\n".join([item.content] if isinstance(item.content, str) else map(_text, item.content or [])))
    before = once_attached(reading, key, at, cwd=item.cwd)
    return [*before, *bodies.drafts(source, at, record, usage=_usage(about.get("usage") or about.get("rawUsage")))]


def _text(block: Raw) -> str:
    return msgspec.json.decode(block, type=Block).text or ""


def _output(output: Raw) -> Raw:
    """The text of a result, which is wrapped as a block; anything else verbatim."""
    value = msgspec.json.decode(output)
    if isinstance(value, dict) and value.keys() == {"type", "text"} and isinstance(value["text"], str):
        return Raw(msgspec.json.encode(value["text"]))
    return output


def _usage(tokens: object) -> Usage:
    """The usage of an item. OpenAI's names include the cached tokens in those of the prompt."""
    if not isinstance(tokens, dict):
        return Usage()
    details = tokens.get("prompt_tokens_details")
    of_prompt = whole_number(details.get("cached_tokens")) if isinstance(details, dict) else 0
    cached = of_prompt or whole_number(tokens.get("cacheReadInputTokens"))
    return Usage(
        input=whole_number(tokens.get("inputTokens")) or max(0, whole_number(tokens.get("prompt_tokens")) - of_prompt),
        output=whole_number(tokens.get("outputTokens")) or whole_number(tokens.get("completion_tokens")),
        cache_read=cached,
        cache_write=whole_number(tokens.get("cacheCreationInputTokens")),
    )


def is_items(path: PurePath, head: bytes) -> bool:
    """Whether a file has items of this form."""
    opens = re.match(rb'\s*\{("\w+":\s*("[^"]*"|\d+|null),\s*)*"type":\s*"', head[:400]) is not None
    return path.suffix == ".jsonl" and opens and _ITEM.search(head[:65536]) is not None


def recognises(path: PurePath, head: bytes) -> bool:
    if ".workbuddy" in path.parts or not is_items(path, head):
        return False
    # Without its folder, only what no other program writes names it.
    return ".codebuddy" in path.parts or (b'"callId"' in head and b'"response_item"' not in head)


def identify(path: PurePath, first: bytes) -> Identity:
    """The file has the session's id; a subagent's lies below its session."""
    try:
        item = _decode(first)
    except (ValueError, RecursionError):
        item = Item(type="")
    parent = path.parts[-3] if path.parent.name == "subagents" and len(path.parts) > 2 else ""
    return Identity(
        native=path.stem, parent=parent, folder=item.cwd, project=project_of(item.cwd) if item.cwd else ""
    )  # fmt: skip


TOOLS = {
    "shell": Tool("Bash", {"command": "command"}),
    "read": Tool("Read", {"path": "file_path", "offset": "offset", "limit": "limit"}),
    "write": Tool("Write", {"path": "file_path", "content": "content"}),
    "edit": Tool("Edit", {"path": "file_path", "old": "old_string", "new": "new_string"}),
}

RUNTIME = Runtime(
    name=NAME,
    title="CodeBuddy Code",
    home=".codebuddy",
    home_variable="CODEBUDDY_CONFIG_DIR",
    binary="codebuddy",
    formats=(
        Format(
            name="items",
            patterns=("projects/*/*.jsonl", "projects/*/*/subagents/*.jsonl"),
            recognises=recognises,
            identify=identify,
            read=read,
            state=Chat,
        ),
    ),
    tools=TOOLS,
    evidence="public notes and tests, not run",
)
