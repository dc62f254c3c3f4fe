"""Runs of base64 that decode to text: rules for plain text do not find the secrets in them."""

import re
from binascii import Error, a2b_base64
from collections.abc import Iterator

import msgspec

from clew.secrets.patterns import Finder

SHORTEST = 24
# On one line, or wrapped into lines of equal length, as programs do.
_RUN = Finder(r"[A-Za-z0-9+/_-]{24,}(?:\r?\n[A-Za-z0-9+/_-]{4,})*={0,2}")
_STANDARD = bytes.maketrans(b"-_", b"+/")
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")


class Run(msgspec.Struct, frozen=True):
    start: int
    end: int
    decoded: bytes


def runs(text: bytes) -> Iterator[Run]:
    """The runs that decode to text."""
    end = 0
    while spans := _RUN.next_in(text, end):
        start, end = spans[0]
        whole = text[start:end]
        if b"\n" in whole and not _is_wrapped(whole):
            yield from _line_by_line(start, whole)
        elif decoded := _decoded(whole):
            yield Run(start, end, decoded)


def _is_wrapped(run: bytes) -> bool:
    *lines, last = run.split(b"\n")
    return len({len(line) for line in lines}) == 1 and len(last) <= len(lines[0])


def _line_by_line(start: int, lines: bytes) -> Iterator[Run]:
    for line in lines.split(b"\n"):
        bare = line.rstrip(b"\r")
        if len(bare) >= SHORTEST and (decoded := _decoded(bare)):
            yield Run(start, start + len(bare), decoded)
        start += len(line) + 1


def _decoded(run: bytes) -> bytes | None:
    digits = run.translate(_STANDARD, b"\r\n=")
    try:
        # The first bytes decide most cases, and an image is long.
        if _CONTROLS.search(a2b_base64(digits[:SHORTEST])):
            return None
        decoded = a2b_base64(digits + b"=" * (-len(digits) % 4))
    except Error:
        return None
    return decoded if not _CONTROLS.search(decoded) and _is_text(decoded) else None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
