"""Inputs that get past the parser: one value, record or line of a valid input changed at a time."""

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

from clew.runtimes.conformance.junk import JUNK, ODD

Draw = random.Random


class Mutator:
    """Changes inputs of one reader; `vocabulary` is what its samples are made of."""

    def __init__(self, samples: Iterable[bytes], *, lines: bool) -> None:
        self._lines = lines
        self._records = [line for data in samples for line in data.split(b"\n") if line.strip()]
        self._words: list[Any] = []
        self._names: list[str] = []
        for record in self._records:
            for holder, name in _places(_parsed(record)):
                self._words.append(holder[name])
                self._names += [name] if isinstance(name, str) else []

    def change(self, data: bytes, draw: Draw) -> bytes:
        """The data with one to four things changed."""
        for _ in range(draw.choice((1, 1, 2, 4))):
            data = self._change_lines(data, draw) if self._lines else self._change_document(data, draw)
        return data

    def _change_document(self, data: bytes, draw: Draw) -> bytes:
        value = _parsed(data)
        if value is None:
            return self._change_lines(data, draw)
        return self._change_value(value, draw)

    def _change_lines(self, data: bytes, draw: Draw) -> bytes:
        lines = data.split(b"\n")
        at = draw.randrange(len(lines))
        value = _parsed(lines[at])
        if isinstance(value, dict | list) and draw.random() < 0.7:
            lines[at] = self._change_value(value, draw)
            return b"\n".join(lines)
        other = draw.randrange(len(lines))
        changes: tuple[Callable[[], Any], ...] = (
            lambda: lines.insert(at, draw.choice(self._records)),
            lambda: lines.insert(at, lines[other]),
            lambda: lines.insert(at, draw.choice(JUNK)),
            lambda: lines.pop(at),
            lambda: lines.insert(other, lines.pop(at)),
            lambda: lines.__setitem__(at, lines[at][: draw.randrange(len(lines[at]) + 1)]),
            lambda: lines.__setitem__(at, lines[at] + lines[other]),
            lambda: lines.__setitem__(at, lines[at] + draw.choice((b"\0\0", b"\r", b" ", b"\xff", b"}", b"{"))),
        )
        draw.choice(changes)()
        return b"\n".join(lines)

    def _change_value(self, value: Any, draw: Draw) -> bytes:
        places = list(_places(value))
        if not places:
            return json.dumps(self._value(draw)).encode()
        holder, name = draw.choice(places)
        what = draw.random()
        if what < 0.55:
            holder[name] = self._value(draw)
        elif what < 0.7:
            del holder[name]
        elif isinstance(holder, list):
            holder.insert(name, draw.choice((holder[name], self._value(draw))))
        elif self._names:
            holder[draw.choice(self._names)] = self._value(draw)
        return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "replace")

    def _value(self, draw: Draw) -> Any:
        if self._words and draw.random() < 0.5:
            return draw.choice(self._words)
        return draw.choice(ODD)


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value, found without recursion: an input may nest deeply."""
    found: list[tuple[Any, Any]] = []
    left = [value]
    while left:
        one = left.pop()
        names = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for name in names:
            found.append((one, name))
            left.append(one[name])
    return found
