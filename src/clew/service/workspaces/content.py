"""The bytes of a file, in a snapshot or on the disk, as far as they fit into memory."""

import os

from blake3 import blake3

from clew.model.errors import Conflict
from clew.model.file_tree import FILE, LARGE, Entry, decode_pieces, encode_pieces
from clew.model.steps import end_step
from clew.service.workspaces.cutting import LARGE_BYTES, cut
from clew.store import Store
from clew.store.objects import objects

# A larger file is read as a stream.
IN_MEMORY_BYTES = 8 * 1024 * 1024


def content_of(store: Store, entry: Entry) -> bytes:
    """The bytes of a file that is small enough to be in memory."""
    if entry.kind != LARGE:
        return objects.load(store, entry.digest.hex())
    pieces = decode_pieces(objects.load(store, entry.digest.hex()))
    if sum(size for _, size in pieces) > IN_MEMORY_BYTES:
        raise Conflict("the pieces of this file are larger than it is; the snapshot cannot be used")
    return b"".join(objects.load(store, digest.hex()) for digest, _ in pieces)


def read_entry(path: bytes) -> tuple[Entry, bytes | None]:
    """A file on the disk as a snapshot would name it, and its bytes, if they fit into memory."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size < LARGE_BYTES:
            data = file.read(LARGE_BYTES)
            return Entry(os.path.basename(path), FILE, status.st_mode & 0o777, len(data), blake3(data).digest()), data
        pieces, kept, size = [], list[bytes](), 0
        for piece in cut(file.read):
            end_step()
            pieces.append((blake3(piece).digest(), len(piece)))
            size += len(piece)
            kept = [*kept, piece] if size <= IN_MEMORY_BYTES else []
    digest = blake3(encode_pieces(pieces)).digest()
    entry = Entry(os.path.basename(path), LARGE, status.st_mode & 0o777, size, digest)
    return entry, b"".join(kept) if size <= IN_MEMORY_BYTES else None


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:8192]


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a text; a carriage return alone ends none."""
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]
