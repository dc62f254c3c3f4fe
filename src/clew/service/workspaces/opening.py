"""Files of a session as streams: one file as it is, or a folder as a tar archive. Neither is ever in memory as a whole.

Where secrets are masked, they are masked in each file, and a binary file that holds one is a note that says so.
"""

import os
from collections.abc import Iterable, Iterator
from tarfile import BLOCKSIZE, DIRTYPE, GNU_FORMAT, REGTYPE, SYMTYPE, TarInfo
from typing import TYPE_CHECKING, Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import Conflict, Damaged, InvalidInput, TooLarge
from clew.model.file_tree import FILE, FOLDER, LARGE, LINK, MOST_ENTRIES, Entry, decode_pieces, refuse_depth, shown
from clew.model.session import Session
from clew.model.steps import end_step
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.sessions.objects import ObjectInfo, OpenedObject, masked_for
from clew.service.workspaces.looking import SHOWN_BYTES
from clew.service.workspaces.points import At, entries_of, find, point_at
from clew.service.workspaces.snapshot import WORKSPACE
from clew.store.objects import objects
from clew.store.objects.together import load_many

if TYPE_CHECKING:
    from clew.secrets.masking import Masker

# Small pieces are sent together.
GATHERED_BYTES = 256 * 1024


class OpenedTar(msgspec.Struct, frozen=True, kw_only=True):
    """A tar archive that is being made: what to call it, and its bytes piece by piece."""

    name: str
    seq: int
    pieces: Iterator[bytes]


@operation(right=Right.READ, hidden=True, group=WORKSPACE)
def workspace_open(
    context: Context,
    session: Session,
    path: Annotated[str, msgspec.Meta(description="The file, below the folder of the snapshot.")],
    *,
    at: At | None = None,
) -> OpenedObject:
    """Read a file of a session, as it was at an event, as a stream of any size."""
    point = point_at(context, session, at)
    entry = find(context.store, point.tree, path)
    if entry.kind not in (FILE, LARGE):
        what = "a folder" if entry.kind == FOLDER else f"a link to {shown(entry.target)}"
        raise InvalidInput(f"{path!r} is {what}; name a file", path=path)
    info = ObjectInfo(digest=entry.digest.hex(), size=entry.size, name=shown(entry.name), media_type="", seq=point.seq)
    return masked_for(context, info, _pieces(context, entry))


@operation(right=Right.READ, hidden=True, group=WORKSPACE)
def workspace_tar(
    context: Context,
    session: Session,
    path: Annotated[str, msgspec.Meta(description="Only this file or folder.")] = "",
    *,
    at: At | None = None,
) -> OpenedTar:
    """Read the files of a session, as they were at an event, as a tar archive."""
    point = point_at(context, session, at)
    entry = find(context.store, point.tree, path)
    name = f"{session.id[:10]}-{point.seq}"
    mask = None
    if context.masks_answers:
        from clew.service.privacy.masking import masker_of

        mask = masker_of(context)
    made = _Tar(context, mask, mtime=point.event.at // 1_000_000)
    return OpenedTar(name=f"{name}.tar", seq=point.seq, pieces=_gathered(made.pieces(name.encode(), entry)))


def _pieces(context: Context, entry: Entry) -> Iterator[bytes]:
    """The bytes of a file."""
    if entry.kind == FILE:
        yield from objects.pieces(context.store, entry.digest.hex())
        return
    for digest, _ in decode_pieces(objects.load(context.store, entry.digest.hex())):
        end_step()
        yield objects.load(context.store, digest.hex())


class _Tar:
    """Makes an archive: a header for each entry, and the bytes of files in whole blocks."""

    def __init__(self, context: Context, mask: "Masker | None", *, mtime: int) -> None:
        self._context, self._mask, self._mtime = context, mask, mtime
        self._count = 0

    def pieces(self, name: bytes, entry: Entry) -> Iterator[bytes]:
        if entry.kind == FOLDER:
            yield self._header(name, entry, 0)
            yield from self._folder(name, entry.digest)
        else:
            yield self._header(name, Entry(name, FOLDER, 0o755), 0)
            yield from self._entry(name + b"/" + entry.name, entry)
        # An archive ends with two empty blocks.
        yield bytes(2 * BLOCKSIZE)

    def _folder(self, path: bytes, tree: bytes) -> Iterator[bytes]:
        end_step()
        refuse_depth(path)
        entries = entries_of(self._context.store, tree)
        self._count += len(entries)
        if self._count > MOST_ENTRIES:
            raise TooLarge(f"more than {MOST_ENTRIES:,} files and folders", limit=MOST_ENTRIES)
        small: dict[bytes, list[Entry]] = {}
        for entry in entries:
            if entry.kind == FILE and entry.size <= SHOWN_BYTES:
                small.setdefault(entry.digest, []).append(entry)
            elif entry.kind != FOLDER:
                yield from self._entry(path + b"/" + entry.name, entry)
        if small:
            for digest, data in load_many(self._context.store, [*small]):
                end_step()
                data = self._without_secrets(data)
                for entry in small[digest]:
                    yield from self._file(path + b"/" + entry.name, entry, len(data), [data])
        for entry in entries:
            if entry.kind == FOLDER:
                below = path + b"/" + entry.name
                yield self._header(below, entry, 0)
                yield from self._folder(below, entry.digest)

    def _entry(self, path: bytes, entry: Entry) -> Iterator[bytes]:
        """A link, or a file that is read in pieces."""
        if entry.kind == LINK:
            yield self._header(path, entry, 0)
            return
        size, pieces = entry.size, _pieces(self._context, entry)
        if self._mask is not None:
            size, pieces = self._measured(entry)
        yield from self._file(path, entry, size, pieces)

    def _measured(self, entry: Entry) -> tuple[int, Iterator[bytes]]:
        """A file without its secrets, after its size, for which it is read once more; a note in place of a refusal."""
        info = ObjectInfo(digest=entry.digest.hex(), size=entry.size, name=shown(entry.name), media_type="", seq=0)
        try:
            size = sum(map(len, masked_for(self._context, info, _pieces(self._context, entry)).pieces))
        except Conflict as refusal:
            note = f"[{refusal}]\n".encode()
            return len(note), iter([note])
        return size, masked_for(self._context, info, _pieces(self._context, entry)).pieces

    def _without_secrets(self, data: bytes) -> bytes:
        if self._mask is None:
            return data
        from clew.secrets.blobs import without_secrets

        return without_secrets(self._mask, data)[0]

    def _file(self, path: bytes, entry: Entry, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        yield self._header(path, entry, size)
        left = size
        for piece in pieces:
            left -= len(piece)
            yield piece
        if left:
            raise Damaged(
                f"{shown(path)} does not have the {size:,} bytes that its snapshot says; nothing after it is read"
            )
        yield bytes(-size % BLOCKSIZE)

    def _header(self, path: bytes, entry: Entry, size: int) -> bytes:
        target = entry.target
        if self._mask is not None:
            path, target = self._mask.mask(path)[0], self._mask.mask(target)[0]
        about = TarInfo(os.fsdecode(path))
        about.type = {FOLDER: DIRTYPE, LINK: SYMTYPE}.get(entry.kind, REGTYPE)
        about.mode = 0o777 if entry.kind == LINK else entry.mode
        about.size, about.mtime, about.linkname = size, self._mtime, os.fsdecode(target)
        return about.tobuf(GNU_FORMAT, "utf-8", "surrogateescape")


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= GATHERED_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)
