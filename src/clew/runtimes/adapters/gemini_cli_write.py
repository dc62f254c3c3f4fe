"""Writing a session as one of Gemini CLI's own."""

import hashlib
import re
import uuid
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import msgspec

from clew.model.events import Part as Said
from clew.runtimes.adapters.gemini_parts import returned, written
from clew.runtimes.contract import Command, Native, Target, Written, iso
from clew.runtimes.rounds import Answer, Prompt, Round

_IGNORED = ("/", "?", "<session_context>", "<hook_context>")


class Register(msgspec.Struct):
    """The program's own list: which folder keeps the sessions of which directory."""

    projects: dict[str, str] = {}


def write(rounds: list[Round], target: Target) -> Native:
    """One file in the folder of the directory, which the program's register of projects names.

    Its name has the whole id: a later start of the program deletes files whose names end in a shortened one. Calls and
    results are parts of messages: `toolCalls`, the program's own way, come twice after a resume.
    """
    root = hashlib.sha256(target.cwd.encode()).hexdigest()
    now = iso(target.at)
    header = {"sessionId": target.id, "projectHash": root, "startTime": now, "lastUpdated": now, "kind": "main"}
    lines: list[dict[str, Any]] = [{**header, "directories": [target.cwd]}]
    if target.title:
        lines[0]["summary"] = target.title
    names: dict[str, str] = {}
    for one in rounds:
        if isinstance(one, Prompt):
            type, parts = "user", _prompt(one.parts, target)
        elif isinstance(one, Answer):
            type, parts = "gemini", written(one.parts, target)
            names |= {call.call: call.tool for call in one.calls}
        else:
            type, parts = (
                "user",
                [part for back in one.returns for part in returned(back, names.get(back.call, ""), target)],
            )
        line = {"id": str(uuid.uuid5(uuid.UUID(target.id), one.key)), "timestamp": iso(one.at), "type": type}
        lines.append({**line, "content": parts} | ({"model": one.model} if isinstance(one, Answer) else {}))
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    folder, marker = _folder(target)
    name = f"session-{now[:16].replace(':', '-')}-{target.id}.jsonl"
    return Native(id=target.id, files=[Written(path=f"tmp/{folder}/chats/{name}", data=data), *marker])


def _folder(target: Target) -> tuple[str, list[Written]]:
    """The folder of the directory, and for one that the program does not know yet the file by which it will."""
    try:
        known = msgspec.json.decode(target.file("projects.json") or b"{}", type=Register).projects
    except (ValueError, RecursionError):
        known = {}
    if target.cwd in known and re.fullmatch(r"[\w.-]+", known[target.cwd]):
        return known[target.cwd], []
    name = re.sub("[^a-z0-9]+", "-", PurePath(target.cwd).name.lower()).strip("-") or "project"
    names = [name, *(f"{name}-{number}" for number in range(1, 1000))]
    for one in names:
        root = target.file(f"tmp/{one}/.project_root")
        if root is not None and root.decode("utf-8", "replace").strip() == target.cwd:
            return one, []
        if root is None and one not in known.values():
            return one, [Written(path=f"tmp/{one}/.project_root", data=target.cwd.encode())]
    return target.id, [Written(path=f"tmp/{target.id}/.project_root", data=target.cwd.encode())]


def _prompt(parts: Iterable[Said], target: Target) -> list[dict[str, Any]]:
    found = written(parts, target)
    words = "".join(part.get("text", "") for part in found).strip()
    if found and "text" in found[0] and (not words or words.startswith(_IGNORED)):
        # The program leaves out a prompt that looks like a command; one that says it is no thought stays.
        found[0]["thought"] = False
    return found


def resume(native: str, file: str) -> Command:
    """A session in the program's own folder by its id, any other file as an import."""
    own = PurePath(file).parent.name == "chats"
    return Command(argv=["gemini", "-r", native] if own else ["gemini", "--session-file", file])
