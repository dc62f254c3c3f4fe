"""The files of a workspace as objects: a tree for each folder, named by its digest, so equal folders are one object.

    tree   = b"clew tree 1\\n", a MessagePack list of entries, sorted by name
    pieces = b"clew pieces 1\\n", a MessagePack list of the digest and the size of each piece of a large file

A tree names the objects of its entries, so the digest of the topmost one keeps all of them: it is the snapshot. Times
and owners are not part of it. Whoever may append can write a tree, so decoding refuses every name that could lead out
of the folder, or into the files of git.
"""

import msgspec

from clew.model.errors import Damaged

TREE = b"clew tree 1\n"
PIECES = b"clew pieces 1\n"
FILE, LARGE, LINK, FOLDER = "file", "large", "link", "folder"
LONGEST_NAME = 255
# A tree can name the same tree many times, so a small one can stand for more files than any disk takes.
DEEPEST = 200
MOST_ENTRIES = 4_000_000


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file, a link or a folder in a tree. `count` and `size` of a folder are those of all files below it."""

    name: bytes
    kind: str
    mode: int = 0
    size: int = 0
    digest: bytes = b""
    """The object of a file, the pieces of a large one, the tree of a folder; nothing for a link."""
    count: int = 1
    target: bytes = b""
    """Where a link points to. Nothing ever follows it."""


_encoder = msgspec.msgpack.Encoder()
_entries = msgspec.msgpack.Decoder(list[Entry])
_pieces = msgspec.msgpack.Decoder(list[tuple[bytes, int]])


def encode_tree(entries: list[Entry]) -> bytes:
    """The bytes of a tree, the same for the same files."""
    return TREE + _encoder.encode(sorted(entries, key=lambda entry: entry.name))


def decode_tree(data: bytes) -> list[Entry]:
    """The entries of a tree; `Damaged` for one that must not be restored."""
    if not data.startswith(TREE):
        raise Damaged("this object is not a tree of files; the snapshot cannot be used")
    try:
        entries = _entries.decode(memoryview(data)[len(TREE) :])
    except msgspec.DecodeError as error:
        raise Damaged(f"this tree of files cannot be read ({error}); the snapshot cannot be used") from error
    before = b""
    for entry in entries:
        if why := _wrong_with(entry, before):
            raise Damaged(f"a tree of files has an entry {shown(entry.name)[:80]!r} {why}; nothing of it is restored")
        before = entry.name
    return entries


def encode_pieces(pieces: list[tuple[bytes, int]]) -> bytes:
    """The bytes of the object that lists the pieces of a large file."""
    return PIECES + _encoder.encode(pieces)


def decode_pieces(data: bytes) -> list[tuple[bytes, int]]:
    """The digest and the size of each piece of a large file."""
    try:
        pieces = _pieces.decode(memoryview(data)[len(PIECES) :]) if data.startswith(PIECES) else None
    except msgspec.DecodeError:
        pieces = None
    if pieces is None or any(len(digest) != 32 or size < 0 for digest, size in pieces):
        raise Damaged("the pieces of a large file cannot be read; the snapshot cannot be used")
    return pieces


def refuse_depth(path: bytes) -> None:
    """Refuse a path that no snapshot of a folder has."""
    if path.count(b"/") > DEEPEST:
        raise Damaged(f"a tree of files is more than {DEEPEST} folders deep; nothing of it is restored")


def _wrong_with(entry: Entry, before: bytes) -> str:
    name = entry.name
    if not name or b"/" in name or b"\0" in name or name in (b".", b"..") or len(name) > LONGEST_NAME:
        return "that is no name of a file"
    if name.lower() == b".git":
        return "that belongs to git"
    if name <= before:
        return "that is not in order"
    if entry.kind not in (FILE, LARGE, LINK, FOLDER) or entry.mode & ~0o777 or entry.size < 0:
        return "of an unknown kind"
    if entry.kind == LINK:
        return "" if 0 < len(entry.target) < 4096 and b"\0" not in entry.target else "that points nowhere"
    return "" if len(entry.digest) == 32 else "without an object"


def shown(path: bytes) -> str:
    """A path as text; bytes that are not UTF-8 are written out, as in `caf\\xe9`."""
    return path.decode("utf-8", "backslashreplace")
