"""Parts of packs as files: beside an embedded database, or in a folder that several machines share."""

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from clew.model.errors import DiskFull, NotFound, StoreError, Unavailable
from clew.store.database.contract import Transaction
from clew.store.durable_folders import create_private, make_private, sync
from clew.store.objects.pack_store import UNFINISHED, Stray

# Up to this compressed size an object is stored in its row: a file of its own would cost more time and space than it
# holds.
ROW_BYTES = 64 * 1024
# As much as `cp` writes at once. For larger writes Linux takes large pages, which are slow to get on a virtual machine
# that gives free memory back to its host.
WRITE_BYTES = 128 * 1024


class Folder:
    """A file for each part, with the key as its path."""

    row_bytes = ROW_BYTES

    def __init__(self, path: Path, name: str = "") -> None:
        self.path = path
        self.name = name
        self._durable: set[Path] = set()

    def write(self, key: str, data: bytes, tx: Transaction | None = None) -> None:
        path = self.path / key
        try:
            self._make(path.parent)
            # Written again when a collector deleted the unfinished file, taking it for an abandoned one.
            while not _write(path, data):
                self._durable.clear()
                self._make(path.parent)
            sync(path.parent)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no room left for an object in {self.path}; free some space and try again") from error
            raise StoreError(
                f"cannot write an object to {self.path}: {error.strerror}; check its permissions"
            ) from error

    def read(self, key: str, start: int, length: int) -> bytes:
        try:
            with open(self.path / key, "rb", buffering=0) as file:
                file.seek(start)
                return _read_whole(file.fileno(), length)
        except FileNotFoundError:
            raise NotFound(f"there is no {key} in {self.path}") from None
        except OSError as error:
            raise Unavailable(f"cannot read {self.path / key}: {error.strerror}") from error

    def remove(self, keys: Iterable[str]) -> None:
        try:
            for key in keys:
                (self.path / key).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot delete an object in {self.path}: {error.strerror}") from error

    def list(self, prefix: str) -> Iterator[Stray]:
        # What is deep enough to have a folder is looked for in that folder alone.
        folder = prefix.rpartition("/")[0]
        try:
            for key, written_at in _files_in(self.path / folder, f"{folder}/" if folder else ""):
                if key.startswith(prefix):
                    yield Stray(key, time.time() - written_at)
        except OSError as error:
            raise Unavailable(f"cannot list {self.path}: {error.strerror}; check its permissions") from error

    def describe(self) -> str:
        return str(self.path)

    def _make(self, folder: Path) -> None:
        """Make a folder and its name durable, even if another process made it and did not finish."""
        missing = []
        while folder not in self._durable and folder.is_relative_to(self.path):
            missing.append(folder)
            folder = folder.parent
        for path in reversed(missing):
            make_private(path)
            sync(path.parent)
            self._durable.add(path)


def _write(path: Path, data: bytes) -> bool:
    """Write and sync the bytes under their name; False if the unfinished file was deleted meanwhile."""
    unfinished = path.with_name(f"{UNFINISHED}{os.urandom(8).hex()}")
    try:
        with open(unfinished, "xb", buffering=0, opener=create_private) as file:
            _write_whole(file.fileno(), data)
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        return True
    except FileNotFoundError:
        return False
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _write_whole(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left[:WRITE_BYTES]) :]


def _read_whole(descriptor: int, length: int) -> bytes:
    pieces = []
    while length > 0 and (piece := os.read(descriptor, length)):
        pieces.append(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _files_in(folder: Path, before: str) -> Iterator[tuple[str, float]]:
    """The files in a folder and below it, in order, and when each was written; one folder at a time is in memory."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_in(folder / entry.name, f"{before}{entry.name}/")
            continue
        with suppress(FileNotFoundError):  # Another collector has just deleted it.
            yield before + entry.name, entry.stat().st_mtime
