"""The kinds of records and the fields that are known of each program, and what is new beside them.

Programs change their formats every week. A record of an unknown kind is stored verbatim, and an unknown field stays in
the native file, so nothing is lost; but a reader should learn it. `known_shapes.json` has every kind and field that
was seen in the sessions clew was tested with (`tools/known_shapes.py` writes it). Nothing here does I/O but reading
that file once.
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from clew.runtimes.contract import micros

# What names the kind of a record, from the outside in.
_KINDS = ("type", "subtype", "kind", "role")
# The fields whose own fields belong to the format of the program; others hold what tools and people put in.
INNER = ("message", "payload", "data", "info")
_NAME = re.compile(r"[A-Za-z_$][\w$.:/-]{0,59}", re.ASCII)
_LONGEST_EXAMPLE = 2000
_LONGEST_NAME = 40
_DEEPEST = 6
# Values that say which kind a record is; they are names of the program.
_KEPT = {"type", "subtype", "kind", "role", "version"}


class Shape(NamedTuple):
    """The kind of a record, its fields, and its time in microseconds if it says one."""

    kind: str
    fields: list[str]
    at: int | None


class KnownShapes(msgspec.Struct, frozen=True):
    kinds: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()


@cache
def known_shapes() -> dict[str, KnownShapes]:
    """The known kinds and fields of each program; a program that is not in it is not watched."""
    path = Path(__file__).with_name("known_shapes.json")
    return msgspec.json.decode(path.read_bytes(), type=dict[str, KnownShapes])


_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_word = msgspec.json.Decoder(str).decode


def shape_of(record: bytes | str) -> Shape | None:
    """The shape of a record; None if it is no object, or damaged."""
    try:
        return _shape_of(record)
    except (ValueError, RecursionError):
        return None


def _shape_of(record: bytes | str) -> Shape:
    outer = _decode(record)
    words = [_word(outer[name]) for name in _KINDS if name in outer]
    fields = [_field(name) for name in outer]
    for name in INNER:
        if bytes(outer.get(name, Raw(b"")))[:1] != b"{":
            continue
        inner = _decode(outer[name])
        fields += [f"{name}.{_field(below)}" for below in inner]
        words += [_word(inner[below]) for below in ("type", "role") if below in inner]
    stamp = outer.get("timestamp")
    at = micros(_decode_word(stamp)) if stamp is not None and bytes(stamp)[:1] == b'"' else None
    return Shape("/".join(dict.fromkeys(word for word in words if word)), fields, at)


def _word(value: Raw) -> str:
    if bytes(value)[:1] != b'"':
        return ""
    word = _decode_word(value)
    return word if _NAME.fullmatch(word) else "..."


def _field(name: str) -> str:
    """The name of a field; what is no name is a key that a person or a tool chose."""
    return _field_of(name) if len(name) <= _LONGEST_NAME else "..."


@lru_cache(maxsize=4096)
def _field_of(name: str) -> str:
    return name if _NAME.fullmatch(name) and not _is_key(name) else "..."


def _is_key(name: str) -> bool:
    return "/" in name or sum(map(str.isdigit, name)) > 3


def new_in(shape: Shape, known: KnownShapes) -> list[tuple[str, str]]:
    """What is unknown of a record: its kind, or else its fields."""
    if shape.kind not in known.kinds:
        return [("kind", shape.kind)]
    return [("field", name) for name in shape.fields if name not in known.fields]


def redacted(record: bytes | str) -> str:
    """A record as JSON without anything that a person, a tool or an llm wrote: names of fields, kinds and sizes."""
    try:
        value = msgspec.json.decode(record)
    except (ValueError, RecursionError):
        return ""
    text = msgspec.json.encode(_redacted(value, "", 0)).decode()
    return text if len(text) <= _LONGEST_EXAMPLE else text[:_LONGEST_EXAMPLE] + " ..."


def _redacted(value: Any, name: str, depth: int) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return 0
    if isinstance(value, str):
        return value if name in _KEPT and _NAME.fullmatch(value) else f"text of {len(value)}"
    if depth == _DEEPEST:
        return "..."
    if isinstance(value, list):
        return [_redacted(value[0], "", depth + 1)] if value else []
    return {_field(key): _redacted(inner, key, depth + 1) for key, inner in value.items()}
