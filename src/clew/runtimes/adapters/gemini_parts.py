"""Messages in the format of the Gemini API: lists of parts. Gemini CLI and Qwen Code wrap them differently."""

import base64
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import (
    Body,
    CallMade,
    CallReturned,
    FilePart,
    ImagePart,
    MessageAdded,
    TextPart,
    ThinkingPart,
)
from clew.model.events import Part as EventPart
from clew.runtimes.contract import Reading, Target
from clew.runtimes.rounds import output_text


class InlineData(msgspec.Struct):
    mimeType: str | None = None
    data: str = ""


class FunctionCall(msgspec.Struct):
    id: str | None = None
    name: str = ""
    args: Raw = Raw(b"{}")


class FunctionResponse(msgspec.Struct):
    id: str | None = None
    name: str = ""
    response: dict[str, Raw] | None = None
    parts: "list[Part] | None" = None


class Part(msgspec.Struct):
    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    functionCall: FunctionCall | None = None
    functionResponse: FunctionResponse | None = None
    inlineData: InlineData | None = None


Content = str | Part | list[str | Part] | None
UNKNOWN = Part()
# The shell of the programs prints an exit code other than 0 at the end of its output, and reports no error.
_EXIT_CODE = re.compile(
    r"^Exit Code: -?[1-9]\d*(\n(Signal|Background PIDs|Process Group PGID): [^\n]*)*(\n</untrusted_context>)?\s*\Z",
    re.MULTILINE,
)
_TAIL = 1_000


def parts_of(content: Content) -> list[Part]:
    """The parts of a message in any of the formats that the programs write."""
    many = content if isinstance(content, list) else [content] if content else []
    return [Part(text=part) if isinstance(part, str) else part for part in many]


def words_of(content: Content) -> str:
    """The text of a message without its thoughts."""
    return "".join(part.text for part in parts_of(content) if part.text and not part.thought)


def bodies(parts: list[Part], role: str, reading: Reading[Any], *, message: str = "", model: str = "") -> list[Body]:
    """The bodies of the parts of a message, in order; media beside a function's response is a part of the response."""
    event_bodies: list[Body] = []
    run: list[EventPart] = []
    answered = any(part.functionResponse for part in parts)
    media = [_media(part.inlineData, reading) for part in parts if part.inlineData and answered]

    def end_run() -> None:
        if len(run) == 1 and isinstance(run[0], TextPart):
            event_bodies.append(MessageAdded(role=role, text=run[0].text, message=message, model=model))
        elif run:
            event_bodies.append(MessageAdded(role=role, parts=tuple(run), message=message, model=model))
        run.clear()

    for part in parts:
        if part.functionCall or part.functionResponse or bool(part.thought) != bool(run and _is_thought(run[-1])):
            end_run()
        if part.functionCall:
            name, input = part.functionCall.name, object_of(part.functionCall.args)
            call = part.functionCall.id or name
            event_bodies.append(CallMade(call=call, tool=name, input=input, message=message, model=model))
        elif part.functionResponse:
            event_bodies.append(_returned(part.functionResponse, media, reading))
            media = []
        elif part.thought and part.text:
            run.append(ThinkingPart(text=part.text, signature=part.thoughtSignature or ""))
        elif part.text:
            run.append(TextPart(text=part.text))
        elif part.inlineData and not answered:
            run.append(_media(part.inlineData, reading))
    end_run()
    return event_bodies


def object_of(args: Raw) -> Raw:
    """The arguments of a call; a call without any has an empty object."""
    return Raw(b"{}") if bytes(args) == b"null" else args


def _is_thought(part: EventPart) -> bool:
    return isinstance(part, ThinkingPart)


def _returned(back: FunctionResponse, media: list[ImagePart | FilePart], reading: Reading[Any]) -> CallReturned:
    response = back.response or {}
    value = next((response[name] for name in ("output", "error") if set(response) == {name}), None)
    output = Raw(msgspec.json.encode(response)) if value is None else value
    inside = [_media(part.inlineData, reading) for part in back.parts or [] if part.inlineData]
    return CallReturned(
        call=back.id or back.name,
        output=output,
        parts=(*inside, *media),
        failed="error" in response or _exit_code_in(output),
    )


def _exit_code_in(output: Raw) -> bool:
    """Whether the output ends with an exit code other than 0."""
    if b"Exit Code: " not in bytes(output):
        return False
    text = msgspec.json.decode(output)
    return isinstance(text, str) and bool(_EXIT_CODE.search(text[-_TAIL:]))


def _media(data: InlineData, reading: Reading[Any]) -> ImagePart | FilePart:
    kind = data.mimeType or ""
    blob = reading.blob(base64.b64decode(data.data, validate=True))
    return (ImagePart if kind.startswith("image/") else FilePart)(blob=blob, media_type=kind)


# Writing --------------------------------------------------------------------------------------------------------------


def written(parts: Iterable[EventPart | CallMade], target: Target) -> list[dict[str, Any]]:
    """The parts of a message in the API's format; adjacent texts are joined, because the programs join them."""
    message_parts: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, CallMade):
            # Decoded, so that they are formatted as the programs do it; a function's arguments must be an object.
            args = msgspec.json.decode(part.input)
            args = args if isinstance(args, dict) else {"input": args}
            message_parts.append({"functionCall": {"id": part.call, "name": part.tool, "args": args}})
        elif isinstance(part, ImagePart | FilePart):
            data = base64.b64encode(target.blob(part.blob)).decode()
            message_parts.append({"inlineData": {"mimeType": part.media_type or "image/png", "data": data}})
        elif message_parts and "text" in message_parts[-1]:
            message_parts[-1]["text"] += f"\n{part.text}"
        else:
            message_parts.append({"text": part.text})
    return message_parts


def returned(back: CallReturned, tool: str, target: Target) -> list[dict[str, Any]]:
    """The result of a call in the API's format, with its images after it."""
    response = {"error" if back.failed and not _exit_code_in(back.output) else "output": output_text(back)}
    answer = {"functionResponse": {"id": back.call, "name": tool, "response": response}}
    return [answer, *written((part for part in back.parts if isinstance(part, ImagePart | FilePart)), target)]
