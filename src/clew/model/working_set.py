"""The files, apps and data sources a session touched, derived from its calls.

A call, or its return, may say itself what it touched (`touched`, set by adapters that know better). Otherwise the
well-known tool names below are read: the field that names a file, and whether the tool reads or writes it.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from clew.model.events import AnyBody, CallMade, CallReturned, Event, Touch

_PATHS = ("file_path", "path", "filename", "file", "notebook_path", "absolute_path", "filePath", "target_file")
_READS = {"read", "read_file", "readfile", "view", "cat", "open_file", "read_many_files", "notebookread"}
_WRITES = {"write", "write_file", "writefile", "edit", "edit_file", "multiedit", "replace", "create", "create_file"}
_WRITES |= {"str_replace", "str_replace_editor", "str_replace_based_edit_tool", "insert", "notebookedit", "patch"}
_FETCHES = {"webfetch", "web_fetch", "fetch", "browse", "http_get"}
_PATCH_MARKS = ("*** Update File: ", "*** Add File: ", "*** Delete File: ")


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the working set: what, of which type, how often read and written, and the last call's seq."""

    what: str
    type: str
    read: int
    written: int
    last_seq: int


# Tools that look and change no file, and those whose work is recorded as calls of its own.
_LOOKS = frozenset(
    "glob grep ls list list_directory list_dir search search_file_content find_files todowrite todoread todo_write "
    "write_todos update_plan websearch web_search google_web_search webfetch web_fetch askuserquestion ask_user "
    "exitplanmode task agent taskoutput killshell skill toolsearch read_many_files view_image".split()
)


def only_looks(call: CallMade, touched: Iterable[Touch]) -> bool:
    """Whether a call that touched this changes no file for sure."""
    if call.tool.rsplit("__", 1)[-1].lower() in _LOOKS:
        return True
    touched = list(touched)
    return bool(touched) and all(touch.how != "written" and touch.type != "app" for touch in touched)


def touches(body: AnyBody) -> tuple[Touch, ...]:
    """What a call touched, or what its return adds to that; nothing for other bodies."""
    if isinstance(body, CallReturned):
        return body.touched
    return _touched_by(body) if isinstance(body, CallMade) else ()


def _touched_by(call: CallMade) -> tuple[Touch, ...]:
    if call.touched:
        return call.touched
    tool = call.tool.rsplit("__", 1)[-1].lower()
    values = _inputs(call)
    if tool in _FETCHES and isinstance(url := values.get("url"), str):
        return (Touch(what=_host(url), how="read", type="source"),)
    if tool == "apply_patch":
        return tuple(Touch(what=path, how="written") for path in _patched(values))
    how = "written" if tool in _WRITES and values.get("command") != "view" else "read"
    paths = [value for name in _PATHS if isinstance(value := values.get(name), str) and value]
    if paths and tool in _READS | _WRITES:
        return (Touch(what=paths[0], how=how),)
    app = call.tool.split("__")
    return (Touch(what=app[1], how="read", type="app"),) if len(app) > 2 and app[0] == "mcp" else ()


def working_set(events: Iterable[Event]) -> list[Touched]:
    """The working set after these events, last touched first."""
    touched: dict[tuple[str, str], Touched] = {}
    for event in events:
        for touch in touches(event.body):
            key = (touch.type, touch.what)
            was = touched.pop(key, None) or Touched(what=touch.what, type=touch.type, read=0, written=0, last_seq=0)
            touched[key] = Touched(
                what=was.what,
                type=was.type,
                # Whatever is not a write leaves the thing as it was: a read.
                read=was.read + (touch.how != "written"),
                written=was.written + (touch.how == "written"),
                last_seq=event.seq,
            )
    return list(touched.values())[::-1]


def _inputs(call: CallMade) -> dict[str, object]:
    try:
        values = msgspec.json.decode(call.input)
    except (msgspec.DecodeError, RecursionError):
        return {}  # The log stores such an input verbatim; the working set ignores it.
    return values if isinstance(values, dict) else {}


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc or url
    except ValueError:
        return url


def _patched(values: dict[str, object]) -> list[str]:
    text = values.get("input") or values.get("patch") or values.get("patchText") or ""
    lines = text.splitlines() if isinstance(text, str) else []
    return [line[len(mark) :].strip() for line in lines for mark in _PATCH_MARKS if line.startswith(mark)]
