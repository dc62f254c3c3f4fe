"""Files of lines that a program packs with zstd once they are old, and unpacks to go on: one session all the while.

What is in such a file is kept under the name that it has unpacked, so that it is one original before, meanwhile and
after. The packed bytes are kept beside it, for they are what the program has; they are given out only where secrets are
asked for, because none can be masked in them.
"""

from tempfile import TemporaryFile
from typing import BinaryIO

import msgspec
import zstandard

from clew.model.errors import InvalidInput, TooLarge
from clew.store.native_files.native_files import Original

SUFFIX = ".zst"
# A few bytes can be packed that fill a disk.
UNPACKED_BYTES = 4 * 1024**3
PIECE_BYTES = 1024


class Holding(msgspec.Struct):
    """What is remembered of a packed file: how many bytes it holds."""

    unpacked: int


def holds(one: Original) -> int | None:
    """How many bytes an original holds that was packed; None of any other."""
    if not one.path.endswith(SUFFIX):
        return None
    try:
        return msgspec.json.decode(one.state, type=Holding).unpacked
    except msgspec.DecodeError:
        return None


def exported(files: list[Original], *, exact: bool) -> list[Original]:
    """The originals; of a packed one and what it holds, the packed one if `exact` bytes are wanted and it holds all."""
    packed = {one.path.removesuffix(SUFFIX): one for one in files if holds(one) is not None}
    found = []
    for one in files:
        if holds(one) is None:
            other = packed.get(one.path)
            found.append(other if exact and other and other.kept and holds(other) == one.kept else one)
    return found


def unpacked(data: bytes) -> tuple[BinaryIO, bool]:
    """A file with what is in packed bytes as far as they can be unpacked, and whether that is all."""
    file = TemporaryFile()  # noqa: SIM115  # handed on to who reads it
    try:
        at, whole = 0, True
        while at < len(data) and whole:
            at, whole = _unpack_frame(data, at, file)
        if not file.tell():
            raise InvalidInput("it was not packed with zstd, or is damaged from its beginning")
        file.flush()
        return file, whole
    except BaseException:
        file.close()
        raise


def _unpack_frame(data: bytes, at: int, file: BinaryIO) -> tuple[int, bool]:
    """Unpack one frame into a file; returns where it ends, and whether it is whole."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    while at < len(data):
        try:
            file.write(frame.decompress(data[at : at + PIECE_BYTES]))
        except zstandard.ZstdError:
            return at, False
        if file.tell() > UNPACKED_BYTES:
            raise TooLarge(f"it holds more than {UNPACKED_BYTES:,} bytes; no more are unpacked")
        at = min(at + PIECE_BYTES, len(data))
        if frame.eof:
            return at - len(frame.unused_data), True
    return at, False
