"""Where a folder stands in git, read from git's files: running git there would run what its configuration names."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from clew.model.git_record import is_object

LONGEST = 64 * 1024 * 1024
# The end of a log of HEAD that is read; an older commit was recorded before.
LOG_BYTES = 256 * 1024
UNDER_WAY = {
    b"MERGE_HEAD": "a merge",
    b"rebase-merge": "a rebase",
    b"rebase-apply": "a rebase",
    b"CHERRY_PICK_HEAD": "a cherry-pick",
    b"REVERT_HEAD": "a revert",
    b"BISECT_LOG": "a bisect",
}
# What the log of HEAD says of a step that made a commit; a checkout, a reset and a fast-forward make none.
_MAKES = re.compile(
    r"(commit|cherry-pick|revert|am)\b|rebase.*\((pick|reword|squash|fixup|edit|continue)\)|.*: Merge made"
)
_STEP = re.compile(r"[0-9a-f]+ ([0-9a-f]+) .*> (\d+) [+-]\d+\t(.*)")


class GitState(NamedTuple):
    """The commit and the branch that a folder is on; empty outside of git."""

    commit: str = ""
    branch: str = ""


class Repository(NamedTuple):
    """Where git keeps what it knows of a folder."""

    top: bytes
    """The topmost folder of the files."""
    own: bytes
    """The folder with HEAD and the index; each worktree has its own."""
    shared: bytes
    """The folder with the objects and the branches."""


def repository_of(folder: bytes) -> Repository | None:
    """The repository that a folder is in."""
    folder = os.path.realpath(folder)
    while True:
        git = os.path.join(folder, b".git")
        pointer = "" if os.path.isdir(git) else _read(git)
        if pointer.startswith("gitdir: "):
            git = os.path.realpath(os.path.join(folder, os.fsencode(pointer.removeprefix("gitdir: "))))
        if os.path.lexists(os.path.join(git, b"HEAD")):
            shared = os.path.join(git, os.fsencode(_read(os.path.join(git, b"commondir")) or "."))
            return Repository(folder, git, os.path.realpath(shared))
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def is_bare(folder: bytes) -> bool:
    """Whether the folder itself is a repository without files."""
    return all(os.path.lexists(os.path.join(folder, name)) for name in (b"HEAD", b"objects", b"refs"))


def is_submodule(repository: Repository) -> bool:
    """Whether the repository is that of a submodule, which git keeps in the repository around it."""
    return b"/.git/modules/" in repository.own and not os.path.isdir(os.path.join(repository.top, b".git"))


def under_way(repository: Repository) -> str:
    """A merge, a rebase or the like that has begun and not ended; empty if there is none."""
    return next((name for file, name in UNDER_WAY.items() if os.path.lexists(os.path.join(repository.own, file))), "")


def git_state(folder: bytes) -> GitState:
    """The commit and the branch that a folder is on."""
    repository = repository_of(folder)
    head = _read(os.path.join(repository.own, b"HEAD")) if repository else ""
    if repository is None or not head.startswith("ref: "):
        return GitState(commit=head if is_object(head) else "")
    reference = head.removeprefix("ref: ")
    for place in (repository.own, repository.shared):
        commit = _read(os.path.join(place, os.fsencode(reference))) if ".." not in reference else ""
        if is_object(commit):
            return GitState(commit, reference.removeprefix("refs/heads/"))
    for line in _read(os.path.join(repository.shared, b"packed-refs")).splitlines():
        commit, _, name = line.partition(" ")
        if name == reference and is_object(commit):
            return GitState(commit, reference.removeprefix("refs/heads/"))
    return GitState(branch=reference.removeprefix("refs/heads/"))


def commits_made(folder: bytes, *, since: int) -> Iterator[str]:
    """The commits that were made in a folder since a time (in seconds), as the log of its HEAD says, oldest first."""
    repository = repository_of(folder)
    lines = _read(os.path.join(repository.own, b"logs", b"HEAD"), last=LOG_BYTES) if repository else ""
    for line in lines.splitlines():
        step = _STEP.fullmatch(line)
        if step and int(step[2]) >= since and is_object(step[1]) and _MAKES.match(step[3]):
            yield step[1]


def _read(path: bytes, *, last: int = 0) -> str:
    """The text of a file, or its last bytes."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if last:
                file.seek(max(0, os.fstat(descriptor).st_size - last))
            return file.read(LONGEST).decode("utf-8", "replace").strip()
    return ""
