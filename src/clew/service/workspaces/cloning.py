"""Clone files from a folder on this machine, so that both share their bytes on the disk until one of them changes.

The folder that a snapshot is of mostly has its files still. The memory of its last snapshot says which file has which
content while its times, size and inode are the same. A file system that cannot clone is asked once.
"""

import fcntl
import os

from clew.model.file_tree import FILE, LARGE, Entry
from clew.service.workspaces.remembered import Remembered, Signature
from clew.service.workspaces.scan import signature_of

# The request of Linux that makes a file a clone of another.
FICLONE = 0x40049409


class Live:
    """A folder that files can be cloned from."""

    def __init__(self, root: bytes, remembered: Remembered) -> None:
        self._root = root
        self._remembered = remembered
        self._path = b"/"
        self._seen: dict[bytes, tuple[Signature, Entry]] = {}
        self._can_clone = os.path.isdir(root)

    def has(self, path: bytes, entry: Entry) -> bool:
        """Whether the last snapshot saw this file in this folder."""
        if not self._can_clone or entry.kind not in (FILE, LARGE) or not entry.size:
            return False
        return self._signature(path, entry) is not None

    def clone(self, path: bytes, entry: Entry, descriptor: int) -> bool:
        """Make the open file a clone; False where the file has changed, or the file system cannot."""
        try:
            source = os.open(os.path.join(self._root, path, entry.name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return False  # It is gone, or cannot be read.
        try:
            before = signature_of(os.fstat(source))
            if before != self._signature(path, entry):
                return False
            fcntl.ioctl(descriptor, FICLONE, source)
            return signature_of(os.fstat(source)) == before
        except OSError:
            self._can_clone = False
            return False
        finally:
            os.close(source)

    def close(self) -> None:
        self._remembered.close()

    def _signature(self, path: bytes, entry: Entry) -> Signature | None:
        """How the last snapshot saw the file, if it has this content."""
        if path != self._path:
            record = self._remembered.folder(path)
            pairs = zip(record.signatures, record.entries, strict=True) if record is not None else ()
            self._path, self._seen = path, {known.name: (signature, known) for (_, signature), known in pairs}
        signature, known = self._seen.get(entry.name, (None, None))
        return signature if known and (known.kind, known.digest) == (entry.kind, entry.digest) else None
