"""Where the bytes of objects are: named by their BLAKE3 digest, compressed with zstd, stored once.

There are two places: `Folder`, files beside an embedded database, and `Rows`, the database itself, which every machine
of a team can read. Both store a small object in its row: a file of its own would cost more time and space than it
holds. Another place (S3) is one more class with these methods.

An object's row counts the events that name it. Events and counts change in one transaction, so an object is collected
only when nothing names it. A collector deletes a file while it holds the row's lock. A writer that finds the file
deleted writes it again under the same lock (`rewrite_if_collected`).
"""

import errno
import math
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard
from blake3 import blake3

from clew.model.errors import Damaged, DiskFull, NotFound, StoreError
from clew.store.database.contract import Row
from clew.store.durable_folders import make_private, sync

LEVEL = 3
# Up to this compressed size an object is stored in its row, even where larger ones are files.
ROW_BYTES = 64 * 1024


def address(data: bytes) -> bytes:
    """The name of these bytes."""
    return blake3(data).digest()


def pack(data: bytes) -> bytes:
    return zstandard.compress(data, LEVEL)


def unpack(digest: bytes, packed: bytes) -> bytes:
    """The bytes, checked against their name."""
    try:
        data = zstandard.decompress(packed)
    except zstandard.ZstdError as error:
        raise Damaged(f"blob {digest.hex()} cannot be unpacked ({error}); restore it from a backup") from error
    if address(data) != digest:
        raise Damaged(f"blob {digest.hex()} holds other bytes than its name says; restore it from a backup")
    return data


class Folder:
    """Objects as files in folders named by the first two letters of the digest; small ones are in their rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._durable: set[Path] = set()

    def make_durable(self, digest: bytes, packed: bytes) -> None:
        if len(packed) > ROW_BYTES:
            self._store(self._path(digest), packed)

    def row_data(self, packed: bytes) -> bytes | None:
        return packed if len(packed) <= ROW_BYTES else None

    def rewrite_if_collected(self, digest: bytes, packed: bytes) -> None:
        path = self._path(digest)
        if len(packed) > ROW_BYTES and not path.exists():
            self._store(path, packed)

    def fetch(self, digest: bytes, row: Row | None) -> bytes:
        if row is not None and row[0] is not None:
            return bytes(row[0])
        try:
            return self._path(digest).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"blob {digest.hex()} is not in {self.path}") from None

    def remove(self, digests: Iterable[bytes]) -> None:
        for digest in digests:
            self._path(digest).unlink(missing_ok=True)

    def sweep(self, known: set[bytes], grace_us: int) -> int:
        before = time.time() - grace_us / 1_000_000
        deleted = 0
        for path in self._files():
            if _digest_in_name(path) not in known and _modified_at(path) <= before:
                path.unlink(missing_ok=True)
                deleted += 1
        return deleted

    def _files(self) -> Iterator[Path]:
        yield from self.path.glob("??/*") if self.path.exists() else ()

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self.path / name[:2] / name

    def _make(self, folder: Path) -> None:
        """Make a folder and its name durable, even if another process made it and did not finish."""
        for path in (self.path, folder):
            if path not in self._durable:
                make_private(path)
                sync(path.parent)
                self._durable.add(path)

    def _store(self, path: Path, packed: bytes) -> None:
        """Write the file whole and durable under its name, or not at all."""
        try:
            self._make(path.parent)
            # Tried again when a sweep deleted the unfinished file, taking it for an abandoned one.
            while not path.exists() and not _write(path, packed):
                pass
            # Even if the file exists: the process that wrote it may not have synced its name yet.
            sync(path.parent)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no room left for a blob in {self.path}; free some space and try again") from error
            raise StoreError(f"cannot write a blob to {self.path}: {error.strerror}; check its permissions") from error


class Rows:
    """Objects in the database, in the row that counts their references."""

    def make_durable(self, digest: bytes, packed: bytes) -> None:
        """Nothing: the row itself is written in the transaction."""

    def row_data(self, packed: bytes) -> bytes | None:
        return packed

    def rewrite_if_collected(self, digest: bytes, packed: bytes) -> None:
        """Nothing: row and bytes are one."""

    def fetch(self, digest: bytes, row: Row | None) -> bytes:
        if row is None or row[0] is None:
            raise NotFound(f"blob {digest.hex()} is not in the database")
        return bytes(row[0])

    def remove(self, digests: Iterable[bytes]) -> None:
        """Nothing: the rows are gone already."""

    def sweep(self, known: set[bytes], grace_us: int) -> int:
        return 0


def _write(path: Path, packed: bytes) -> bool:
    """Write and sync the bytes under their name; False if the unfinished file was deleted meanwhile."""
    from tempfile import NamedTemporaryFile  # Imported here: reading does not need it, nor do objects in rows.

    with NamedTemporaryFile(dir=path.parent, prefix="new-", delete=False) as file:
        try:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
            return True
        except FileNotFoundError:
            return False
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _digest_in_name(path: Path) -> bytes:
    try:
        return bytes.fromhex(path.name)
    except ValueError:
        return b""


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return math.inf  # Another sweep deleted it.
