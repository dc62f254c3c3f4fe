"""Send the files of a snapshot to a server: ask from the top which folders it has, then send what is new, files first.

A file that holds a secret is left out, as in a snapshot of a project that masks secrets: a file is there as it was, or
not at all. So is one that is lost here. The trees above it are written anew.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from clew.model.errors import Damaged, NotFound
from clew.model.file_tree import (
    FILE,
    FOLDER,
    LARGE,
    LINK,
    Entry,
    decode_pieces,
    decode_tree,
    encode_pieces,
    encode_tree,
    refuse_depth,
)
from clew.model.git_record import decode_git_record, encode_git_record
from clew.model.steps import end_step
from clew.secrets import REACH
from clew.secrets.blobs import without_secrets
from clew.service.replication.trees import (
    FILE_DATA,
    GIT_DATA,
    MOST_OBJECTS,
    PIECES_DATA,
    TOGETHER_BYTES,
    TREE_DATA,
    Item,
)
from clew.store import Store
from clew.store.objects import objects
from clew.store.objects.pack import address

if TYPE_CHECKING:
    from clew.secrets.masking import Masker

Known = Callable[[list[bytes]], set[bytes]]
Send = Callable[[list[Item]], None]


class _Lost(Exception):
    """An object that is damaged or missing here."""


class TreePush:
    """One snapshot on its way to a server. `known` asks which objects the server has, `send` sends some."""

    def __init__(self, store: Store, mask: "Masker", known: Known, send: Send) -> None:
        self._store = store
        self._mask = mask
        self._known = known
        self._send = send
        self._unknown: set[bytes] = set()
        self._sent: dict[bytes, Entry] = {}
        self._group: list[Item] = []
        self._group_bytes = 0
        self.objects = 0
        self.left_out = 0
        self.masked = Counter[str]()

    def run(self, root: bytes) -> bytes:
        """Send what the server does not have; returns the topmost object there, empty when it is lost here."""
        try:
            self._find_unknown(root)
        except _Lost:
            self.left_out += 1
            return b""
        sent = self._folder(Entry(b"", FOLDER, digest=root), b"")
        self._flush()
        return sent.digest

    def run_git(self, name: bytes) -> bytes:
        """Send a record of git with what is staged; returns it as it is there, empty when it is lost here."""
        self._ask([name])
        if name not in self._unknown:
            return name
        try:
            record = decode_git_record(self._load(name))
        except (_Lost, Damaged):
            self.left_out += 1
            return b""
        self._ask([staged.digest for staged in record.staged if staged.digest])
        staged = []
        for entry in record.staged:
            if self._mask.mask(entry.path)[1]:
                self.left_out += 1
                continue
            if entry.digest in self._unknown and not self._staged(entry.digest):
                self.left_out += 1
                entry = msgspec.structs.replace(entry, digest=b"")
            staged.append(entry)
        sent = self._add(GIT_DATA, encode_git_record(msgspec.structs.replace(record, staged=staged)))
        self._flush()
        return sent

    def _staged(self, digest: bytes) -> bool:
        """Send the bytes of a staged file; whether they are there."""
        if digest in self._sent:
            return True
        try:
            is_sent = self._file(Entry(b"", FILE, digest=digest))
        except _Lost:
            return False
        if is_sent:
            self._sent[digest] = Entry(b"", FILE, digest=digest)
        return is_sent

    # What the server has ----------------------------------------------------------------------------------------------

    def _find_unknown(self, root: bytes) -> None:
        """Ask folder by folder from the top; what is below a folder that the server has, it has too."""
        folders = [root]
        seen = {root}
        self._ask([root])
        while folders:
            below: list[bytes] = []
            asked: list[bytes] = []
            for folder in folders:
                if folder in self._unknown:
                    for kind, digest in self._named(folder, is_root=folder == root):
                        if digest not in seen:
                            seen.add(digest)
                            asked.append(digest)
                            below += [digest] if kind == FOLDER else []
                if len(asked) >= MOST_OBJECTS:
                    self._ask(asked)
                    asked = []
            self._ask(asked)
            folders = below

    def _named(self, folder: bytes, *, is_root: bool) -> Iterator[tuple[str, bytes]]:
        """What a folder names, and the pieces of its large files. Only the topmost folder has to be readable."""
        end_step()
        try:
            entries = self._entries(folder)
        except _Lost:
            if is_root:
                raise
            return
        for entry in entries:
            if entry.kind != LINK:
                yield entry.kind, entry.digest
            if entry.kind == LARGE:
                try:
                    pieces = self._pieces(entry)
                except _Lost:
                    continue  # `_large` leaves it out.
                yield from ((FILE, digest) for digest, _ in pieces)

    def _ask(self, digests: list[bytes]) -> None:
        for at in range(0, len(digests), MOST_OBJECTS):
            part = digests[at : at + MOST_OBJECTS]
            self._unknown |= {*part} - self._known(part)

    def _load(self, digest: bytes) -> bytes:
        try:
            return objects.load(self._store, digest.hex())
        except (NotFound, Damaged) as error:
            raise _Lost from error

    def _entries(self, folder: bytes) -> list[Entry]:
        try:
            return decode_tree(self._load(folder))
        except Damaged as error:
            raise _Lost from error

    def _pieces(self, file: Entry) -> list[tuple[bytes, int]]:
        try:
            return decode_pieces(self._load(file.digest))
        except Damaged as error:
            raise _Lost from error

    # What is sent -----------------------------------------------------------------------------------------------------

    def _folder(self, folder: Entry, path: bytes) -> Entry:
        """Send what is new below a folder, then its tree; its entry as it is there."""
        refuse_depth(path)
        if folder.digest not in self._unknown:
            return folder
        if folder.digest not in self._sent:
            entries = [sent for entry in self._entries(folder.digest) if (sent := self._entry(entry, path)) is not None]
            entries = self._without_secret_names(entries)
            tree = encode_tree(entries)
            digest = self._add(TREE_DATA, tree)
            self._sent[folder.digest] = Entry(
                b"", FOLDER, 0, sum(entry.size for entry in entries), digest, sum(entry.count for entry in entries)
            )
        sent = self._sent[folder.digest]
        if sent.digest == folder.digest:
            return folder
        return Entry(folder.name, FOLDER, folder.mode, sent.size, sent.digest, sent.count)

    def _entry(self, entry: Entry, path: bytes) -> Entry | None:
        if entry.kind == LINK:
            return entry
        try:
            if entry.kind == FOLDER:
                return self._folder(entry, path + b"/" + entry.name)
            if entry.digest not in self._unknown or entry.digest in self._sent:
                return entry
            is_sent = self._large(entry) if entry.kind == LARGE else self._file(entry)
        except _Lost:
            is_sent = False  # It is lost here: the rest of the snapshot is not.
        if not is_sent:
            self.left_out += 1
            return None
        self._sent[entry.digest] = entry
        return entry

    def _file(self, entry: Entry) -> bool:
        data = self._load(entry.digest)
        if self._holds_secret(data):
            return False
        self._add(FILE_DATA, data)
        return True

    def _large(self, entry: Entry) -> bool:
        """Send the pieces of a large file, once all of it was searched for secrets: one may lie in two pieces."""
        pieces = self._pieces(entry)
        before = b""
        for digest, _ in pieces:
            end_step()
            data = self._load(digest)
            if self._holds_secret(before + data):
                return False
            before = data[-REACH:]
        for digest, _ in pieces:
            if digest in self._unknown and digest not in self._sent:
                self._add(FILE_DATA, self._load(digest))
                self._sent[digest] = entry
        self._add(PIECES_DATA, encode_pieces(pieces))
        return True

    def _holds_secret(self, data: bytes) -> bool:
        counts = without_secrets(self._mask, data)[1]
        self.masked += counts
        return bool(counts)

    def _without_secret_names(self, entries: list[Entry]) -> list[Entry]:
        """The entries whose names and targets hold no secret."""
        if not self._mask.mask(b"\n".join(entry.name + b"\n" + entry.target for entry in entries))[1]:
            return entries
        kept = [entry for entry in entries if not self._mask.mask(entry.name + b"\n" + entry.target)[1]]
        self.left_out += len(entries) - len(kept)
        return kept

    def _add(self, kind: str, data: bytes) -> bytes:
        end_step()
        self._group.append((kind, data))
        self._group_bytes += len(data)
        self.objects += 1
        if self._group_bytes >= TOGETHER_BYTES or len(self._group) >= MOST_OBJECTS:
            self._flush()
        return address(data)

    def _flush(self) -> None:
        group, self._group, self._group_bytes = self._group, [], 0
        if group:
            self._send(group)
