"""The output of a terminal as pieces of text with classes for their colours, without other control sequences."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# Sequences that set a style, that do something else (CSI), and that end with a string terminator (OSC and its kin).
_SEQUENCE = re.compile(
    r"\x1b\[(?P<style>[0-9;:]{0,64})m"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[()#%*+][0-9A-Za-z]|\x1b[=>78MDEHc]"
)
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
# A text that changes its style more often is shown without styles from there on.
MOST_PIECES = 2_000


class Piece(NamedTuple):
    text: str
    css: str = ""


def coloured(text: str) -> list[Piece]:
    """The text in pieces; what a carriage return overwrites is left out, as on a terminal."""
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return list(_joined(_pieces(text))) if "\x1b" in text else [Piece(text)]


def without_colours(text: str) -> str:
    return "".join(piece.text for piece in coloured(text))


def _pieces(text: str) -> Iterator[Piece]:
    style: dict[str, str] = {}
    at = number = 0
    for match in _SEQUENCE.finditer(text):
        if match.start() > at:
            yield Piece(text[at : match.start()], " ".join(style.values()) if number < MOST_PIECES else "")
            number += 1
        at = match.end()
        if match["style"] is not None:
            _change(style, match["style"])
    if at < len(text):
        yield Piece(text[at:], " ".join(style.values()) if number < MOST_PIECES else "")


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Neighbours of one style as one piece."""
    texts: list[str] = []
    css = ""
    for piece in pieces:
        if piece.css != css and texts:
            yield Piece("".join(texts), css)
            texts = []
        css = piece.css
        texts.append(piece.text)
    if texts:
        yield Piece("".join(texts), css)


def _change(style: dict[str, str], codes: str) -> None:
    """Apply the codes of one sequence to the style."""
    numbers = [int(code) if code else 0 for code in codes.replace(":", ";").split(";") if len(code) < 4]
    while numbers:
        code = numbers.pop(0)
        if code in (38, 48):
            _change_to_palette(style, "ink" if code == 38 else "back", numbers)
        elif code == 0:
            style.clear()
        elif code in (1, 2, 3, 4, 9):
            style[str(code)] = f"a-{code}"
        elif code in (22, 23, 24, 29):
            for name in {22: ("1", "2"), 23: ("3",), 24: ("4",), 29: ("9",)}[code]:
                style.pop(name, None)
        else:
            _change_colour(style, code)


def _change_colour(style: dict[str, str], code: int) -> None:
    tens, colour = divmod(code, 10)
    if colour == 9 and tens in (3, 4):
        style.pop("ink" if tens == 3 else "back", None)
    elif colour < 8 and tens in (3, 9):
        style["ink"] = f"a-{_COLOURS[colour]}"
    elif colour < 8 and tens in (4, 10):
        style["back"] = f"a-on-{_COLOURS[colour]}"


def _change_to_palette(style: dict[str, str], name: str, numbers: list[int]) -> None:
    """A colour of a larger palette: the first sixteen are those with names, others are left out."""
    kind = numbers.pop(0) if numbers else 0
    if kind == 2:
        del numbers[:3]
        style.pop(name, None)
    elif kind == 5 and numbers:
        index = numbers.pop(0)
        style.pop(name, None)
        if index < 16:
            style[name] = f"a-{'on-' if name == 'back' else ''}{_COLOURS[index % 8]}"
