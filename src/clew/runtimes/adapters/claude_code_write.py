"""Write a session in Claude Code's own format."""

import base64
import re
import uuid
from pathlib import PurePath
from typing import Any

import msgspec

from clew.model.events import CallMade, CallReturned, ImagePart, Part, TextPart, ThinkingPart
from clew.runtimes.contract import Command, Native, Target, Written, iso
from clew.runtimes.rounds import Answer, Prompt, Round, output_text

VERSION = "2.1.328"
# In bytes; a shorter one is a stand-in of another provider.
_SHORTEST_SIGNATURE = 24


def folder(cwd: str) -> str:
    """The name of the folder that holds a directory's sessions."""
    return re.sub("[^a-zA-Z0-9]", "-", cwd)


def write(rounds: list[Round], target: Target) -> Native:
    lines: list[dict[str, Any]] = []

    def add(type: str, key: str, at: int, message: dict[str, Any]) -> None:
        lines.append({
            "parentUuid": lines[-1]["uuid"] if lines else None, "isSidechain": False, "userType": "external",
            "cwd": target.cwd, "sessionId": target.id, "version": VERSION, "type": type, "message": message,
            "uuid": str(uuid.uuid5(uuid.UUID(target.id), key)), "timestamp": iso(at),
        })  # fmt: skip

    for round in rounds:
        if isinstance(round, Prompt):
            add("user", round.key, round.at, {"role": "user", "content": _content(round.parts, target)})
        elif isinstance(round, Answer):
            _write_answer(round, target, add)
        else:
            results = [
                {"type": "tool_result", "tool_use_id": back.call, "content": _result(back, target)}
                | ({"is_error": True} if back.failed else {})
                for back in round.returns
            ]
            add("user", round.key, round.at, {"role": "user", "content": results})
    if target.title:
        lines.append({"type": "custom-title", "customTitle": target.title, "sessionId": target.id})
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    return Native(
        id=target.id, files=[Written(path=f"projects/{folder(target.cwd)[:200]}/{target.id}.jsonl", data=data)]
    )


def _write_answer(answer: Answer, target: Target, add: Any) -> None:
    # A thought belongs to the llm that had it.
    is_own = any(isinstance(part, ThinkingPart) for part in answer.parts)
    model = answer.model if is_own else "<synthetic>"
    for i, part in enumerate(answer.parts):
        if isinstance(part, CallMade):
            block = {"type": "tool_use", "id": part.call, "name": part.tool, "input": part.input}
        elif isinstance(part, TextPart):
            block = {"type": "text", "text": part.text}
        elif isinstance(part, ThinkingPart):
            block = {"type": "thinking", "thinking": part.text, "signature": part.signature}
        else:
            continue
        # The blocks of one answer share an id: the program merges exactly those.
        message = {
            "id": f"msg_{uuid.uuid5(uuid.UUID(target.id), answer.key).hex[:24]}", "type": "message",
            "role": "assistant", "model": model, "content": [block], "stop_sequence": None,
            "stop_reason": "tool_use" if answer.calls else "end_turn",
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }  # fmt: skip
        add("assistant", f"{answer.key}/{i}", answer.at, message)


def takes_thought(thought: ThinkingPart, model: str) -> bool:
    """Whether Anthropic takes back a thought: one of its own llms had it, and its text and signature are there.

    A thought without text may have been hidden in one of two ways, which the log does not tell apart.
    """
    if not (model.startswith("claude") and thought.text):
        return False
    try:
        return len(base64.b64decode(thought.signature, validate=True)) >= _SHORTEST_SIGNATURE
    except ValueError:
        return False


def _content(parts: tuple[Part, ...], target: Target) -> Any:
    if all(isinstance(part, TextPart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return [_block(part, target) for part in parts]


def _result(returned: CallReturned, target: Target) -> Any:
    text = output_text(returned)
    images = [part for part in returned.parts if isinstance(part, ImagePart)]
    # The API rejects an empty text block.
    text_blocks = [{"type": "text", "text": text}] if text else []
    return text if not images else [*text_blocks, *(_block(part, target) for part in images)]


def _block(part: Part, target: Target) -> dict[str, Any]:
    if isinstance(part, TextPart | ThinkingPart):
        return {"type": "text", "text": part.text}
    data = base64.b64encode(target.blob(part.blob)).decode()
    source = {"type": "base64", "media_type": part.media_type or "image/png", "data": data}
    return {"type": "image", "source": source}


def resume(native: str, file: str) -> Command:
    # For a very long directory the folder's name ends in a hash that only the program can compute: resume by path.
    by_path = len(PurePath(file).parent.name) >= 200
    return Command(argv=["claude", "--resume", file if by_path else native])
