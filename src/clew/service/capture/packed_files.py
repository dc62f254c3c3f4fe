"""Files of lines that a program packs with zstd when they are old, and unpacks to continue: always the same session.

The content of a packed file is stored under the name of the unpacked file, so that one stored file covers it before,
while and after it is packed. The packed bytes are stored beside it, because they are what the program has. They are
exported only with secrets, because nothing in them can be masked.
"""

from typing import BinaryIO

import msgspec
import zstandard

from clew.model.errors import InvalidInput, TooLarge
from clew.store.native_files.native_file import NativeFile

SUFFIX = ".zst"
# A few packed bytes can unpack to more than the disk holds.
UNPACKED_BYTES = 4 * 1024**3
PIECE_BYTES = 1024


class PackedState(msgspec.Struct):
    """What the store knows of a packed file: how many bytes its content has."""

    unpacked: int


def unpacked_size(stored: NativeFile) -> int | None:
    """How many bytes a stored packed file has unpacked; None if it is not a packed file."""
    if not stored.path.endswith(SUFFIX):
        return None
    try:
        return msgspec.json.decode(stored.state, type=PackedState).unpacked
    except msgspec.DecodeError:
        return None


def files_to_export(stored_files: list[NativeFile], *, exact: bool) -> list[NativeFile]:
    """Leave out packed files; with `exact` a packed file replaces its content if it holds all of that."""
    packed = {file.path.removesuffix(SUFFIX): file for file in stored_files if unpacked_size(file) is not None}
    chosen = []
    for file in stored_files:
        if unpacked_size(file) is None:
            packed_file = packed.get(file.path)
            is_complete = packed_file and packed_file.stored_bytes and unpacked_size(packed_file) == file.stored_bytes
            chosen.append(packed_file if exact and packed_file and is_complete else file)
    return chosen


def unpack(data: bytes) -> tuple[BinaryIO, bool]:
    """Unpack into a temporary file as far as possible; returns the file, and whether all was unpacked."""
    from tempfile import TemporaryFile

    file = TemporaryFile()  # noqa: SIM115  # the caller closes it
    try:
        at, is_whole = 0, True
        while at < len(data) and is_whole:
            at, is_whole = _unpack_frame(data, at, file)
        if not file.tell():
            raise InvalidInput("it was not packed with zstd, or is damaged from its beginning")
        file.flush()
        return file, is_whole
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
