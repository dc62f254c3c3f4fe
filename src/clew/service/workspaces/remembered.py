"""What the last snapshot of a folder on this machine saw, so that the next one reads only what has changed.

A file of records, one for each folder, with an index at its end; a record is read when its folder is, so that a million
files need little memory. Losing the file, or a damaged one, costs one slow snapshot and nothing else.
"""

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec

from clew.model.file_tree import Entry
from clew.store.durable_folders import create_private

VERSION = 1
# A file changed more recently than this may change again without a new time.
CLOCK_TICK_NS = 2_000_000_000
FOLDER = "workspaces"
# size, mtime, ctime, inode, mode
Signature = tuple[int, int, int, int, int]


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A folder as it was: which of its names were left out by which rules, and its files as they were read."""

    rules: bytes
    ignored: list[bytes]
    signatures: list[tuple[bytes, Signature]]
    """Of files and links, in order."""
    entries: list[Entry]
    """Of files and links, in the same order."""
    folders: list[Entry]
    tree: bytes
    size: int
    count: int


class _Index(msgspec.Struct, array_like=True):
    version: int
    root: bytes
    records: dict[bytes, tuple[int, int]]


_decode_record = msgspec.msgpack.Decoder(Record).decode
_encode = msgspec.msgpack.Encoder().encode


class Remembered:
    """The records of the last snapshot, and those of the one under way."""

    def __init__(self, path: Path | None) -> None:
        """Without a path nothing is remembered."""
        self._path = path
        self._map: mmap.mmap | None = None
        self._index = _Index(VERSION, b"", {})
        self._new: dict[bytes, tuple[int, int]] = {}
        self._file: BinaryIO | None = None
        if path is None:
            return
        self._unfinished = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
        try:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            length = int.from_bytes(mapped[-8:], "big")
            index = msgspec.msgpack.decode(mapped[len(mapped) - 8 - length : -8], type=_Index)
        except (OSError, ValueError):
            return  # There is none, or it cannot be read.
        if index.version == VERSION:
            self._map, self._index = mapped, index

    @property
    def root(self) -> bytes:
        """The snapshot that the records are about; empty if there is none."""
        return self._index.root

    def forget(self) -> None:
        """Use nothing of the last snapshot."""
        self._index = _Index(VERSION, b"", {})

    def folder(self, path: bytes) -> tuple[Record, bytes] | None:
        """The record of a folder and its bytes."""
        if self._map is None or path not in self._index.records:
            return None
        start, length = self._index.records[path]
        data = self._map[start : start + length]
        try:
            return _decode_record(data), data
        except msgspec.DecodeError:
            return None

    def keep(self, path: bytes, record: Record | bytes) -> None:
        """Keep a record for the next snapshot."""
        if self._path is None:
            return
        if self._file is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = open(self._unfinished, "xb", opener=create_private)  # noqa: SIM115  # Until `close`.
        data = record if isinstance(record, bytes) else _encode(record)
        self._new[path] = (self._file.tell(), len(data))
        self._file.write(data)

    def save(self, root: bytes) -> None:
        """Let the next snapshot use the records that were kept."""
        if self._file is None or self._path is None:
            return
        index = _encode(_Index(VERSION, root, self._new))
        self._file.write(index + len(index).to_bytes(8, "big"))
        self._file.close()
        os.replace(self._unfinished, self._path)

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        if self._file is not None and not self._file.closed:
            self._file.close()
            self._unfinished.unlink(missing_ok=True)


def settled(signatures: Iterable[tuple[bytes, Signature]], before_ns: int) -> list[tuple[bytes, Signature]]:
    """The signatures; those of files that may change again without a new time match nothing."""
    return [
        (name, signature if max(signature[1], signature[2]) < before_ns else (-1, 0, 0, 0, 0))
        for name, signature in signatures
    ]
