"""Sound copies of damaged objects: in the packs, in files on this machine, and on the servers that this home knows.

A copy counts when its digest is the name of the object; nothing else is looked at.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from clew.model.errors import ClewError
from clew.model.file_tree import encode_pieces, encode_tree
from clew.model.steps import end_step
from clew.service.kernel.context import Context
from clew.store.objects import mending
from clew.store.objects.objects import LOADED_BYTES
from clew.store.objects.pack import address

if TYPE_CHECKING:
    from clew.service.audit.verify_objects import Place
    from clew.service.replication.server import Server

Copy = tuple[bytes, str, bytes]
"""The digest of an object, where a copy of it is, and its bytes."""
Places = Mapping[bytes, Sequence["Place"]]
# So many places of an object are tried.
TRIED = 20


def sound_copies(context: Context, bad: set[bytes], places: Places) -> Iterator[Copy]:
    """Copies of the bad objects, nearest first; once one was given, no other copy of it is looked for."""
    left = {*bad}

    def new(copies: Iterator[Copy]) -> Iterator[Copy]:
        for digest, source, data in copies:
            if digest in left and address(data) == digest:
                left.discard(digest)
                yield digest, source, data

    if not context.answers_leave_machine:
        yield from new(_in_files(context, left, places))
    yield from new(mending.duplicates(context.unrestricted, left, end_step))
    if context.open_server is not None and not context.answers_leave_machine:
        yield from new(_on_servers(context, left, places))


# Files on this machine ------------------------------------------------------------------------------------------------


def _in_files(context: Context, bad: set[bytes], places: Places) -> Iterator[Copy]:
    cut_files: set[bytes] = set()
    for digest in sorted(bad):
        for place in places.get(digest, ())[:TRIED]:
            if digest not in bad or place.machine not in ("", context.machine):
                continue
            end_step()
            if place.length >= 0:
                path = place.path
                data = _part(path, place.start, place.length)
                if data is not None:
                    yield digest, f"the file {os.fsdecode(path)}", data
            elif place.folder and place.path:
                path = os.path.join(os.fsencode(place.folder), place.path)
                yield from _file_and_pieces(path, bad, cut_files)
    if bad:
        yield from _remembered_trees(context, bad, places)


def _part(path: bytes, start: int, length: int) -> bytes | None:
    """Bytes of a file, if they are there; never what a link points to."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            file.seek(start)
            return file.read(length) if length <= LOADED_BYTES else None
    except OSError:
        return None


def _file_and_pieces(path: bytes, bad: set[bytes], seen: set[bytes]) -> Iterator[Copy]:
    """A file as an object, its pieces, and the list of these."""
    from clew.service.workspaces.cutting import LARGE_BYTES, cut

    if path in seen:
        return
    seen.add(path)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            source = f"the file {os.fsdecode(path)}"
            if os.fstat(file.fileno()).st_size < LARGE_BYTES:
                data = file.read()
                yield blake3(data).digest(), source, data
                return
            pieces = []
            for piece in cut(file.read):
                end_step()
                digest = blake3(piece).digest()
                pieces.append((digest, len(piece)))
                if digest in bad:
                    yield digest, source, piece
            listed = encode_pieces(pieces)
            yield address(listed), source, listed
    except OSError:
        return


def _remembered_trees(context: Context, bad: set[bytes], places: Places) -> Iterator[Copy]:
    """Trees that the last snapshots of folders on this machine remember."""
    from clew.service.workspaces.remembered import Remembered
    from clew.service.workspaces.snapshot import remembered_path

    folders = {
        place.folder for digest in bad for place in places.get(digest, ())
        if place.folder and place.machine in ("", context.machine)
    }  # fmt: skip
    for folder in sorted(folders):
        for marks in ((False, False), (False, True), (True, False), (True, True)):
            remembered = Remembered(remembered_path(context, os.fsencode(folder), *marks))
            try:
                for record in remembered.all_folders():
                    if record.tree in bad:
                        tree = encode_tree([*record.entries, *record.folders])
                        yield record.tree, f"what the last snapshot of {folder} remembers", tree
            finally:
                remembered.close()


# Servers --------------------------------------------------------------------------------------------------------------


def _on_servers(context: Context, bad: set[bytes], places: Places) -> Iterator[Copy]:
    from clew.service.replication import remotes

    for setting in remotes.all_of(Path(context.home)):
        if not bad:
            return
        with suppress(ClewError), closing(remotes.open_server(context, setting)) as server:
            for digest in sorted(bad):
                for session in dict.fromkeys(place.session for place in places.get(digest, ())[:TRIED]):
                    data = _from_server(server, session, digest)
                    if data is not None:
                        yield digest, f"the server {setting.name}", data
                        break


def _from_server(server: "Server", session: str, digest: bytes) -> bytes | None:
    """The bytes of an object there; None when this server has not got them as they were."""
    import msgspec

    from clew.service.replication.pull import unpacked_piece
    from clew.service.replication.trees import decompressed
    from clew.service.replication.values import Wanted

    name = digest.hex()
    with suppress(ClewError, ValueError, msgspec.DecodeError):
        answer = server.call("sync_read", session=session, wanted=[Wanted(digest=name)])
        for found, data in msgspec.msgpack.decode(
            decompressed(bytes.fromhex(answer.packed)), type=list[tuple[bytes, bytes]]
        ):
            if found == digest:
                return data
    with suppress(ClewError):
        pieces, start = list[bytes](), 0
        while True:
            piece = server.call("blob", session=session, digest=name, start=start)
            pieces.append(unpacked_piece(piece))
            if piece.next is None or piece.next <= start:
                return b"".join(pieces)
            start = piece.next
    return None
