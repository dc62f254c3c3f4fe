"""The four formats in which agent clients talk to a model: what a request says, and how an answer is put.

A client's request is flattened to `Item`s, so that one assertion reads the same whatever the client. Nothing here
validates: a test proves what a client sent, not that a provider would take it.
"""

import base64
import json
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]
Events = list[tuple[str, Json | str]]

# Clients want to see usage; no test may depend on it.
TOKENS_IN, TOKENS_OUT = 100, 5
# Only its form counts: nothing checks it here.
SIGNATURE = base64.b64encode(b"signed by a provider that is a script").decode()


class Call(NamedTuple):
    tool: str
    arguments: Json


class Answer(NamedTuple):
    """One answer of the model: a text, calls, or a text and then calls. Several calls are parallel.

    A thought stands before all of it, where the format has one with a signature. `tokens` is what the usage says of the
    request.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    thought: str = ""
    tokens: int = TOKENS_IN


class Item(NamedTuple):
    """One thing that a request tells the model. `kind` is text, call, result, thought, image or other.

    `call` is the id that joins a result to its call; a result has the name of the tool that gave it.
    """

    kind: str
    role: str
    name: str = ""
    arguments: Any = None
    text: str = ""
    call: str = ""


def seen(body: Json) -> list[Item]:
    """What a request tells the model, in order, in any of the formats. Empty texts are left out."""
    if "contents" in body:
        items = _seen_by_gemini(body)
    elif "input" in body:
        items = _seen_by_responses(body)
    else:
        items = _seen_by_messages(body)
    found: list[Item] = []
    names: dict[str, str] = {}
    for item in items:
        if item.kind == "text" and not item.text:
            continue
        if item.kind == "call":
            names[item.call] = item.name
        found.append(item._replace(name=names.get(item.call, item.name)) if item.kind == "result" else item)
    return found


def has_tools(body: Json) -> bool:
    """Requests without tools are a client's side business: titles, summaries, memories."""
    return bool(body.get("tools"))


def _seen_by_messages(body: Json) -> Iterator[Item]:
    """Anthropic Messages and OpenAI chat completions, which differ only in where calls and results lie."""
    yield Item("text", "system", text=_text(body.get("system")))
    for message in body.get("messages", []):
        role = message["role"]
        if role == "tool":
            yield Item("result", "tool", text=_text(message.get("content")), call=message.get("tool_call_id", ""))
            continue
        for block in _blocks(message.get("content")):
            match block.get("type"):
                case "text":
                    yield Item("text", role, text=block["text"])
                case "tool_use":
                    yield Item("call", role, block["name"], block["input"], call=block["id"])
                case "tool_result":
                    yield Item("result", "tool", text=_text(block.get("content")), call=block["tool_use_id"])
                case "thinking" if block.get("signature") == SIGNATURE:
                    yield Item("thought", role, text=block["thinking"])
                case "image" | "image_url" as image:
                    yield Item("image", role, text=image)
                case other:
                    yield Item("other", role, text=str(other))
        for made in message.get("tool_calls") or []:
            function = made["function"]
            yield Item("call", role, function["name"], _parsed(function["arguments"]), call=made["id"])


def _seen_by_responses(body: Json) -> Iterator[Item]:
    yield Item("text", "system", text=body.get("instructions") or "")
    entries = body["input"]
    for entry in [{"role": "user", "content": entries}] if isinstance(entries, str) else entries:
        match entry.get("type", "message"):
            case "message":
                for block in _blocks(entry["content"]):
                    yield Item("text", entry["role"], text=block.get("text", ""))
            case "function_call":
                name = "/".join(filter(None, (entry.get("namespace"), entry["name"])))
                yield Item("call", "assistant", name, _parsed(entry["arguments"]), call=entry["call_id"])
            case "custom_tool_call":
                yield Item("call", "assistant", entry["name"], entry["input"], call=entry["call_id"])
            case "function_call_output" | "custom_tool_call_output":
                yield Item("result", "tool", text=_text(entry["output"]), call=entry["call_id"])
            case other:
                yield Item("other", "assistant", text=other)


def _seen_by_gemini(body: Json) -> Iterator[Item]:
    yield Item("text", "system", text=_text(body.get("systemInstruction", {}).get("parts")))
    for content in body["contents"]:
        role = "assistant" if content.get("role") == "model" else content.get("role", "user")
        for part in content["parts"]:
            if made := part.get("functionCall"):
                yield Item("call", role, made["name"], made["args"], call=made.get("id", ""))
            elif given := part.get("functionResponse"):
                response = given["response"]
                text = response.get("output", response.get("error", response))
                yield Item("result", "tool", given["name"], text=_text(text), call=given.get("id", ""))
            elif "text" in part and not part.get("thought"):
                yield Item("text", role, text=part["text"])
            else:
                yield Item("other", role, text=next(iter(part), ""))


def _blocks(content: Any) -> list[Json]:
    """The blocks of a message's content, which may be a bare string or nothing."""
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: Any) -> str:
    """The text of a string, a block or a list of blocks; anything else is shown as JSON."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            texts = [_text(block) for block in content if not _is_picture(block)]
            return "\n".join(texts)
        case dict() if _is_picture(content):
            return ""
        case {"text": str() as text}:
            return text
        case _:
            return json.dumps(content, ensure_ascii=False, sort_keys=True)


def _is_picture(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in ("image", "input_image", "image_url")


def _parsed(arguments: str) -> Any:
    """Arguments as a value; text that is no JSON stays text, so that an assertion shows it."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


# Each of the following gives an answer twice: whole, and as the events of a stream.


def anthropic(model: str, answer: Answer) -> tuple[Json, Events]:
    usage = {
        "input_tokens": answer.tokens,
        "output_tokens": TOKENS_OUT,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    # Per block: it whole, as it starts, and what is then added to it.
    blocks: list[tuple[Json, Json, list[Json]]] = []
    if answer.thought:
        block: Json = {"type": "thinking", "thinking": answer.thought, "signature": SIGNATURE}
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        deltas = [{"type": "thinking_delta", "thinking": answer.thought}, signed]
        blocks.append((block, {**block, "thinking": "", "signature": ""}, deltas))
    if answer.text:
        block = {"type": "text", "text": answer.text}
        blocks.append((block, {**block, "text": ""}, [{"type": "text_delta", "text": answer.text}]))
    for tool, arguments in answer.calls:
        block = {"type": "tool_use", "id": _new("toolu_"), "name": tool, "input": arguments}
        added = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        blocks.append((block, {**block, "input": {}}, [added]))
    why = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
    head = {"id": _new("msg_"), "type": "message", "role": "assistant", "model": model, "usage": usage}
    started = {**head, "content": [], "stop_reason": None, "stop_sequence": None}
    stream: list[Json] = [{"type": "message_start", "message": started}]
    for index, (_, start, deltas) in enumerate(blocks):
        stream += [
            {"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]
    stream += [{"type": "message_delta", "delta": why, "usage": usage}, {"type": "message_stop"}]
    whole = {**head, **why, "content": [block for block, _, _ in blocks]}
    return whole, [(event["type"], event) for event in stream]


def responses(model: str, answer: Answer) -> tuple[Json, Events]:
    output: list[Json] = []
    stream: list[Json] = []
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        item = {"type": "message", "id": _new("msg_"), "role": "assistant", "status": "completed", "content": [part]}
        at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        output.append(item)
        stream += [
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
            {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **at, "delta": answer.text},
            {"type": "response.output_text.done", **at, "text": answer.text},
            {"type": "response.content_part.done", **at, "part": part},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
        ]
    for tool, arguments in answer.calls:
        packed = json.dumps(arguments)
        # Codex keeps the tools of an MCP server in a namespace of their own: `mcp__clew/recall`.
        namespace, _, name = tool.rpartition("/")
        call = {"type": "function_call", "id": _new("fc_"), "call_id": _new("call_"), "name": name}
        call |= {"namespace": namespace} if namespace else {}
        item = {**call, "arguments": packed, "status": "completed"}
        index = len(output)
        at = {"item_id": item["id"], "output_index": index}
        output.append(item)
        stream += [
            {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", **at, "delta": packed},
            {"type": "response.function_call_arguments.done", **at, "arguments": packed},
            {"type": "response.output_item.done", "output_index": index, "item": item},
        ]
    usage = {
        "input_tokens": answer.tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": TOKENS_OUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.tokens + TOKENS_OUT,
    }
    head = {"id": _new("resp_"), "object": "response", "created_at": 0, "model": model}
    whole = {**head, "status": "completed", "output": output, "usage": usage}
    stream = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        *stream,
        {"type": "response.completed", "response": whole},
    ]
    return whole, [(event["type"], {**event, "sequence_number": n}) for n, event in enumerate(stream)]


def chat(model: str, answer: Answer) -> tuple[Json, Events]:
    usage = {
        "prompt_tokens": answer.tokens,
        "completion_tokens": TOKENS_OUT,
        "total_tokens": answer.tokens + TOKENS_OUT,
    }
    calls = [
        {"id": _new("call_"), "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
        for tool, arguments in answer.calls
    ]
    head = {"id": _new("chatcmpl-"), "created": 0, "model": model}
    finish = "tool_calls" if calls else "stop"
    message: Json = {"role": "assistant", "content": answer.text or None}
    if calls:
        message["tool_calls"] = calls

    def chunk(delta: Json, finished: str | None = None, **more: Any) -> tuple[str, Json]:
        choice = {"index": 0, "delta": delta, "finish_reason": finished}
        return "", {**head, "object": "chat.completion.chunk", "choices": [choice], **more}

    events: Events = [chunk({"role": "assistant", "content": answer.text})]
    events += [chunk({"tool_calls": [{**call, "index": index}]}) for index, call in enumerate(calls)]
    events += [chunk({}, finish, usage=usage), ("", "[DONE]")]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}, events


def gemini(model: str, answer: Answer) -> tuple[Json, Events]:
    parts: list[Json] = [{"text": answer.text}] if answer.text else []
    parts += [{"functionCall": {"name": tool, "args": arguments}} for tool, arguments in answer.calls]
    whole = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": answer.tokens,
            "candidatesTokenCount": TOKENS_OUT,
            "totalTokenCount": answer.tokens + TOKENS_OUT,
        },
        "modelVersion": model,
        "responseId": _new(""),
    }
    return whole, [("", whole)]


def _new(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]
