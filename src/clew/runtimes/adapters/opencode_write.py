"""Write a session in OpenCode's own format."""

import base64
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from clew.model.events import CallMade, CallReturned, FilePart, ImagePart
from clew.model.title import first_line
from clew.runtimes.contract import Command, Native, Target, Written
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, text_of

NAME = "opencode"
VERSION = "1.18.33"
# The program requires an llm for every message; this name stands for an unknown one.
IMPORTED_MODEL = {"providerID": "clew", "modelID": "imported"}


class _Ids:
    """Ids in the program's format: they sort by time and depend only on the target."""

    def __init__(self, target: Target) -> None:
        self._space = uuid.UUID(target.id)
        self.session = f"ses_{~self._stamp(target.at // 1000, 0) & (1 << 48) - 1:012x}{self._tail('session')}"

    def message(self, at: int) -> str:
        return f"msg_{self._stamp(at, 1):012x}{self._tail(f'{at}')}"

    def part(self, at: int, number: int) -> str:
        return f"prt_{self._stamp(at, 2 + number):012x}{self._tail(f'{at}/{number}')}"

    @staticmethod
    def _stamp(at: int, number: int) -> int:
        return (at * 4096 + number) & (1 << 48) - 1

    def _tail(self, key: str) -> str:
        return uuid.uuid5(self._space, key).hex[:14]


def write(rounds: list[Round], target: Target) -> Native:
    ids = _Ids(target)
    returns = {back.call: back for round in rounds if isinstance(round, Results) for back in round.returns}
    spoken = [round for round in rounds if not isinstance(round, Results) and round.parts]
    messages: list[dict[str, Any]] = []
    asked = ""
    for round, at in zip(spoken, _times(spoken, target.at // 1000), strict=True):
        id = ids.message(at)
        info: dict[str, Any] = {"id": id, "sessionID": ids.session}
        if isinstance(round, Prompt):
            asked = id
            info |= {"role": "user", "time": {"created": at}, "agent": "build", "model": IMPORTED_MODEL}
        else:
            info |= _answer_info(round, asked or id, at, target.cwd)
        parts = [
            {"id": ids.part(at, i), "sessionID": ids.session, "messageID": id, **part}
            for i, part in enumerate(_written_parts(round, at, returns, target))
        ]
        attached = [file for part in parts for file in part.get("state", {}).get("attachments", ())]
        for i, file in enumerate(attached, len(parts)):
            file |= {"id": ids.part(at, i), "sessionID": ids.session, "messageID": id}
        messages.append({"info": info, "parts": parts})
    first = next((text_of(round.parts) for round in spoken if isinstance(round, Prompt)), "")
    session = {
        "id": ids.session, "slug": f"clew-{target.id[:8]}", "projectID": "global", "directory": target.cwd,
        "title": target.title or first_line(first) or "Resumed session", "version": VERSION,
        "time": {"created": messages[0]["info"]["time"]["created"] if messages else target.at // 1000,
                 "updated": target.at // 1000},
    }  # fmt: skip
    data = msgspec.json.format(msgspec.json.encode({"info": session, "messages": messages}), indent=2) + b"\n"
    return Native(
        id=ids.session,
        files=[Written(path=f"clew/{ids.session}.json", data=data)],
        notes=["opencode run needs -m provider/model the first time: the session names no model of yours"],
    )


def _times(spoken: list[Prompt | Answer], latest: int) -> Iterator[int]:
    """The times of the messages in milliseconds: rising, because the program sorts by them, and never in the future."""
    time = 0
    for i, round in enumerate(spoken):
        time = max(time + 1, min(round.at // 1000, latest - len(spoken) + i))
        yield time


def _answer_info(answer: Answer, parent: str, at: int, cwd: str) -> dict[str, Any]:
    return {
        "role": "assistant", "parentID": parent, "mode": "build", "agent": "build", "path": {"cwd": cwd, "root": cwd},
        "cost": 0, "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        "providerID": IMPORTED_MODEL["providerID"], "modelID": answer.model or IMPORTED_MODEL["modelID"],
        "time": {"created": at, "completed": at}, "finish": "tool-calls" if answer.calls else "stop",
    }  # fmt: skip


def _written_parts(
    round: Prompt | Answer, at: int, returns: dict[str, CallReturned], target: Target
) -> Iterator[dict[str, Any]]:
    for part in round.parts:
        if isinstance(part, CallMade):
            yield _written_call(part, returns[part.call], at, target)
        elif isinstance(part, ImagePart | FilePart):
            yield _written_text(part, target) if part.media_type.startswith("text/") else _written_file(part, target)
        else:
            yield {"type": "text", "text": part.text}


def _written_call(call: CallMade, back: CallReturned, at: int, target: Target) -> dict[str, Any]:
    value = msgspec.json.decode(call.input)
    state: dict[str, Any] = {"input": call.input if isinstance(value, dict) else {"input": value}}
    text, time = output_text(back), {"start": at, "end": at}
    if back.failed:
        state = {"status": "error", **state, "error": text, "time": time}
    else:
        state = {"status": "completed", **state, "output": text, "title": call.tool, "metadata": {}, "time": time}
        files = [_written_file(part, target) for part in back.parts if isinstance(part, ImagePart | FilePart)]
        if files:
            state["attachments"] = files
    return {"type": "tool", "tool": call.tool, "callID": call.call, "state": state}


def _written_text(part: ImagePart | FilePart, target: Target) -> dict[str, Any]:
    """A text file as its text: the program never sends text files, because it adds their text to the message."""
    return {"type": "text", "text": target.blob(part.blob).decode("utf-8", "replace")}


def _written_file(part: ImagePart | FilePart, target: Target) -> dict[str, Any]:
    mime = part.media_type or "application/octet-stream"
    url = f"data:{mime};base64,{base64.b64encode(target.blob(part.blob)).decode()}"
    return {"type": "file", "mime": mime, "url": url} | ({"filename": part.name} if part.name else {})


def resume(native: str, file: str) -> Command:
    return Command(argv=[NAME, "-s", native])
