"""Bring the files of a snapshot from a server: the trees from the top, then the files, then the trees are stored.

What this store has of the session, or of sessions that came before, is not asked for again; neither is what came before
an interruption. Each object is compared with its name. A file that the server holds back, because it holds a secret or
is lost there, is left out, and the trees above it are written anew.
"""

from collections.abc import Callable, Iterable

import msgspec

from clew.model.errors import Damaged
from clew.model.file_tree import FOLDER, LARGE, LINK, Entry, decode_pieces, decode_tree, encode_tree, refuse_depth
from clew.model.git_record import decode_git_record, encode_git_record
from clew.model.session import Session
from clew.model.steps import end_step
from clew.service.kernel.context import Context
from clew.service.replication.trees import (
    FILE_DATA,
    GIT_DATA,
    MOST_OBJECTS,
    PIECES_DATA,
    TOGETHER_BYTES,
    TREE_DATA,
    Item,
    decompressed,
    keep,
    known,
)
from clew.service.replication.values import TreeObjects, Wanted
from clew.store.objects.pack import address

Ask = Callable[[list[Wanted]], TreeObjects]

_objects = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


class TreePull:
    """One snapshot on its way from a server; `ask` reads objects of it there."""

    def __init__(self, context: Context, session: Session, ask: Ask, *, bases: list[str]) -> None:
        self._context = context
        self._session = session
        self._ask = ask
        self._bases = bases
        self._unknown: set[bytes] = set()
        self._trees: dict[bytes, bytes] = {}
        """The trees and the lists of pieces that this store does not have; they are stored after what they name."""
        self._done: dict[bytes, Entry] = {}
        self._held: set[bytes] = set()
        self._group: list[Item] = []
        self._group_bytes = 0
        self.objects = 0
        self.left_out = 0

    def run(self, root: bytes) -> bytes:
        """Bring the files; returns the topmost object as it is here, empty when the server has lost it."""
        files = self._read_trees(root)
        if root in self._held:
            return b""
        for want, data in self._read(files):
            if data is None:
                self._held |= {bytes.fromhex(want.of or want.digest)}
            else:
                self._keep(FILE_DATA, data)
        top = self._store_folder(Entry(b"", FOLDER, digest=root), b"")
        self._flush()
        return top.digest

    def run_git(self, name: bytes) -> bytes:
        """Bring a record of git with what is staged; returns it as it is here, empty when it stays on the server."""
        self._find_unknown([name])
        if name not in self._unknown:
            return name
        [(_, data)] = self._read([Wanted(digest=name.hex())])
        if data is None:
            self.left_out += 1
            return b""
        record = decode_git_record(data)
        digests = [*dict.fromkeys(staged.digest for staged in record.staged if staged.digest)]
        self._find_unknown(digests)
        for want, found in self._read([Wanted(digest=digest.hex()) for digest in digests if digest in self._unknown]):
            if found is None:
                self._held.add(bytes.fromhex(want.digest))
            else:
                self._keep(FILE_DATA, found)
        staged = []
        for entry in record.staged:
            if entry.digest in self._held:
                self.left_out += 1
                entry = msgspec.structs.replace(entry, digest=b"")
            staged.append(entry)
        data = encode_git_record(msgspec.structs.replace(record, staged=staged))
        self._keep(GIT_DATA, data)
        self._flush()
        return address(data)

    # Reading ----------------------------------------------------------------------------------------------------------

    def _read_trees(self, root: bytes) -> list[Wanted]:
        """Read the trees that this store does not have, from the top; returns the files that it does not have."""
        files: dict[bytes, Wanted] = {}
        large: set[bytes] = set()
        asked = [root]
        seen = {root}
        while asked:
            self._find_unknown(asked)
            wanted = [Wanted(digest=digest.hex()) for digest in asked if digest in self._unknown]
            asked = []
            for want, data in self._read(wanted):
                digest = bytes.fromhex(want.digest)
                if data is None:
                    self._held.add(digest)
                    continue
                self._trees[digest] = data
                if digest in large:
                    pieces = [piece for piece, _ in decode_pieces(data)]
                    files |= {piece: Wanted(digest=piece.hex(), of=want.digest) for piece in pieces}
                    continue
                asked += self._below(decode_tree(data), files, large, seen)
        self._find_unknown([*files])
        return [want for digest, want in files.items() if digest in self._unknown]

    def _below(
        self, entries: list[Entry], files: dict[bytes, Wanted], large: set[bytes], seen: set[bytes]
    ) -> list[bytes]:
        """The folders and lists of pieces in a folder, to be read next; its files are added to `files`."""
        below = []
        for entry in entries:
            if entry.kind == LINK or entry.digest in seen:
                continue
            seen.add(entry.digest)
            if entry.kind in (FOLDER, LARGE):
                below.append(entry.digest)
                large |= {entry.digest} if entry.kind == LARGE else set()
            else:
                files[entry.digest] = Wanted(digest=entry.digest.hex())
        return below

    def _find_unknown(self, digests: list[bytes]) -> None:
        """Look which of these objects this store does not have."""
        for at in range(0, len(digests), MOST_OBJECTS):
            part = {*digests[at : at + MOST_OBJECTS]}
            self._unknown |= part - known(self._context, self._session, part, self._bases)

    def _read(self, wanted: list[Wanted]) -> "Iterable[tuple[Wanted, bytes | None]]":
        """Each object with its bytes, checked, or with None when the server holds it back."""
        while wanted:
            end_step()
            answer = self._ask(wanted[:MOST_OBJECTS])
            try:
                found = dict(_objects.decode(decompressed(bytes.fromhex(answer.packed))))
            except (msgspec.DecodeError, ValueError) as error:
                raise Damaged(f"the server sent objects that cannot be read ({error})") from error
            number = 0
            for want in wanted[:MOST_OBJECTS]:
                digest = bytes.fromhex(want.digest)
                if want.digest in answer.held:
                    yield want, None
                elif digest in found:
                    data = found[digest]
                    if want.digest not in answer.changed and address(data) != digest:
                        raise Damaged(f"the object {want.digest} does not match its digest; it was not taken")
                    self.objects += 1
                    yield want, data
                else:
                    break
                number += 1
            if not number:
                raise Damaged("the server sent none of the objects that it was asked for; it is broken")
            wanted = wanted[number:]

    # Storing ----------------------------------------------------------------------------------------------------------

    def _store_folder(self, folder: Entry, path: bytes) -> Entry:
        """Store a folder after all that is in it; its entry as it is here."""
        refuse_depth(path)
        if folder.digest not in self._trees:
            return folder
        if folder.digest not in self._done:
            entries = []
            for entry in decode_tree(self._trees[folder.digest]):
                if entry.digest in self._held:
                    self.left_out += 1
                    continue
                if entry.kind == FOLDER:
                    entry = self._store_folder(entry, path + b"/" + entry.name)
                elif entry.kind == LARGE and entry.digest in self._trees:
                    self._keep(PIECES_DATA, self._trees[entry.digest])
                entries.append(entry)
            tree = encode_tree(entries)
            self._keep(TREE_DATA, tree)
            self._done[folder.digest] = Entry(
                b"", FOLDER, 0, sum(entry.size for entry in entries), address(tree),
                sum(entry.count for entry in entries),
            )  # fmt: skip
        done = self._done[folder.digest]
        if done.digest == folder.digest:
            return folder
        return Entry(folder.name, FOLDER, folder.mode, done.size, done.digest, done.count)

    def _keep(self, kind: str, data: bytes) -> None:
        self._group.append((kind, data))
        self._group_bytes += len(data)
        if self._group_bytes >= TOGETHER_BYTES or len(self._group) >= MOST_OBJECTS:
            self._flush()

    def _flush(self) -> None:
        group, self._group, self._group_bytes = self._group, [], 0
        if group:
            keep(self._context, self._session, group)
