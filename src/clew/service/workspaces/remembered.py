"""What the last snapshot of a folder on this machine saw, so that the next one reads only what has changed.

A file of records, one for each folder, with an index at its end; a record is read when its folder is, so that a million
files need little memory. Losing the file, or a damaged one, costs one slow snapshot and nothing else.
"""

import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
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
# A file of records is written anew when more than this share of it is of no use any more.
MOST_USELESS = 0.5


class Remembered:
    """The records of the last snapshot, and those of the one under way."""

    def __init__(self, path: Path | None) -> None:
        """Without a path nothing is remembered."""
        self._path = path
        self._map: mmap.mmap | None = None
        self._end = 0
        self._index = _Index(VERSION, b"", {})
        self._same: dict[bytes, tuple[int, int]] = {}
        self._changed: dict[bytes, tuple[int, int]] = {}
        self._file: BinaryIO | None = None
        """The records that changed, which are not kept in memory."""
        if path is None:
            return
        try:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            end = len(mapped) - 8 - int.from_bytes(mapped[-8:], "big")
            index = msgspec.msgpack.decode(mapped[max(end, 0) : -8], type=_Index)
        except (OSError, ValueError):
            return  # There is none, or it cannot be read.
        if index.version == VERSION:
            self._map, self._index, self._end = mapped, index, end

    @property
    def root(self) -> bytes:
        """The snapshot that the records are about; empty if there is none."""
        return self._index.root

    def forget(self) -> None:
        """Use nothing of the last snapshot."""
        self._index = _Index(VERSION, b"", {})

    def folder(self, path: bytes) -> Record | None:
        """The record of a folder."""
        if self._map is None or path not in self._index.records:
            return None
        start, length = self._index.records[path]
        try:
            return _decode_record(self._map[start : start + length])
        except msgspec.DecodeError:
            return None

    def all_folders(self) -> Iterator[Record]:
        """Every record, one at a time."""
        for path in self._index.records:
            if (record := self.folder(path)) is not None:
                yield record

    def keep(self, path: bytes, record: Record) -> None:
        """Keep a record for the next snapshot."""
        if self._path is None:
            return
        data = _encode(record)
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115  # Until `close`.
        self._changed[path] = (self._file.tell(), len(data))
        self._file.write(data)

    def keep_as_it_was(self, path: bytes) -> None:
        """Keep the record of the last snapshot for the next one."""
        self._same[path] = self._index.records[path]

    def save(self, root: bytes) -> None:
        """Let the next snapshot use the records that were kept."""
        is_same = not self._changed and len(self._same) == len(self._index.records) and root == self._index.root
        if self._path is None or is_same:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}-{os.urandom(4).hex()}")
        try:
            with open(unfinished, "xb", opener=create_private) as file:
                self._write(file, root)
            os.replace(unfinished, self._path)
        finally:
            unfinished.unlink(missing_ok=True)

    def _write(self, file: BinaryIO, root: bytes) -> None:
        if self._file is not None:
            self._file.seek(0)
            copyfileobj(self._file, file)
        records = dict(self._changed)
        begin = file.tell()
        used = sum(length for _, length in self._same.values())
        if self._map is not None and used > (1 - MOST_USELESS) * self._end:
            # One long write, with the records that are of no use.
            file.write(memoryview(self._map)[: self._end])
            records.update({path: (begin + start, length) for path, (start, length) in self._same.items()})
        elif self._map is not None:
            for path, (start, length) in self._same.items():
                records[path] = (file.tell(), length)
                file.write(self._map[start : start + length])
        index = _encode(_Index(VERSION, root, records))
        file.write(index + len(index).to_bytes(8, "big"))

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        if self._file is not None:
            self._file.close()


def settled(signatures: Iterable[tuple[bytes, Signature]], before_ns: int) -> list[tuple[bytes, Signature]]:
    """The signatures; those of files that may change again without a new time match nothing."""
    return [
        (name, signature if max(signature[1], signature[2]) < before_ns else (-1, 0, 0, 0, 0))
        for name, signature in signatures
    ]
