"""The log of changes in which Copilot Chat keeps a session, and the document that they make."""

import re
from typing import Any

import msgspec

from clew.runtimes.contract import Unreadable
from clew.runtimes.records import without_halves


class Change(msgspec.Struct):
    kind: int
    k: list[str | int] = []
    v: Any = None
    i: int | None = None


def is_log(data: bytes) -> bool:
    return re.match(rb'\s*\{"kind":\s*\d', data) is not None


def replayed(data: bytes) -> bytes:
    """The document after all changes. A last line that is half written does not count yet."""
    state: Any = None
    *lines, last = data.decode("utf-8", "replace").encode().split(b"\n")
    for line in [*lines, last]:
        if not line.strip():
            continue
        try:
            change = msgspec.json.decode(without_halves(line), type=Change)
        except (msgspec.DecodeError, RecursionError):
            if line is last:
                break
            raise
        state = change.v if change.kind == 0 else _changed(state, change)
    if not isinstance(state, dict):
        raise Unreadable("a log of changes without a document")
    return msgspec.json.encode(state)


def _changed(state: Any, change: Change) -> Any:
    """The document after one change. A change of something that is not there raises LookupError or TypeError."""
    if not change.k:
        raise Unreadable("a change of nothing")
    *path, last = change.k
    holder = state
    for name in path:
        holder = holder[name]
    if change.kind == 1:
        if isinstance(holder, list) and last == len(holder):
            holder.append(change.v)
        else:
            holder[last] = change.v
    elif change.kind == 2:
        values = holder.setdefault(last, []) if isinstance(holder, dict) else holder[last]
        start = len(values) if change.i is None else change.i
        values[start:] = change.v if isinstance(change.v, list) else []
    elif change.kind == 3:
        del holder[last]
    return state
