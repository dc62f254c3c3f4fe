"""The index of git: what a snapshot records of it, and how it is made again.

Only what is other than in the commit is recorded. The bytes of staged files are objects of clew, too, so that they can
be staged again in another clone.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from clew.model.errors import ClewError, NotFound
from clew.model.file_tree import shown
from clew.model.git_record import (
    LINKED_REPOSITORY,
    MOST_STAGED,
    GitRecord,
    Staged,
    decode_git_record,
    encode_git_record,
)
from clew.model.session import Session
from clew.service.handover.program_files import replace
from clew.service.kernel.context import Context
from clew.service.privacy.mask_on_write import masks_secrets
from clew.service.workspaces.git import Git
from clew.service.workspaces.git_state import GitState, Repository, git_state, repository_of, under_way
from clew.service.workspaces.ignoring import is_secret
from clew.store import Store
from clew.store.objects import objects

# The bytes of a larger staged file stay in git alone.
LARGEST_STAGED = 32 * 1024 * 1024
MOST_STAGED_BYTES = 256 * 1024 * 1024
CHANGES = ("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z")
ADDED, CONFLICTED = "A", "U"
# The names of an empty file in git.
EMPTY_FILES = frozenset((
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
))  # fmt: skip
# What is remembered in another form is not used.
FORM = 1


class Recorded(NamedTuple):
    """How a folder stands in git: its state, the object with the rest, and why the index is not in it."""

    state: GitState
    record: str = ""
    why: str = ""


def record_git(context: Context, session: Session, root: bytes, memory: Path | None) -> Recorded:
    """Record how a folder stands in git. `memory` is a file that remembers it while the index is the same."""
    repository, state = repository_of(root), git_state(root)
    if repository is None:
        return Recorded(state)
    masks = masks_secrets(context, session.project)
    key = _key(repository, state, masks)
    known = _remembered(memory, key)
    if known is not None and (not known or _is_kept(context.store, known)):
        return Recorded(state, known)
    try:
        record = _read(context, repository, root, state, masks=masks)
    except ClewError as error:
        return Recorded(state, why=f"what is staged is not recorded: {error}")
    name = ""
    if record != GitRecord(state.commit, state.branch):
        names = [staged.digest.hex() for staged in record.staged if staged.digest]
        name = objects.put(context.store, [encode_git_record(record)], names=sorted({*names}))
    _remember(memory, key, name)
    return Recorded(state, name)


def git_record_of(store: Store, name: str, commit: str, branch: str) -> GitRecord:
    """The record of a snapshot; where there is no object, nothing was staged."""
    return decode_git_record(objects.load(store, name)) if name else GitRecord(commit, branch)


# Reading --------------------------------------------------------------------------------------------------------------


def _read(context: Context, repository: Repository, root: bytes, state: GitState, *, masks: bool) -> GitRecord:
    record = GitRecord(state.commit, state.branch)
    if root != repository.top:
        return msgspec.structs.replace(record, below=root[len(repository.top.rstrip(b"/")) + 1 :])
    if begun := under_way(repository):
        return msgspec.structs.replace(record, under_way=begun)
    git = Git(root)
    commit = state.commit or git.text("hash-object", "-t", "tree", "--stdin")
    changes = list(_changes(git(*CHANGES, commit)))
    if any(letter == CONFLICTED for letter, _ in changes):
        return msgspec.structs.replace(record, under_way="a merge with conflicts")
    assumed, absent = _flagged(git("ls-files", "-v", "-z"))
    to_add = _to_add(git, changes, commit)
    staged = [staged for _, staged in changes if staged.path not in to_add]
    if len(staged) > MOST_STAGED or len(absent) > MOST_STAGED:
        raise NotFound(f"the index has more than {MOST_STAGED:,} entries that are others than in the commit")
    digests = _kept_bytes(context, git, staged, masks=masks)
    staged = [msgspec.structs.replace(entry, digest=digests.get(entry.object, b"")) for entry in staged]
    return msgspec.structs.replace(record, staged=staged, to_add=sorted(to_add), assumed=assumed, absent=absent)


def _changes(raw: bytes) -> Iterator[tuple[str, Staged]]:
    """What `diff-index --raw -z` says: the letter of the change, and the entry of the index."""
    words = raw.split(b"\0")[:-1]
    for header, path in zip(words[::2], words[1::2], strict=True):
        _, mode, _, name, letter = header.decode().split(" ")
        is_removed = letter == "D"
        yield letter, Staged(path, 0 if is_removed else int(mode, 8), "" if is_removed else name)


def _flagged(listing: bytes) -> tuple[list[bytes], list[bytes]]:
    """The paths of `ls-files -v` that are assumed to be unchanged, and those that are absent by intent."""
    words = [word for word in listing.split(b"\0") if word and not word.startswith(b"H ")]
    assumed = [word[2:] for word in words if word[:1].islower()]
    return assumed, [word[2:] for word in words if word[:1].upper() == b"S"]


def _to_add(git: Git, changes: list[tuple[str, Staged]], commit: str) -> set[bytes]:
    """The paths that are only to be added: to git they are empty files, unless it is told to leave them out."""
    if not any(letter == ADDED and staged.object in EMPTY_FILES for letter, staged in changes):
        return set()
    without = _changes(git(*CHANGES, "--ita-invisible-in-index", commit))
    return {staged.path for _, staged in changes} - {staged.path for _, staged in without}


def _kept_bytes(context: Context, git: Git, staged: Iterable[Staged], *, masks: bool) -> dict[str, bytes]:
    """The bytes of staged files as objects of clew, by their names in git; not those of secrets, or of large files."""
    names = sorted({
        entry.object
        for entry in staged
        if entry.object and entry.mode != LINKED_REPOSITORY and not any(map(is_secret, entry.path.split(b"/")))
    })  # fmt: skip
    if not names:
        return {}
    small, left = list[str](), MOST_STAGED_BYTES
    for line in git("cat-file", "--batch-check", input=_lines(names)).decode().splitlines():
        name, _, size = line.partition(" blob ")
        if size.isdecimal() and int(size) <= min(LARGEST_STAGED, left):
            small.append(name)
            left -= int(size)
    holds_secret = None
    if masks:
        from clew.service.privacy.masking import masker_of

        holds_secret = masker_of(context).mask
    kept = {name: data for name, data in blobs(git, small).items() if holds_secret is None or not holds_secret(data)[1]}
    stored = objects.put_many(context.store, kept.values())
    return {name: bytes.fromhex(digest) for name, digest in zip(kept, stored, strict=True)}


def blobs(git: Git, names: Iterable[str]) -> dict[str, bytes]:
    """The bytes of files that git has, by their names; those that it does not have are left out."""
    output = git("cat-file", "--batch", input=_lines(names)) if names else b""
    found, at = dict[str, bytes](), 0
    while at < len(output):
        end = output.index(b"\n", at)
        words = output[at:end].decode().split(" ")
        at = end + 1
        if len(words) == 3:
            size = int(words[2])
            if words[1] == "blob":
                found[words[0]] = output[at : at + size]
            at += size + 1
    return found


def _lines(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()


# Writing --------------------------------------------------------------------------------------------------------------


def stage(store: Store, git: Git, record: GitRecord) -> None:
    """Make the index as it was. The files need not be there yet; what is only to be added comes after them."""
    git("read-tree", record.commit or "--empty")
    names = _names_in_git(store, git, record.staged)
    lines = []
    for entry in record.staged:
        name = names.get(entry.object, entry.object)
        mode, name = (f"{entry.mode:06o}", name) if name else ("0", "0" * max(40, len(record.commit)))
        lines.append(f"{mode} {name}\t".encode() + entry.path + b"\0")
    if lines:
        git("update-index", "-z", "--index-info", input=b"".join(lines))
    for flag, paths in (("--assume-unchanged", record.assumed), ("--skip-worktree", record.absent)):
        if paths:
            git("update-index", flag, "-z", "--stdin", input=b"\0".join(paths) + b"\0")


def add_intended(git: Git, record: GitRecord) -> None:
    """Mark the paths that are to be added; their files have to be there."""
    there = [path for path in record.to_add if os.path.lexists(os.path.join(git.folder, path))]
    if there:
        git(
            "add",
            "--intent-to-add",
            "--force",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
            input=b"\0".join(there),
        )


def _names_in_git(store: Store, git: Git, staged: Iterable[Staged]) -> dict[str, str]:
    """The names of staged files in this repository. What git does not have is written from the objects of clew."""
    wanted = {entry.object: entry for entry in staged if entry.object and entry.mode != LINKED_REPOSITORY}
    if not wanted:
        return {}
    checked = git("cat-file", "--batch-check", input=_lines(wanted)).decode().splitlines()
    missing = [name for name, line in zip(wanted, checked, strict=True) if not line.startswith(f"{name} blob ")]
    for name in missing:
        if not wanted[name].digest:
            raise NotFound(
                f"the staged content of {shown(wanted[name].path)} is neither in the repository nor in the snapshot, "
                "which leaves out secrets and large files",
                path=shown(wanted[name].path),
            )
    if not missing:
        return {}
    with TemporaryDirectory(prefix="clew-staged-") as folder:
        for number, name in enumerate(missing):
            Path(folder, str(number)).write_bytes(objects.load(store, wanted[name].digest.hex()))
        paths = "".join(f"{folder}/{number}\n" for number in range(len(missing)))
        written = git("hash-object", "-w", "--no-filters", "--stdin-paths", input=os.fsencode(paths)).decode().split()
    return dict(zip(missing, written, strict=True))


# What is remembered ---------------------------------------------------------------------------------------------------


def _key(repository: Repository, state: GitState, masks: bool) -> str:
    """What changes whenever the record may."""
    index = None
    with suppress(OSError):  # Nothing was ever added.
        index = os.stat(os.path.join(repository.own, b"index"))
    seen = (index.st_size, index.st_mtime_ns, index.st_ctime_ns, index.st_ino) if index else ()
    return repr((FORM, repository.own, state, under_way(repository), seen, masks))


def _remembered(memory: Path | None, key: str) -> str | None:
    if memory is None:
        return None
    with suppress(OSError, UnicodeDecodeError):  # There is none, or it cannot be read.
        before, _, name = memory.read_text().rpartition("\n")
        return name if before == key else None
    return None


def _remember(memory: Path | None, key: str, name: str) -> None:
    if memory is None:
        return
    with suppress(OSError):  # Then git is asked again.
        memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(memory, f"{key}\n{name}".encode())


def _is_kept(store: Store, name: str) -> bool:
    try:
        return objects.stat(store, name).refs > 0
    except NotFound:
        return False
