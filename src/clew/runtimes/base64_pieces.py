"""Bytes in base64, a piece at a time: the text equals that of the bytes as a whole."""

from base64 import b64encode
from collections.abc import Iterable, Iterator


def encoded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The base64 text of the pieces."""
    rest = b""
    for piece in pieces:
        rest += piece
        whole = len(rest) - len(rest) % 3  # Only the last piece may be padded.
        yield b64encode(rest[:whole])
        rest = rest[whole:]
    yield b64encode(rest)
