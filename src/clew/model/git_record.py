"""What git knows of a folder besides its files: the commit, the branch, and what its index has other than that commit.

    record = b"clew git 1\\n", a MessagePack list of the fields of `GitRecord`

The record names the objects of the staged files, so they can be staged again where git does not have them. Whoever may
append can write a record, so decoding refuses every path that could lead out of the folder, or into the files of git.
"""

import re

import msgspec

from clew.model.errors import Damaged
from clew.model.file_tree import shown

GIT_RECORD = b"clew git 1\n"
MODES = (0o100644, 0o100755, 0o120000, 0o160000)
LINKED_REPOSITORY = 0o160000
MOST_STAGED = 200_000
_OBJECT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_NO_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(/|$)|(^|/)\.|^-|[./]$|^/|^@$")


class Staged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A path whose entry in the index is other than in the commit; without an `object` it is removed from the index."""

    path: bytes
    mode: int = 0
    object: str = ""
    """Its name in git."""
    digest: bytes = b""
    """Its bytes as an object of clew; empty for a submodule, and where they were left out."""


class GitRecord(msgspec.Struct, frozen=True, array_like=True):
    """How a folder stands in git."""

    commit: str = ""
    branch: str = ""
    below: bytes = b""
    """The path of the folder below the topmost one of the repository; empty if it is that one."""
    under_way: str = ""
    """A merge, rebase or the like that had begun; its index is not recorded."""
    staged: list[Staged] = []
    to_add: list[bytes] = []
    """Paths that are to be added (git add --intent-to-add)."""
    assumed: list[bytes] = []
    """Paths that git assumes to be unchanged."""
    absent: list[bytes] = []
    """Paths that are not in the folder by intent (sparse checkout)."""


_decode = msgspec.msgpack.Decoder(GitRecord).decode


def encode_git_record(record: GitRecord) -> bytes:
    return GIT_RECORD + msgspec.msgpack.encode(record)


def decode_git_record(data: bytes) -> GitRecord:
    """The record; `Damaged` for one that must not be used."""
    if not data.startswith(GIT_RECORD):
        raise Damaged("this object is no record of git; the index cannot be restored")
    try:
        record = _decode(memoryview(data)[len(GIT_RECORD) :])
    except msgspec.DecodeError as error:
        raise Damaged(f"this record of git cannot be read ({error}); the index cannot be restored") from error
    paths = [*(staged.path for staged in record.staged), *record.to_add, *record.assumed, *record.absent]
    for path in [*paths, *([record.below] if record.below else [])]:
        if not is_tracked_path(path):
            raise Damaged(f"a record of git has a path {shown(path)[:80]!r} that is no path in a repository")
    _refuse_unknown(record.staged)
    if (record.commit and not is_object(record.commit)) or (record.branch and not is_branch(record.branch)):
        raise Damaged("a record of git has a commit or a branch that git does not take")
    return record


def _refuse_unknown(entries: list[Staged]) -> None:
    for staged in entries:
        is_removed = not staged.object and not staged.mode
        if not is_removed and (staged.mode not in MODES or not is_object(staged.object)):
            raise Damaged(f"a record of git has an entry {shown(staged.path)[:80]!r} of an unknown kind")
        if staged.digest and len(staged.digest) != 32:
            raise Damaged(f"a record of git has an entry {shown(staged.path)[:80]!r} without an object")


def is_object(text: str) -> bool:
    """Whether it is the whole name of an object of git."""
    return bool(_OBJECT.fullmatch(text))


def is_branch(name: str) -> bool:
    """Whether git takes it as the name of a branch."""
    return bool(name) and len(name) <= 200 and not _NO_BRANCH.search(name)


def is_tracked_path(path: bytes) -> bool:
    """Whether git could track a file at this path."""
    parts = path.split(b"/")
    return b"\0" not in path and not any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts)
