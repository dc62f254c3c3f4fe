"""Add entries to the settings of other programs, and remove exactly those again. Text in, text out.

Settings are edited as text: comments, order, indentation and unknown keys stay unchanged. An edit can be undone to the
byte without stored notes, because the layout shows who made a container:

* a list or object that we made holds its content on lines of its own, and is removed with our last entry;
* in a list or object that was empty before, our entry is directly between the brackets, and the empty brackets stay.

JSON may have comments and trailing commas. In TOML one table below a comment of ours is added at the end of the file.
"""

import json
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from clew.model.errors import InvalidInput

# Deeper than any settings file. With a limit of our own, hostile nesting is an ordinary error.
MAX_DEPTH = 64
SPACE = " \t\r\n"
BLANK = SPACE + "\ufeff"
TABLE_COMMENT = "# Added by clew connect; clew disconnect removes this table."

Path = tuple[str, ...]
Ours = Callable[[Path, Any], bool]


class Node(NamedTuple):
    """A JSON value and its span in the text."""

    start: int
    end: int
    value: Any
    slots: "list[Slot]"


class Slot(NamedTuple):
    """A member of an object, or an element of a list (its key is then its index)."""

    start: int
    key: str
    node: Node

    @property
    def end(self) -> int:
        return self.node.end


# Reading --------------------------------------------------------------------------------------------------------------


def decode(data: bytes) -> str:
    """The text of a settings file."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the settings are not UTF-8 (byte {error.start}); save them as UTF-8 and retry") from None


def parse(text: str) -> Node:
    """Parse a JSON text with comments and trailing commas; its root must be an object."""
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    if text[start : start + 1] != "{":
        raise _malformed(text, start, "an object")
    root = _value(text, start, depth=0)
    rest = _skip(text, root.end)
    if rest != len(text):
        raise _malformed(text, rest, "the end of the file")
    return root


def _value(text: str, at: int, *, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"the settings are nested more than {MAX_DEPTH} deep; nothing was changed")
    match text[at : at + 1]:
        case "{" | "[":
            return _container(text, at, depth=depth)
        case '"':
            end = _string_end(text, at)
        case _:
            end = at
            while end < len(text) and text[end] not in SPACE + ",]}/":
                end += 1
    try:
        return Node(at, end, json.loads(text[at:end]), [])
    except ValueError:
        raise _malformed(text, at, "a value") from None


def _container(text: str, start: int, *, depth: int) -> Node:
    close = "}" if text[start] == "{" else "]"
    slots: list[Slot] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != close:
        if slots:
            if text[at : at + 1] != ",":
                raise _malformed(text, at, f"a comma or {close}")
            at = _skip(text, at + 1)
            if text[at : at + 1] == close:
                break
        slots.append(_slot(text, at, index=len(slots), keyed=close == "}", depth=depth))
        at = _skip(text, slots[-1].end)
    values = {slot.key: slot.node.value for slot in slots}
    return Node(start, at + 1, values if close == "}" else list(values.values()), slots)


def _slot(text: str, start: int, *, index: int, keyed: bool, depth: int) -> Slot:
    if not keyed:
        return Slot(start, str(index), _value(text, start, depth=depth + 1))
    if text[start : start + 1] != '"':
        raise _malformed(text, start, "a key in double quotes")
    key = _value(text, start, depth=depth)
    colon = _skip(text, key.end)
    if text[colon : colon + 1] != ":":
        raise _malformed(text, colon, "a colon")
    return Slot(start, key.value, _value(text, _skip(text, colon + 1), depth=depth + 1))


def _string_end(text: str, start: int) -> int:
    at = start + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _skip(text: str, at: int) -> int:
    """The next offset that is neither white space nor comment."""
    return _pieces(text, at)[0]


def _pieces(text: str, at: int) -> tuple[int, int, bool]:
    """The end of white space and comments, the end of the last comment among them, and whether it ends its line."""
    comment, line = at, False
    while at < len(text):
        if text[at] in SPACE:
            at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = comment = len(text) if end < 0 else end - (text[end - 1] == "\r")
            line = True
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise _malformed(text, at, "the end of a comment")
            at = comment = end + 2
            line = False
        else:
            break
    return at, comment, line


def _malformed(text: str, at: int, expected: str) -> InvalidInput:
    actual = repr(text[at]) if at < len(text) else "the end of the file"
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return InvalidInput(
        f"the settings are not valid JSON: line {line}, column {column} has {actual} where {expected} is expected; "
        "nothing was changed"
    )


# Adding to JSON -------------------------------------------------------------------------------------------------------


def with_member(text: str | None, path: Path, value: Any) -> str:
    """The text with a new member at the end of the object at `path`; missing containers are added."""
    if text and text.strip(BLANK) and _has(parse(text).value, path):
        raise _not_ours(path)
    return _with(text, path[:-1], (f"{_quoted(path[-1])}: ", "{}"), value)


def with_element(text: str | None, path: Path, value: Any) -> str:
    """The text with one more element in the list at `path`; missing containers are added."""
    return _with(text, path, ("", "[]"), value)


def _with(text: str | None, path: Path, shape: tuple[str, str], value: Any) -> str:
    label, brackets = shape
    entry = label + json.dumps(value, ensure_ascii=False)
    newline = "\r\n" if text and "\r\n" in text else "\n"
    if text is None or not text.strip(BLANK):
        container = _made(entry, path, brackets, style=("", "  ", newline), root=True)
        # Only a file that did not exist ends with a line feed of ours: `without` recognises it by that.
        return container + newline if text is None else text + container
    node, depth = parse(text), 0
    unit = _unit(text, node)
    for key in path:
        slot = _member(node, key)
        if slot is None:
            break
        node, depth = slot.node, depth + 1
        expected = brackets if depth == len(path) else "{}"
        if text[node.start] != expected[0]:
            what = "a list" if expected == "[]" else "an object"
            raise InvalidInput(f"{'.'.join(path[:depth])} in the settings is not {what}; nothing was changed")
    inner = _indent(text, node, unit)
    return _put(text, node, _made(entry, path[depth:], brackets, style=(inner, unit, newline)), newline + inner)


def _made(entry: str, path: Path, brackets: str, *, style: tuple[str, str, str], root: bool = False) -> str:
    """An entry inside one new container for each key of the path, each with its content on lines of its own."""
    indent, unit, newline = style
    if root:
        inner = _made(entry, path, brackets, style=(indent + unit, unit, newline))
        return f"{{{newline}{indent}{unit}{inner}{newline}{indent}}}"
    if not path:
        return entry
    inner = _made(entry, path[1:], brackets, style=(indent + unit, unit, newline))
    pair = brackets if len(path) == 1 else "{}"
    return f"{_quoted(path[0])}: {pair[0]}{newline}{indent}{unit}{inner}{newline}{indent}{pair[1]}"


def _put(text: str, container: Node, entry: str, own_line: str) -> str:
    """The text with an entry at the end of a container, after its comments."""
    if not container.slots:
        _, after, ends_line = _pieces(text, container.start + 1)
        return text[:after] + (own_line if ends_line else "") + entry + text[after:]
    last = container.slots[-1]
    lead = text[_before(text, last.start) : last.start]
    comma = _skip(text, last.end)
    trailing = text[comma] == ","
    _, after, ends_line = _pieces(text, comma + 1 if trailing else last.end)
    lead = lead if "\n" in lead else own_line if ends_line else " "
    if trailing:
        return text[:after] + lead + entry + "," + text[after:]
    return text[: last.end] + "," + text[last.end : after] + lead + entry + text[after:]


def _member(node: Node, key: str) -> Slot | None:
    # Of several members with one key the last one counts.
    return next((slot for slot in reversed(node.slots) if slot.key == key), None)


def _unit(text: str, root: Node) -> str:
    """The indentation unit of this file."""
    first = next((slot for slot in root.slots if "\n" in text[root.start : slot.start]), None)
    lead = text[_before(text, first.start) : first.start] if first else ""
    return lead.rpartition("\n")[2] or "  "


def _indent(text: str, container: Node, unit: str) -> str:
    """The indentation of a container's content."""
    line = text[text.rfind("\n", 0, container.start) + 1 : container.start]
    return line[: len(line) - len(line.lstrip(" \t"))] + unit


def _before(text: str, at: int) -> int:
    """The beginning of the white space right before an offset."""
    while at and text[at - 1] in SPACE:
        at -= 1
    return at


def _quoted(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _has(values: Any, path: Path) -> bool:
    return not path or (isinstance(values, dict) and path[0] in values and _has(values[path[0]], path[1:]))


def _not_ours(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{'.'.join(path)} is in the settings already, and clew connect did not write it; "
        "remove or rename it and retry; nothing was changed"
    )


# Taking out of JSON ---------------------------------------------------------------------------------------------------


def without(text: str, ours: Ours) -> str | None:
    """The text without our entries and the containers made for them; None when the whole file was made for them."""
    while True:
        root = parse(text)
        # The last entry is removed first: then the text before it is exactly the text it was added to.
        way = next(_ours_from_the_end(root, (), ours), None)
        if way is None:
            return text
        while way and _was_made_for(text, way[-1]):
            way.pop()
        if not way:
            before, after = text[: root.start], text[root.end :]
            return None if not before and after in ("\n", "\r\n") else before + after
        text = _cut(text, *way[-1])


Step = tuple[Node, int]
"""A container, and the index of one of its slots."""


def _ours_from_the_end(node: Node, path: Path, ours: Ours) -> Iterator[list[Step]]:
    """The steps from the root to each entry of ours, the last entry first."""
    for index in reversed(range(len(node.slots))):
        slot = node.slots[index]
        inner = (*path, slot.key) if isinstance(node.value, dict) else path
        if ours(inner, slot.node.value):
            yield [(node, index)]
        else:
            for deeper in _ours_from_the_end(slot.node, inner, ours):
                yield [(node, index), *deeper]


def _was_made_for(text: str, step: Step) -> bool:
    container, _ = step
    slot = container.slots[0]
    lead = text[container.start + 1 : slot.start]
    rest = text[slot.end : container.end - 1]
    return len(container.slots) == 1 and "\n" in lead and not lead.strip(SPACE) and not rest.strip(SPACE)


def _cut(text: str, container: Node, index: int) -> str:
    """The text without one slot and its comma."""
    slot = container.slots[index]
    lead = _before(text, slot.start)
    comma = _skip(text, slot.end)
    if text[comma] == ",":
        return text[:lead] + text[slot.end : comma] + text[comma + 1 :]
    if index:
        comma = _skip(text, container.slots[index - 1].end)
        return text[:comma] + text[comma + 1 : lead] + text[slot.end :]
    return text[:lead] + text[slot.end :]


# TOML -----------------------------------------------------------------------------------------------------------------


def toml_values(text: str) -> dict[str, Any]:
    """The values of a TOML text."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"the settings are not valid TOML: {error}; nothing was changed") from None


def with_table(text: str | None, path: Path, values: dict[str, Any]) -> str:
    """The text with one more table at its end, below a comment of ours."""
    newline = "\r\n" if text and "\r\n" in text else "\n"
    lines = [TABLE_COMMENT, f"[{'.'.join(path)}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    if _has(toml_values(text or ""), path):
        raise _not_ours(path)
    table = newline.join(lines) + newline
    added = table if text is None else text + newline + table
    expected = toml_values(text or "")
    inner = expected
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise InvalidInput(f"{key} in the settings is not a table; nothing was changed")
    inner[path[-1]] = values
    if _values_or_none(added) != expected:
        raise InvalidInput(f"{'.'.join(path[:-1])} in the settings takes no further table; add {lines[1]} by hand")
    return added


def without_table(text: str, path: Path) -> str | None:
    """The text without a table, the tables inside it and our comment; None when nothing else was there."""
    header = ".".join(path)
    before, after = _around_table(text, header)
    if before and after and not before.endswith("\n"):
        before += "\n"
    rest = before + after
    expected = _without_key(toml_values(text), path)
    values = _values_or_none(rest)
    if values is None or _has(values, path) or _without_key(values, path) != expected:
        raise InvalidInput(f"the table {header} in the settings was rewritten; remove it by hand")
    return None if text.startswith(TABLE_COMMENT) and not rest else rest


def _around_table(text: str, header: str) -> tuple[str, str]:
    """The text before a table and our comment, and the text after them."""
    before, after = "", ""
    is_ours = was_seen = False
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if bare.startswith("["):
            is_ours = bare == f"[{header}]" or bare.startswith(f"[{header}.")
        elif bare == TABLE_COMMENT:
            is_ours = True
            # `with_table` puts a line feed before its comment; it may be the only one.
            before = before.removesuffix("\n").removesuffix("\r")
        elif not bare or bare.startswith("#"):
            is_ours = False
        was_seen = was_seen or is_ours
        if is_ours:
            continue
        if was_seen:
            after += line
        else:
            before += line
    return before, after


def _values_or_none(text: str) -> dict[str, Any] | None:
    try:
        return toml_values(text)
    except InvalidInput:
        return None


def _without_key(values: dict[str, Any], path: Path) -> dict[str, Any]:
    key, *rest = path
    if rest and isinstance(values.get(key), dict):
        inner = _without_key(values[key], tuple(rest))
        if inner:
            return {**values, key: inner}
    return {name: value for name, value in values.items() if name != key}


def _toml(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            # JSON strings and numbers are valid TOML, except for one character.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
