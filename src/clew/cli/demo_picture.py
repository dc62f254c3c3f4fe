"""A picture for the made-up store: two bars as a PNG, made here so that nothing has to be shipped."""

import struct
import zlib

WIDTH, HEIGHT = 480, 200
PAPER, BEFORE, AFTER, GROUND = b"\xff\xff\xff", b"\x9a\xa5\xb3", b"\x2f\x7f\xd0", b"\xdd\xe1\xe7"
# Where each bar begins and ends, from the left, how high it is, and its colour.
BARS = ((90, 210, 116, BEFORE), (270, 390, 160, AFTER))


def picture() -> bytes:
    """Two bars side by side, the second one higher."""
    rows = b"".join(b"\0" + _row(HEIGHT - y) for y in range(HEIGHT))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _row(height: int) -> bytes:
    """The pixels at a height above the lower edge."""
    if height <= 20:
        return (GROUND if 18 <= height <= 20 else PAPER) * WIDTH
    pixels = [PAPER] * WIDTH
    for left, right, top, colour in BARS:
        if height <= top + 20:
            pixels[left:right] = [colour] * (right - left)
    return b"".join(pixels)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
