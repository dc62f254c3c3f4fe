"""Write a session in Copilot CLI's own format."""

import base64
import re
import uuid
from typing import Any

import msgspec

from clew.model.events import CallReturned, FilePart, ImagePart
from clew.runtimes.contract import Command, Native, Target, Written, iso
from clew.runtimes.rounds import Answer, Prompt, Round, images_of, output_text, text_of

VERSION = "1.0.102"
# The shell of the program tells an exit code other than 0 in the last line of a result, which is no error otherwise.
_EXIT_CODE = re.compile(r"<(shellId: \S+ completed|exited) with exit code -?[1-9]\d*>\s*\Z")
_TAIL = 200


def exit_code_in(text: str) -> bool:
    """Whether a result ends with an exit code other than 0."""
    return bool(_EXIT_CODE.search(text[-_TAIL:]))


def write(rounds: list[Round], target: Target) -> Native:
    lines: list[dict[str, Any]] = []

    def add(type: str, key: str, at: int, data: dict[str, Any]) -> None:
        lines.append({
            "type": type, "data": data, "id": _id(target, key), "timestamp": iso(at),
            "parentId": lines[-1]["id"] if lines else None,
        })  # fmt: skip

    start = {"sessionId": target.id, "version": 1, "producer": "clew", "copilotVersion": VERSION}
    add("session.start", "start", target.at, start | {"startTime": iso(target.at), "context": {"cwd": target.cwd}})
    for round in rounds:
        if isinstance(round, Prompt):
            add("user.message", round.key, round.at, _prompt(round, target))
        elif isinstance(round, Answer):
            if round.calls or text_of(round.parts):
                add("assistant.message", round.key, round.at, _answer(round, target))
        else:
            for i, back in enumerate(round.returns):
                add("tool.execution_complete", f"{round.key}/{i}", round.at, _result(back, target))
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    folder = f"session-state/{target.id}"
    files = [Written(path=f"{folder}/events.jsonl", data=data)]
    if target.title:
        # A title is not an event: it is in this second file, which the program otherwise creates.
        about = {"id": target.id, "cwd": target.cwd, "name": target.title, "user_named": True}
        lines_of_yaml = [f"{name}: {msgspec.json.encode(value).decode()}\n" for name, value in about.items()]
        files.append(Written(path=f"{folder}/workspace.yaml", data="".join(lines_of_yaml).encode()))
    return Native(id=target.id, files=files)


def _prompt(prompt: Prompt, target: Target) -> dict[str, Any]:
    text, attached = text_of(prompt.parts), [_binary(part, target) for part in images_of(prompt.parts)]
    return {"content": text, "transformedContent": text, **({"attachments": attached} if attached else {})}


def _answer(answer: Answer, target: Target) -> dict[str, Any]:
    requests = [
        {"toolCallId": call.call, "name": call.tool, "arguments": call.input, "type": "function"}
        for call in answer.calls
    ]
    message = _id(target, f"{answer.key}/message")
    return {"messageId": message, "content": text_of(answer.parts), "toolRequests": requests}


def _id(target: Target, key: str) -> str:
    return str(uuid.uuid5(uuid.UUID(target.id), key))


def _result(back: CallReturned, target: Target) -> dict[str, Any]:
    """A failed call has an error in place of a result; the program reads only the error."""
    text = output_text(back)
    if back.failed and not exit_code_in(text):
        return {"toolCallId": back.call, "success": False, "error": {"message": text}}
    images = [{**_binary(part, target), "type": "image"} for part in images_of(back.parts)]
    result = {"content": text} | ({"binaryResultsForLlm": images} if images else {})
    return {"toolCallId": back.call, "success": True, "result": result}


def _binary(part: ImagePart | FilePart, target: Target) -> dict[str, Any]:
    data = base64.b64encode(target.blob(part.blob)).decode()
    named = {"displayName": part.name} if part.name else {}
    return {"type": "blob", "data": data, "mimeType": part.media_type or "image/png", **named}


def resume(native: str, file: str) -> Command:
    return Command(argv=["copilot", f"--resume={native}"])
