"""What a call was given and what it returned, as text for people, from the forms that programs commonly write."""

import re
import shlex
from typing import Any

import msgspec

from clew.model.events import CallMade, CallReturned
from clew.runtimes.adapters.interchange import returned_text
from clew.runtimes.changes import PATHS, named, patch_of

_COMMANDS = ("command", "cmd")
_PATTERNS = ("pattern", "regex")
_OTHERS = ("url", "query", "description", "subject", "title", "prompt", "name")
_PATCHED = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(.+)", re.MULTILINE)


def inputs_of(made: CallMade) -> dict[str, Any]:
    """The input of a call by field; a text that is no JSON object is the field `input`."""
    values = _json(bytes(made.input))
    inner = values.get("input") if isinstance(values, dict) and len(values) == 1 else values
    # Some programs store the text that their llm wrote, even if it is not a JSON object.
    if isinstance(inner, str):
        parsed = _json(inner.encode())
        return parsed if isinstance(parsed, dict) else {"input": inner}
    return values if isinstance(values, dict) else {"input": values}


def telling_of(values: dict[str, Any], cwd: str = "") -> tuple[str, set[str]]:
    """The most telling part of the input of a call, and the names of its fields; paths below `cwd` are shortened."""
    if patch := patch_of(values):
        return ", ".join(_PATCHED.findall(patch)), set(values)
    command, pattern, path = (named(values, names) for names in (_COMMANDS, _PATTERNS, PATHS))
    shortened = str(values.get(path, "")).removeprefix(f"{cwd}/" if cwd else "")
    if command:
        return " ".join(filter(None, (command_of(values), shortened))), {command, path}
    if pattern or path:
        return " in ".join(filter(None, (str(values.get(pattern, "")), shortened))), {pattern, path}
    if other := named(values, _OTHERS):
        return str(values[other]), {other}
    plainly = {name for name, value in values.items() if not isinstance(value, dict | list)}
    return " ".join(f"{name}={_brief(value)}" for name, value in values.items()), plainly


def command_of(values: dict[str, Any]) -> str:
    """The shell command in the input of a call; empty if there is none."""
    value = values.get(named(values, _COMMANDS), "")
    if not isinstance(value, list):
        return str(value)
    words = [str(word) for word in value]
    # A shell that is given a script is not worth telling.
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else shlex.join(words)


def output_of(back: CallReturned) -> str:
    """The output of a call as text: known wrappers are removed, other JSON is indented; colour codes are kept."""
    text = returned_text(back)
    if not text.lstrip().startswith(("{", "[")):
        return text
    value = _json(text.encode())
    if (inner := _unwrapped(value)) is not None:
        return inner
    return msgspec.json.format(text, indent=2) if isinstance(value, dict | list) and "\n" not in text.strip() else text


def _unwrapped(value: Any) -> str | None:
    """The text inside a known wrapper; None for any other output."""
    if not isinstance(value, dict):
        return None
    name = next((name for name in ("output", "text") if isinstance(value.get(name), str)), "")
    if {other for other, held in value.items() if held} - {name, "type", "metadata"} or not name:
        return None
    about = value.get("metadata")
    code = about.get("exit_code") if isinstance(about, dict) else None
    return f"{value[name].rstrip()}\n[exit code {code}]" if code else str(value[name])


def _brief(value: Any) -> str:
    if isinstance(value, list):
        return f"[{len(value)}]"
    return f"{{{len(value)}}}" if isinstance(value, dict) else str(value)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text.decode(errors="replace")
