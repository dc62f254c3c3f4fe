"""Make a folder as a tree says: each file at once under its name, nothing outside of it, nothing through a link.

Every folder is opened below the one before it, and never where a link is. A file that replaces another is written
beside it and takes its name when it is complete. A run that was killed leaves files that no snapshot takes in; the next
run that writes there removes them.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from clew.model.errors import ClewError, Conflict, DiskFull, StoreError, TooLarge
from clew.model.file_tree import (
    FILE,
    FOLDER,
    LARGE,
    LINK,
    MOST_ENTRIES,
    Entry,
    decode_pieces,
    decode_tree,
    refuse_depth,
    shown,
)
from clew.service.workspaces.cloning import Live
from clew.service.workspaces.comparing import is_folder
from clew.service.workspaces.ignoring import UNFINISHED
from clew.service.workspaces.points import by_name
from clew.service.workspaces.writing import File, Writing
from clew.store import Store
from clew.store.objects import objects
from clew.store.objects.together import load_many

FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
Names = Mapping[bytes, Entry]


class Restoring:
    """One folder that is being restored."""

    def __init__(self, store: Store, root: bytes, *, live: Live | None = None) -> None:
        """With `live`, files are cloned from that folder where they are unchanged there."""
        self._store = store
        self._live = live
        self._root = root
        self.written = self.removed = self._made = 0
        self._trees: dict[bytes, bytes] = {}
        """Trees that were read together with others, until they are needed."""

    def restore(self, before: bytes, after: bytes) -> None:
        """Make the folder, which is as the tree `before` now, as the tree `after`."""
        with self._errors(), _open_root(self._root) as folder, Writing(self._write_file) as self._writing:
            self._folder(folder, b"", before, after)

    def restore_paths(
        self, paths: Mapping[bytes, tuple[Entry | None, Entry | None]], modes: Mapping[bytes, int]
    ) -> None:
        """Make single paths as they are in a tree; each comes with its entry now and then."""
        with self._errors(), _open_root(self._root) as folder, Writing(self._write_file) as self._writing:
            for path, (before, after) in paths.items():
                self._path(folder, path, before, after, modes)

    def _path(
        self, folder: int, path: bytes, before: Entry | None, after: Entry | None, modes: Mapping[bytes, int]
    ) -> None:
        above, _, name = path.rpartition(b"/")
        descriptor, reached = os.dup(folder), b""
        try:
            for part in above.split(b"/") if above else ():
                reached = reached + b"/" + part if reached else part
                new = self._enter(descriptor, part, shown(reached), makes=after is not None)
                if reached in modes and new[1]:
                    os.fchmod(new[0], modes[reached])
                os.close(descriptor)
                descriptor = new[0]
            entries = ({name: entry} if entry is not None else {} for entry in (before, after))
            self._entries(descriptor, above, *entries)
        except FileNotFoundError:
            if after is not None:
                raise
        finally:
            self._writing.close(descriptor)

    # Folders ----------------------------------------------------------------------------------------------------------

    def _folder(self, folder: int, path: bytes, before: bytes, after: bytes) -> None:
        self._entries(folder, path, self._names(before), self._names(after))

    def _names(self, tree: bytes) -> Names:
        data = self._trees.pop(tree, None)
        if data is not None:
            return {entry.name: entry for entry in decode_tree(data)}
        return by_name(self._store, tree) if tree else {}

    def _entries(self, folder: int, path: bytes, old: Names, new: Names, *, is_new: bool = False) -> None:
        if not is_new:
            self._remove_unfinished(folder)
        _refuse_equal_names(folder, path, new)
        for name, entry in old.items():
            if name not in new or is_folder(new[name]) != is_folder(entry):
                self._remove(folder, name, entry)
        self._folders(folder, path, old, new)
        changed = [entry for name, entry in new.items() if entry.kind != FOLDER and old.get(name) != entry]
        changed = [entry for entry in changed if not self._has_new_mode_only(folder, old, entry)]
        self._files(folder, path, changed, is_new=is_new)

    def _count(self) -> None:
        """Count a file or a folder that is made; too many end the restore before the disk is full."""
        self._made += 1
        if self._made > MOST_ENTRIES:
            raise TooLarge(f"this snapshot has more than {MOST_ENTRIES:,} files and folders", limit=MOST_ENTRIES)

    def _folders(self, folder: int, path: bytes, old: Names, new: Names) -> None:
        """Restore the folders below that are others."""
        changed = [entry for entry in new.values() if entry.kind == FOLDER and old.get(entry.name) != entry]
        self._trees.update(load_many(self._store, [*{entry.digest for entry in changed}]))
        for entry in changed:
            self._below(folder, entry, path + b"/" + entry.name if path else entry.name, old.get(entry.name))

    def _below(self, folder: int, entry: Entry, path: bytes, before: Entry | None) -> None:
        refuse_depth(path)
        self._count()
        descriptor, is_new = self._enter(folder, entry.name, shown(path), makes=True)
        try:
            os.fchmod(descriptor, entry.mode | 0o700)
            old = self._names(before.digest) if before is not None and before.kind == FOLDER else {}
            self._entries(descriptor, path, old, self._names(entry.digest), is_new=is_new)
        except BaseException:
            self._writing.close(descriptor)
            raise
        self._writing.close(descriptor, entry.mode)

    def _enter(self, folder: int, name: bytes, path: str, *, makes: bool) -> tuple[int, bool]:
        """Open a folder below another, and make it if it is missing; says whether it was made."""
        was_made = False
        try:
            try:
                return os.open(name, FLAGS, dir_fd=folder), False
            except FileNotFoundError:
                if not makes:
                    raise
            os.mkdir(name, 0o700, dir_fd=folder)
            was_made = True
            return os.open(name, FLAGS, dir_fd=folder), was_made
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Conflict(
                    f"{path} is a link or a file, and a folder has to be there; move it away", path=path
                ) from None
            raise

    def _remove(self, folder: int, name: bytes, entry: Entry) -> None:
        """Remove what a tree has; of a folder only that, so whatever was ignored in it stays."""
        try:
            if entry.kind != FOLDER:
                os.unlink(name, dir_fd=folder)
                self.removed += 1
                return
            descriptor = os.open(name, FLAGS, dir_fd=folder)
            try:
                os.fchmod(descriptor, entry.mode | 0o700)
                for below in by_name(self._store, entry.digest).values():
                    self._remove(descriptor, below.name, below)
                self._remove_unfinished(descriptor)
            finally:
                os.close(descriptor)
            os.rmdir(name, dir_fd=folder)
        except FileNotFoundError:
            return  # A run before this one removed it.
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise

    def _remove_unfinished(self, folder: int) -> None:
        for name in os.listdir(folder):
            if os.fsencode(name).startswith(UNFINISHED):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)

    # Files ------------------------------------------------------------------------------------------------------------

    def _has_new_mode_only(self, folder: int, old: Names, entry: Entry) -> bool:
        """Whether only the mode is another; it is set then."""
        before = old.get(entry.name)
        if (
            before is None
            or entry.kind not in (FILE, LARGE)
            or (before.kind, before.digest) != (entry.kind, entry.digest)
        ):
            return False
        descriptor = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            if os.fstat(descriptor).st_nlink > 1:
                return False  # Its other names are none of the workspace's business.
            os.fchmod(descriptor, entry.mode)
        finally:
            os.close(descriptor)
        self.written += 1
        return True

    def _files(self, folder: int, path: bytes, entries: list[Entry], *, is_new: bool) -> None:
        by_digest: dict[bytes, list[Entry]] = {}
        for entry in entries:
            if entry.kind == LINK:
                self._link(folder, entry)
            elif self._is_cloned(folder, path, entry, is_new=is_new):
                continue
            elif entry.kind == FILE:
                by_digest.setdefault(entry.digest, []).append(entry)
            elif entry.kind == LARGE:
                self._count()
                self._write(folder, entry, partial(_write_pieces, self._pieces(entry)), is_new=is_new)
                self.written += 1
        if by_digest:
            for digest, data in load_many(self._store, [*by_digest]):
                for entry in by_digest[digest]:
                    self._count()
                    self._writing.add(File(folder, entry, data, is_new))
                    self.written += 1

    def _is_cloned(self, folder: int, path: bytes, entry: Entry, *, is_new: bool) -> bool:
        """Whether the file could share its bytes with the same file of the live folder."""
        if self._live is None or not self._live.has(path, entry):
            return False
        if not self._write(folder, entry, partial(self._live.clone, path, entry), is_new=is_new):
            return False
        self._count()
        self.written += 1
        return True

    def _pieces(self, entry: Entry) -> Iterator[bytes]:
        for digest, _ in decode_pieces(objects.load(self._store, entry.digest.hex())):
            yield objects.load(self._store, digest.hex())

    def _write_file(self, file: File) -> None:
        self._write(file.folder, file.entry, partial(_write_pieces, (file.data,)), is_new=file.is_new)

    def _write(self, folder: int, entry: Entry, fill: Callable[[int], bool], *, is_new: bool) -> bool:
        """Write a file beside its name; in a folder that was made just now nothing can be replaced.

        False, and no file, if `fill` could not write it.
        """
        unfinished = entry.name if is_new else UNFINISHED + os.urandom(8).hex().encode()
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            try:
                is_filled = fill(descriptor)
                os.fchmod(descriptor, entry.mode)
            finally:
                os.close(descriptor)
            if not is_filled:
                os.unlink(unfinished, dir_fd=folder)
                return False
            if not is_new:
                self._rename(folder, unfinished, entry)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=folder)
            raise
        return True

    def _link(self, folder: int, entry: Entry) -> None:
        unfinished = UNFINISHED + os.urandom(8).hex().encode()
        os.symlink(entry.target, unfinished, dir_fd=folder)
        self._rename(folder, unfinished, entry)
        self.written += 1

    def _rename(self, folder: int, unfinished: bytes, entry: Entry) -> None:
        try:
            os.rename(unfinished, entry.name, src_dir_fd=folder, dst_dir_fd=folder)
        except IsADirectoryError:
            name = shown(entry.name)
            raise Conflict(
                f"{name} is a folder with files that no snapshot has, where a file has to be; move it away",
                path=name,
            ) from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of the system as ours."""
        try:
            yield
        except ClewError:
            raise
        except OSError as error:
            root = shown(self._root)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no room left in {root}; free some space and restore again, which goes on") from error
            raise StoreError(
                f"cannot restore {root}: {error.strerror}; repair that and restore again, which goes on"
            ) from error


@contextmanager
def _open_root(root: bytes) -> Iterator[int]:
    os.makedirs(root, exist_ok=True)
    descriptor = os.open(root, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_equal_names(folder: int, path: bytes, names: Names) -> None:
    """Refuse names that are one file where upper and lower case are the same: one would replace the other."""
    lower: dict[str, bytes] = {}
    for name in names:
        other = lower.setdefault(shown(name).casefold(), name)
        if other != name and ignores_case(folder):
            raise Conflict(
                f"{shown(other)} and {shown(name)} in {shown(path) or 'the folder'} are one file on this file system; "
                "restore into a folder that tells upper from lower case",
                paths=[shown(other), shown(name)],
            )


def ignores_case(folder: int) -> bool:
    """Whether upper and lower case are the same in this folder."""
    name = UNFINISHED + os.urandom(8).hex().encode()
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder))
    try:
        os.stat(name.upper(), dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        os.unlink(name, dir_fd=folder)
    return True


def _write_pieces(pieces: Iterable[bytes], descriptor: int) -> bool:
    for piece in pieces:
        _write_whole(descriptor, piece)
    return True


def _write_whole(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
