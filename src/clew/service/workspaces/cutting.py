"""Cut a large file into pieces where its content says so, so that an edit changes the pieces around it and no others.

A table maps each byte to 0 or 1, and a piece ends after a fixed row of these. Both steps are a call of Python's own
string functions, at the speed of memory. Where no such row comes for long, a shorter one ends the piece, and at last
its length does.
"""

from collections.abc import Callable, Iterator

from blake3 import blake3

LARGE_BYTES = 4 * 1024 * 1024
SHORTEST = 256 * 1024
LONGEST = 4 * 1024 * 1024
# The table and the rows decide which pieces are equal: who changes them stores every large file anew.
_ONES = frozenset(sorted(range(256), key=lambda byte: blake3(bytes([byte])).digest())[:128])
_TABLE = bytes(byte in _ONES for byte in range(256))
_ROW = bytes(byte & 1 for byte in blake3(b"clew pieces 1").digest(20))
_SHORT_ROW = _ROW[:12]


def cut(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """The pieces of what `read` gives."""
    data = b""
    while True:
        while len(data) < LONGEST and (more := read(LONGEST)):
            data += more
        if not data:
            return
        end = _end(data)
        yield data[:end]
        data = data[end:]


def _end(data: bytes) -> int:
    """Where the first piece of the data ends."""
    if len(data) <= SHORTEST:
        return len(data)
    bits = data[:LONGEST].translate(_TABLE)
    at = bits.find(_ROW, SHORTEST)
    if at >= 0:
        return at + len(_ROW)
    at = bits.rfind(_SHORT_ROW, SHORTEST)
    return at + len(_SHORT_ROW) if at >= 0 and len(data) > LONGEST else min(len(data), LONGEST)
