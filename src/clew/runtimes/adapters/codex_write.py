"""Write a session in Codex's own format."""

import base64
import re
import uuid
from typing import Any

import msgspec

from clew.model.events import CallMade, CallReturned, FilePart, ImagePart, TextPart, ThinkingPart
from clew.runtimes.contract import Command, Native, Target, Written, iso
from clew.runtimes.rounds import Answer, Prompt, Round, output_text, text_of

_IN_NAMESPACE = re.compile(r"(mcp__.+?|multi_agent_v\d+)__(.+)")
CUSTOM_TOOLS = ("apply_patch", "exec")
_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OPENAI_LLM = re.compile(r"(gpt-|o\d|codex)")
_ENCRYPTED = re.compile(r"gAAAA[\w-]{60,}={0,2}", re.ASCII)
FILE_ID = re.compile(f"({_ID})(_{_ID})?$")


def thread_of(native: str) -> str:
    """The id that Codex uses for the session; the continuation after a revert is a separate file with a second id."""
    match = FILE_ID.fullmatch(native)
    return match[1] if match else native


def write(rounds: list[Round], target: Target) -> Native:
    """A rollout in the format before `history_mode`, with the events that Codex builds its list of sessions from."""
    meta = {
        "id": target.id, "timestamp": iso(target.at), "cwd": target.cwd, "originator": "clew", "cli_version": "0.0.0",
        "source": "cli",
    }  # fmt: skip
    lines: list[tuple[int, str, dict[str, Any]]] = [(target.at, "session_meta", meta)]
    if target.title:
        # Codex shows the first prompt instead; this record keeps the title for later readers of the file.
        named = {"type": "thread_name_updated", "thread_id": target.id, "thread_name": target.title}
        lines.append((target.at, "event_msg", named))
    answers = (answer for answer in rounds if isinstance(answer, Answer))
    with_text = {call.call for answer in answers for call in answer.calls if _text_input(call) is not None}
    for round in rounds:
        if isinstance(round, Prompt):
            lines += [(round.at, *line) for line in _write_prompt(round, target)]
        elif isinstance(round, Answer):
            lines += [(round.at, *line) for part in round.parts for line in _write_part(part)]
        else:
            lines += [(round.at, "response_item", _write_return(back, with_text, target)) for back in round.returns]
    data = b"".join(
        msgspec.json.encode({"timestamp": iso(at), "type": type, "payload": payload}) + b"\n"
        for at, type, payload in lines
    )
    time = iso(target.at)[:19].replace(":", "-")
    path = f"sessions/{time[:10].replace('-', '/')}/rollout-{time}-{target.id}.jsonl"
    return Native(id=target.id, files=[Written(path=path, data=data)])


def _write_prompt(prompt: Prompt, target: Target) -> list[tuple[str, dict[str, Any]]]:
    content = _content(prompt.parts, target)
    if not content:
        return []
    shown = {"type": "user_message", "message": text_of(prompt.parts) or "[image]"}
    return [("response_item", {"type": "message", "role": "user", "content": content}), ("event_msg", shown)]


def _content(parts: tuple[Any, ...], target: Target) -> list[dict[str, str]]:
    content = []
    for part in parts:
        if isinstance(part, TextPart) and part.text:
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, ImagePart | FilePart) and part.media_type.startswith("image/"):
            data = base64.b64encode(target.blob(part.blob)).decode()
            content.append({"type": "input_image", "image_url": f"data:{part.media_type};base64,{data}"})
        elif isinstance(part, ImagePart | FilePart):
            content.append({"type": "input_text", "text": f"[file {part.name or part.blob}]"})
    return content


def _write_part(part: Any) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(part, CallMade):
        return [("response_item", _write_call(part))]
    if isinstance(part, ThinkingPart):
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        return [("response_item", {"type": "reasoning", "summary": summary, "encrypted_content": part.signature})]
    if not isinstance(part, TextPart) or not part.text:
        return []
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": part.text}]}
    return [("event_msg", {"type": "agent_message", "message": part.text}), ("response_item", message)]


def takes_thought(thought: ThinkingPart, model: str) -> bool:
    """Whether OpenAI takes back a thought: one of its own llms had it, and it is encrypted as OpenAI does it."""
    return _OPENAI_LLM.match(model) is not None and _ENCRYPTED.fullmatch(thought.signature) is not None


def _write_call(call: CallMade) -> dict[str, Any]:
    if (text := _text_input(call)) is not None:
        return {"type": "custom_tool_call", "call_id": _call_id(call.call), "name": call.tool, "input": text}
    name = re.sub("[^a-zA-Z0-9_-]", "_", call.tool)[:64] or "tool"
    # As text: if this is an object, Codex silently drops the call and its return.
    arguments = bytes(call.input).decode()
    written = {"type": "function_call", "name": name, "arguments": arguments, "call_id": _call_id(call.call)}
    if in_namespace := _IN_NAMESPACE.fullmatch(name):
        # Codex keeps the tools of an MCP server, and those for subagents, in a namespace, and sends it so.
        written |= {"namespace": in_namespace[1], "name": in_namespace[2]}
    return written


def _write_return(returned: CallReturned, with_text: set[str], target: Target) -> dict[str, Any]:
    text, images = output_text(returned), _content(returned.parts, target)
    return {
        "type": "custom_tool_call_output" if returned.call in with_text else "function_call_output",
        "call_id": _call_id(returned.call),
        "output": [{"type": "input_text", "text": text}, *images] if images else text,
    }


def _text_input(call: CallMade) -> str | None:
    """The input of a call of a custom tool, which is text and not JSON: a patch, or a program."""
    if call.tool not in CUSTOM_TOOLS:
        return None
    arguments = msgspec.json.decode(call.input)
    text = arguments.get("input") if isinstance(arguments, dict) and len(arguments) == 1 else None
    return text if isinstance(text, str) else None


def _call_id(call: str) -> str:
    """The id of a call; the API accepts at most 64 characters."""
    return call if len(call) <= 64 else f"call_{uuid.uuid5(uuid.NAMESPACE_OID, call).hex}"


def resume(native: str, path: str) -> Command:
    return Command(argv=["codex", "resume", thread_of(native)])
