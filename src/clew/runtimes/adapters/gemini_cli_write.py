"""Write a session in Gemini CLI's own format."""

import hashlib
import re
import uuid
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import msgspec

from clew.model.events import Part as EventPart
from clew.runtimes.adapters.gemini_parts import returned, written
from clew.runtimes.contract import Command, Native, Target, Written, iso
from clew.runtimes.rounds import Answer, Prompt, Round

_IGNORED = ("/", "?", "<session_context>", "<hook_context>")


class Register(msgspec.Struct):
    """The program's own list: the folder that holds the sessions of each directory."""

    projects: dict[str, str] = {}


def write(rounds: list[Round], target: Target) -> Native:
    """One file in the folder of the directory, which the program's register of projects names.

    The file's name has the whole id: the program deletes files whose names end in a shortened id at a later start.
    Calls and results are parts of messages: `toolCalls`, the program's own way, appear twice after a resume.
    """
    root = hashlib.sha256(target.cwd.encode()).hexdigest()
    now = iso(target.at)
    header = {"sessionId": target.id, "projectHash": root, "startTime": now, "lastUpdated": now, "kind": "main"}
    lines: list[dict[str, Any]] = [{**header, "directories": [target.cwd]}]
    if target.title:
        lines[0]["summary"] = target.title
    names: dict[str, str] = {}
    for round in rounds:
        if isinstance(round, Prompt):
            type, parts = "user", _prompt(round.parts, target)
        elif isinstance(round, Answer):
            type, parts = "gemini", written(round.parts, target)
            names |= {call.call: call.tool for call in round.calls}
        else:
            type, parts = (
                "user",
                [part for back in round.returns for part in returned(back, names.get(back.call, ""), target)],
            )
        line = {"id": str(uuid.uuid5(uuid.UUID(target.id), round.key)), "timestamp": iso(round.at), "type": type}
        lines.append({**line, "content": parts} | ({"model": round.model} if isinstance(round, Answer) else {}))
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    folder, marker = _folder(target)
    name = f"session-{now[:16].replace(':', '-')}-{target.id}.jsonl"
    return Native(id=target.id, files=[Written(path=f"tmp/{folder}/chats/{name}", data=data), *marker])


def _folder(target: Target) -> tuple[str, list[Written]]:
    """The folder of the directory, and the file that registers it if the program does not know it yet."""
    try:
        projects = msgspec.json.decode(target.file("projects.json") or b"{}", type=Register).projects
    except (ValueError, RecursionError):
        projects = {}
    if target.cwd in projects and re.fullmatch(r"[\w.-]+", projects[target.cwd]):
        return projects[target.cwd], []
    name = re.sub("[^a-z0-9]+", "-", PurePath(target.cwd).name.lower()).strip("-") or "project"
    names = [name, *(f"{name}-{number}" for number in range(1, 1000))]
    for candidate in names:
        root = target.file(f"tmp/{candidate}/.project_root")
        if root is not None and root.decode("utf-8", "replace").strip() == target.cwd:
            return candidate, []
        if root is None and candidate not in projects.values():
            return candidate, [Written(path=f"tmp/{candidate}/.project_root", data=target.cwd.encode())]
    return target.id, [Written(path=f"tmp/{target.id}/.project_root", data=target.cwd.encode())]


def _prompt(parts: Iterable[EventPart], target: Target) -> list[dict[str, Any]]:
    written_parts = written(parts, target)
    words = "".join(part.get("text", "") for part in written_parts).strip()
    if written_parts and "text" in written_parts[0] and (not words or words.startswith(_IGNORED)):
        # The program omits a prompt that looks like a command, unless the prompt has `thought: false`.
        written_parts[0]["thought"] = False
    return written_parts


def resume(native: str, file: str) -> Command:
    """Resume a session in the program's own folder by its id, any other file as an import."""
    own = PurePath(file).parent.name == "chats"
    return Command(argv=["gemini", "-r", native] if own else ["gemini", "--session-file", file])
