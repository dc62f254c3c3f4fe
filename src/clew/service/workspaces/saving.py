"""Save a folder as objects: walk, read what has changed, compress in threads, store all of it in a few transactions."""

import io
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import msgspec
from blake3 import blake3

from clew.model.errors import TooLarge
from clew.model.file_tree import FILE, FOLDER, LARGE, LINK, Entry, encode_pieces, encode_tree, shown
from clew.model.steps import end_step
from clew.service.workspaces.cutting import LARGE_BYTES, cut
from clew.service.workspaces.remembered import CLOCK_TICK_NS, Record, Remembered, Signature, settled
from clew.service.workspaces.scan import Found, Scan, Skipped, signature_of
from clew.store import Store
from clew.store.objects.pack import Encoded, Encoder
from clew.store.objects.together import Together

# Files that are read together, at most so many and about so many bytes.
GROUP_FILES = 200
GROUP_BYTES = 4 * 1024 * 1024
# After so many folders there is a word about the progress.
REPORTED = 50
# How many groups are under way; each is in memory.
GROUPS = 4
# After so many new bytes the free space of the disk is asked for again.
ASKED_BYTES = 32 * 1024 * 1024
# A snapshot of a large tree is waited for; a higher level takes longer and saves little.
LEVEL = 1
# A file that changes while it is read is read so often.
TRIES = 3


class Limits(msgspec.Struct, frozen=True):
    """What is too large for a snapshot."""

    largest_file: int = 8 * 1024**3
    most_bytes: int = 32 * 1024**3
    most_files: int = 2_000_000


class Saved(msgspec.Struct, frozen=True):
    """A folder that is in the store."""

    tree: bytes
    files: int
    bytes: int
    new_bytes: int
    skipped: list[Skipped]
    began_at: int
    """When the first folder was read, in microseconds."""


class _Folder:
    """A folder whose files are being read."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.entries: list[Entry | None] = []
        self.signatures = found.signatures
        self.waits_for = 1
        """How many files and folders it waits for; and its own end."""
        self.folders: list[Entry] = []
        self.is_as_before = False


class _Job(NamedTuple):
    folder: _Folder
    number: int
    path: bytes
    signature: Signature


class _Read(NamedTuple):
    """A file that was read, or why it could not be."""

    job: _Job
    digest: bytes
    data: bytes
    signature: Signature
    why: str = ""


class Saving:
    """One folder on its way into the store."""

    def __init__(
        self,
        store: Store,
        root: bytes,
        scan: Scan,
        remembered: Remembered,
        *,
        limits: Limits,
        holds_secret: Callable[[bytes], bool] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        refuse_full: Callable[[], None] = lambda: None,
    ) -> None:
        """`refuse_full` is called now and then while new bytes are written, and ends that when the disk gets full."""
        self._refuse_full = refuse_full
        self._asked_at = 0
        self._root = root
        self._scan = scan
        self._remembered = remembered
        self._limits = limits
        self._holds_secret = holds_secret
        self._on_progress = on_progress
        self._together = Together(store)
        self._threads = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="clew-files")
        self._own = threading.local()
        self._group: list[_Job] = []
        self._group_bytes = 0
        self._reading: deque[Future[list[_Read]]] = deque()
        self._encoding: deque[Future[list[Encoded]]] = deque()
        self._open: dict[bytes, _Folder] = {}
        """The folder that waits for the folder of this path."""
        self._done: dict[bytes, Entry] = {}
        self._before_ns = time.time_ns() - CLOCK_TICK_NS
        self._began_at = time.time_ns() // 1000
        self._files = self._bytes = self._new_bytes = self._visited = 0

    def save(self, also: bytes = b"") -> Saved:
        """Store the folder; what is in the tree `also` is not ignored."""
        try:
            root = self._saved(also)
            self._together.finish()
        except BaseException:
            self._threads.shutdown(cancel_futures=True)
            self._together.discard()
            raise
        self._threads.shutdown()
        return Saved(root.digest, root.count, root.size, self._new_bytes, self._scan.skipped, self._began_at)

    def _saved(self, also: bytes) -> Entry:
        self._scan.visit(self._begin, also)
        self._submit()
        while self._reading:
            self._take_read()
        while self._encoding:
            self._take_encoded()
        return self._done.pop(b"")

    # Folders ----------------------------------------------------------------------------------------------------------

    def _begin(self, found: Found) -> None:
        folder = _Folder(found)
        for below in found.folders:
            entry = self._done.pop(below, None)
            if entry is not None:
                folder.folders.append(entry)
            else:
                folder.waits_for += 1
                self._open[below] = folder
        record = found.record
        if record is not None and record.signatures == found.signatures:
            folder.entries, folder.is_as_before = [*record.entries], True
            self._count(sum(entry.size for entry in record.entries), len(record.entries))
        else:
            self._read_changed(folder, record)
        self._less(folder)
        self._visited += 1
        if self._visited % REPORTED == 0:
            end_step()
            if self._on_progress is not None:
                self._on_progress(self._bytes, 0)
        if self._together.is_full:
            while self._encoding:
                self._take_encoded()
            self._together.flush()

    def _read_changed(self, folder: _Folder, record: Record | None) -> None:
        known = {}
        if record is not None:
            known = {
                name: (signature, entry)
                for (name, signature), entry in zip(record.signatures, record.entries, strict=True)
            }
        path = folder.found.path
        for number, (name, signature) in enumerate(folder.found.signatures):
            self._count(signature[0], 1)
            before = known.get(name)
            if before is not None and before[0] == signature:
                folder.entries.append(before[1])
                continue
            folder.entries.append(None)
            job = _Job(folder, number, path + b"/" + name if path else name, signature)
            if stat.S_ISLNK(signature[4]):
                self._take_link(job)
            elif signature[0] > self._limits.largest_file:
                self._scan.skip(job.path, f"has {signature[0]:,} bytes; the limit is {self._limits.largest_file:,}")
            elif signature[0] >= LARGE_BYTES:
                self._take_large(job)
            else:
                folder.waits_for += 1
                self._group.append(job)
                self._group_bytes += signature[0]
                if self._group_bytes >= GROUP_BYTES or len(self._group) >= GROUP_FILES:
                    self._submit()

    def _count(self, size: int, files: int) -> None:
        self._files += files
        self._bytes += size
        if self._bytes > self._limits.most_bytes or self._files > self._limits.most_files:
            raise TooLarge(
                f"{shown(self._root)} has more than {self._limits.most_bytes:,} bytes or {self._limits.most_files:,} "
                "files; name what is not needed in a .clewignore, or raise the limit",
                limit=self._limits.most_bytes,
            )

    def _less(self, folder: _Folder) -> None:
        """The folder waits for one thing less; at nothing its tree is made, and its parent waits less."""
        folder.waits_for -= 1
        if folder.waits_for:
            return
        entry = self._finish(folder)
        parent = self._open.pop(folder.found.path, None)
        if parent is None:
            self._done[folder.found.path] = entry
        else:
            parent.folders.append(entry)
            self._less(parent)

    def _finish(self, folder: _Folder) -> Entry:
        found, record = folder.found, folder.found.record
        folders = sorted(folder.folders, key=lambda entry: entry.name)
        if record is not None and folder.is_as_before and folders == record.folders:
            same = len(found.ignored) == len(record.ignored)
            if same:
                self._remembered.keep_as_it_was(found.path)
            else:
                self._remembered.keep(found.path, msgspec.structs.replace(record, ignored=found.ignored))
            return Entry(found.name, FOLDER, found.mode, record.size, record.tree, record.count)
        kept = [
            (signature, entry)
            for signature, entry in zip(folder.signatures, folder.entries, strict=True)
            if entry is not None
        ]
        files = [entry for _, entry in kept]
        data = encode_tree([*files, *folders])
        tree = self._together.add_manifest(data, (entry.digest for entry in [*files, *folders] if entry.digest))
        size = sum(entry.size for entry in [*files, *folders])
        count = sum(entry.count for entry in [*files, *folders])
        self._remembered.keep(
            found.path,
            Record(
                rules=found.rules, ignored=found.ignored,
                signatures=settled((signature for signature, _ in kept), self._before_ns), entries=files,
                folders=folders, tree=tree, size=size, count=count,
            ),
        )  # fmt: skip
        return Entry(found.name, FOLDER, found.mode, size, tree, count)

    # Files ------------------------------------------------------------------------------------------------------------

    def _take_link(self, job: _Job) -> None:
        try:
            target = os.readlink(os.path.join(self._root, job.path))
        except OSError as error:
            self._scan.skip(job.path, f"cannot be read: {error.strerror}")
            return
        job.folder.entries[job.number] = Entry(os.path.basename(job.path), LINK, target=target)

    def _take_large(self, job: _Job) -> None:
        """Store a large file in pieces, which are read one after the other."""
        if self._holds_secret is not None:
            self._scan.skip(job.path, "is too large to be searched for secrets, which this project masks")
            return
        why = ""
        for _ in range(TRIES):
            try:
                with _opened(os.path.join(self._root, job.path)) as file:
                    before = signature_of(os.fstat(file.fileno()))
                    pieces = [self._add_piece(piece) for piece in cut(file.read)]
                    after = signature_of(os.fstat(file.fileno()))
            except OSError as error:
                self._scan.skip(job.path, f"cannot be read: {error.strerror}")
                return
            if before == after:
                break
        else:
            why = "changed while it was read; this is one of its states, or a mixture"
        digest = self._together.add_manifest(encode_pieces(pieces), (digest for digest, _ in pieces))
        size = sum(size for _, size in pieces)
        self._keep(job, Entry(os.path.basename(job.path), LARGE, before[4] & 0o777, size, digest), after, why)

    def _add_piece(self, piece: bytes) -> tuple[bytes, int]:
        end_step()
        digest = blake3(piece).digest()
        if self._together.unknown([digest]):
            self._encode({digest: piece})
        return digest, len(piece)

    def _keep(self, job: _Job, entry: Entry, signature: Signature, why: str) -> None:
        if why:
            self._scan.skip(job.path, why)
            signature = (-1, 0, 0, 0, 0)  # Read it again next time.
        job.folder.entries[job.number] = entry
        job.folder.signatures[job.number] = (entry.name, signature)

    def _submit(self) -> None:
        if not self._group:
            return
        group, self._group, self._group_bytes = self._group, [], 0
        self._reading.append(self._threads.submit(self._read_group, group))
        while len(self._reading) > GROUPS:
            self._take_read()

    def _take_read(self) -> None:
        """Take the oldest group that was read: let its new files be compressed, and complete its folders."""
        group = self._reading.popleft().result()
        unknown = self._together.unknown(read.digest for read in group if read.digest)
        new = {read.digest: read.data for read in group if read.digest in unknown}
        if new:
            self._encode(new)
        for read in group:
            if read.digest:
                name = os.path.basename(read.job.path)
                entry = Entry(name, FILE, read.signature[4] & 0o777, len(read.data), read.digest)
                self._keep(read.job, entry, read.signature, read.why)
            elif read.why:
                self._scan.skip(read.job.path, read.why)
            self._less(read.job.folder)

    def _encode(self, new: dict[bytes, bytes]) -> None:
        """Let objects be compressed, and take the oldest when many are under way."""
        self._encoding.append(self._threads.submit(self._encode_group, new))
        while len(self._encoding) > GROUPS:
            self._take_encoded()

    def _take_encoded(self) -> None:
        for encoded in self._encoding.popleft().result():
            if self._together.add(encoded):
                self._new_bytes += encoded.size
        if self._new_bytes - self._asked_at >= ASKED_BYTES:
            self._asked_at = self._new_bytes
            self._refuse_full()

    def _encode_group(self, new: dict[bytes, bytes]) -> list[Encoded]:
        encoder = getattr(self._own, "encoder", None)
        if encoder is None:
            encoder = self._own.encoder = Encoder(LEVEL)
        return [encoder.encode(data, digest) for digest, data in new.items()]

    def _read_group(self, group: list[_Job]) -> list[_Read]:
        return [self._read(job) for job in group]

    def _read(self, job: _Job) -> _Read:
        """Read a file; one that changes meanwhile is read again, and marked in the end."""
        path = os.path.join(self._root, job.path)
        try:
            for _ in range(TRIES):
                with _opened(path) as file:
                    before = signature_of(os.fstat(file.fileno()))
                    data = file.read()
                    after = signature_of(os.fstat(file.fileno()))
                if before == after and len(data) == after[0]:
                    break
        except FileNotFoundError:
            return _Read(job, b"", b"", job.signature)  # It vanished meanwhile.
        except OSError as error:
            return _Read(job, b"", b"", job.signature, f"cannot be read: {error.strerror}")
        if not stat.S_ISREG(after[4]):
            return _Read(job, b"", b"", job.signature, "is no file any more")
        if self._holds_secret is not None and self._holds_secret(data):
            return _Read(job, b"", b"", job.signature, "holds a secret, which this project masks")
        why = "" if before == after else "changed while it was read; this is one of its states, or a mixture"
        return _Read(job, blake3(data).digest(), data, after, why)


def _opened(path: bytes) -> io.FileIO:
    """A file that is open for reading: never what a link points to, and never waiting for another end of it."""
    return io.FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
