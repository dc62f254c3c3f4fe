"""Small Claude Code transcripts, made up: enough of everything the reader has a rule for."""

import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SESSION = "11111111-2222-4333-8444-555555555555"
CWD = "/home/me/app"


def id_of(name: str) -> str:
    return str(uuid.uuid5(uuid.UUID(SESSION), name))


def line(name: str, parent: str | None, type: str, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "parentUuid": id_of(parent) if parent else None, "isSidechain": False, "userType": "external", "cwd": CWD,
        "sessionId": SESSION, "version": "2.1.325", "gitBranch": "main", "type": type, "message": message,
        "uuid": id_of(name), "timestamp": "2026-11-15T10:00:00.000Z", **more,
    }  # fmt: skip


def says(name: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
    """A prompt."""
    return line(name, parent, "user", {"role": "user", "content": text}, **more)


def answers(name: str, parent: str | None, *blocks: dict[str, Any], message: str = "", **more: Any) -> dict[str, Any]:
    """A part of a model's answer."""
    body = {"id": message or f"msg_{name}", "type": "message", "role": "assistant", "model": "claude-opus-5-5"}
    usage = {"input_tokens": 100, "output_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}
    return line(name, parent, "assistant", {**body, "content": list(blocks), "usage": usage}, **more)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def calls(id: str, command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}


def returns(name: str, parent: str, call: str, output: Any, *, failed: bool = False) -> dict[str, Any]:
    """What a call gave back."""
    block = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": failed}
    return line(name, parent, "user", {"role": "user", "content": [block]}, toolUseResult={"stdout": "x"})


def lines(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def story() -> list[dict[str, Any]]:
    """A session with a bit of everything: side records, parallel calls, a failure, thinking, Unicode, a title."""
    return [
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION, "content": "liste die Dateien"},
        says("u1", None, "liste die Dateien für mich 🧵"),
        answers("a1", "u1", {"type": "thinking", "thinking": "hm", "signature": "sig"}, message="m1"),
        answers("a2", "a1", calls("t1", "ls"), message="m1"),
        answers("a3", "a2", calls("t2", "cat nothing"), message="m1"),
        returns("r1", "a2", "t1", "a.txt\nüber.txt"),
        returns("r2", "a3", "t2", "Exit code 1\nno such file", failed=True),
        {"type": "progress", "uuid": id_of("p1"), "parentUuid": id_of("r2"), "sessionId": SESSION, "data": {"n": 1}},
        answers("a4", "r2", text("Zwei Dateien: a.txt und über.txt."), message="m2"),
        {"type": "mode", "mode": "normal", "sessionId": SESSION},
        {"type": "mode", "mode": "normal", "sessionId": SESSION},
        says("u2", "a4", f"look at {CWD}/a.txt please"),
        answers("a5", "u2", text("Done."), message="m3"),
        {"type": "custom-title", "customTitle": "Files", "sessionId": SESSION},
        {"type": "a-type-nobody-knows", "sessionId": SESSION, "deep": [[[[{"x": None}]]]]},
    ]


def transcript(home: Path, *, session: str = SESSION, folder: str = "-home-me-app") -> Path:
    """Where Claude Code keeps a session below a home directory."""
    path = home / ".claude" / "projects" / folder / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
