"""Walk through a folder and say what is in it: the folders below before the folder itself. Nothing follows a link."""

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from clew.model.errors import NotFound
from clew.model.file_tree import DEEPEST, FOLDER, Entry, shown
from clew.service.workspaces.ignoring import (
    CACHE_SIGNATURE,
    CACHE_TAG,
    GIT,
    IGNORE_FILES,
    LONGEST_IGNORE_FILE,
    UNFINISHED,
    Rules,
)
from clew.service.workspaces.remembered import Record, Remembered, Signature

KIND = 0o170000
KEPT = (stat.S_IFREG, stat.S_IFLNK)


class Skipped(msgspec.Struct, frozen=True):
    """Something that is not in a snapshot although no rule of the user ignores it, and why."""

    path: str
    why: str


class Found(msgspec.Struct, gc=False):
    """A folder that was walked through."""

    path: bytes
    """Below the root; empty for the root."""
    mode: int
    rules: bytes
    ignored: list[bytes]
    signatures: list[tuple[bytes, Signature]]
    """Of its files and links, sorted by name."""
    folders: list[bytes]
    """The paths of those below."""
    record: Record | None
    """How it was at the last snapshot, if its rules were the same."""

    @property
    def name(self) -> bytes:
        return self.path.rpartition(b"/")[2]


Below = Mapping[bytes, Entry]


class Scan:
    """One walk through a folder."""

    def __init__(
        self,
        root: bytes,
        remembered: Remembered,
        *,
        rules: Rules,
        own: bytes = b"",
        taken_in: Callable[[bytes], Below] = lambda tree: {},
    ) -> None:
        self._root = root
        self._remembered = remembered
        self._rules = rules
        self._own = own
        """The folder of the store itself."""
        self._taken_in = taken_in
        """The entries of a tree by its digest: what is in this tree is never ignored."""
        self._visitor: Callable[[Found], None] = lambda found: None
        self.skipped: list[Skipped] = []

    def visit(self, visitor: Callable[[Found], None], tree: bytes = b"") -> None:
        """Show every folder to the visitor, those below before the folder itself. What is in `tree` is not ignored."""
        if not os.path.isdir(self._root):
            raise NotFound(f"there is no folder {shown(self._root)}", path=shown(self._root))
        mode = stat.S_IMODE(os.stat(self._root).st_mode)
        self._visitor = visitor
        self._folder(self._root, b"", mode, self._rules, 0, self._taken_in(tree) if tree else {})

    def _folder(self, at: bytes, path: bytes, mode: int, rules: Rules, depth: int, also: Below) -> Found | None:
        """Walk through a folder; None for one that is left out."""
        try:
            with os.scandir(at) as entries:
                listing = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return None  # It vanished meanwhile.
        except OSError as error:
            self.skip(path, f"cannot be read: {error.strerror}")
            return None
        names = {entry.name for entry in listing}
        if CACHE_TAG in names and path and not also and _is_tagged(at):
            return None
        rules = rules.below(path, ignore_files(at, names))
        known = self._remembered.folder(path)
        record = known if known is not None and known.rules == rules.digest else None
        found = Found(path, mode & 0o777, rules.digest, [], [], [], record)
        self._content(found, listing, rules, depth, also)
        self._visitor(found)
        return found

    def _content(
        self, found: Found, listing: list["os.DirEntry[bytes]"], rules: Rules, depth: int, also: Below
    ) -> None:
        record, prefix = found.record, found.path + b"/" if found.path else b""
        ignored = frozenset(record.ignored) - also.keys() if record else frozenset[bytes]()
        taken = {name for name, _ in record.signatures} | {entry.name for entry in record.folders} if record else set()
        for entry in listing:
            name = entry.name
            if name in ignored:
                found.ignored.append(name)
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if name not in taken and name not in also and self._is_left_out(found, name, rules, is_folder):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # It vanished meanwhile.
            mode = status.st_mode
            if is_folder:
                self._below(found, entry.path, prefix + name, mode, rules, depth, also.get(name))
            elif mode & KIND in KEPT:
                signature = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, mode)
                found.signatures.append((name, signature))
            else:
                self.skip(prefix + name, "is neither a file nor a folder nor a link")

    def _below(
        self, found: Found, at: bytes, path: bytes, mode: int, rules: Rules, depth: int, also: Entry | None
    ) -> None:
        if depth >= DEEPEST:
            self.skip(path, f"is more than {DEEPEST} folders deep")
            return
        if at == self._own:
            self.skip(path, "is the folder of clew's own store")
            return
        below = self._taken_in(also.digest) if also is not None and also.kind == FOLDER else {}
        folder = self._folder(at, path, mode, rules, depth + 1, below)
        if folder is not None:
            found.folders.append(path)

    def _is_left_out(self, found: Found, name: bytes, rules: Rules, is_folder: bool) -> bool:
        """Whether the rules leave it out. A secret is listed each time, so it is never remembered as ignored."""
        if name.lower() == GIT or name.startswith(UNFINISHED):
            return True
        path = found.path + b"/" + name if found.path else name
        why = rules.decide(path, name, is_folder=is_folder)
        if why == "secret":
            self.skip(path, "looks like a secret")
        elif why:
            found.ignored.append(name)
        return bool(why)

    def skip(self, path: bytes, why: str) -> None:
        self.skipped.append(Skipped(shown(path), why))


def signature_of(status: os.stat_result) -> Signature:
    """What changes whenever a file does."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)


def ignore_files(folder: bytes, names: set[bytes]) -> list[bytes]:
    """The texts of the ignore files of a folder, the stronger one last."""
    texts = []
    for name in IGNORE_FILES:
        if name in names:
            with suppress(OSError):  # It cannot be read, or it is a link: then it ignores nothing.
                descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                with open(descriptor, "rb") as file:
                    texts.append(file.read(LONGEST_IGNORE_FILE))
    return texts


def _is_tagged(folder: bytes) -> bool:
    """Whether a program says of its own folder that it holds a cache."""
    with suppress(OSError), open(os.path.join(folder, CACHE_TAG), "rb") as file:
        return file.read(len(CACHE_SIGNATURE)) == CACHE_SIGNATURE
    return False
