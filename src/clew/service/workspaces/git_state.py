"""Where a folder stands in git, read from git's files: running git there would run what its configuration names."""

import os
from contextlib import suppress
from typing import NamedTuple

LONGEST = 64 * 1024 * 1024


class GitState(NamedTuple):
    """The commit and the branch that a folder is on; empty outside of git."""

    commit: str = ""
    branch: str = ""


def git_state(folder: bytes) -> GitState:
    """The commit and the branch that a folder is on."""
    git = _git_folder(folder)
    head = _read(os.path.join(git, b"HEAD")) if git else ""
    if not head.startswith("ref: "):
        return GitState(commit=head if _is_commit(head) else "")
    reference = head.removeprefix("ref: ")
    shared = os.path.join(git, os.fsencode(_read(os.path.join(git, b"commondir")) or "."))
    for place in (git, shared):
        commit = _read(os.path.join(place, os.fsencode(reference))) if ".." not in reference else ""
        if _is_commit(commit):
            return GitState(commit, reference.removeprefix("refs/heads/"))
    for line in _read(os.path.join(shared, b"packed-refs")).splitlines():
        commit, _, name = line.partition(" ")
        if name == reference and _is_commit(commit):
            return GitState(commit, reference.removeprefix("refs/heads/"))
    return GitState(branch=reference.removeprefix("refs/heads/"))


def _git_folder(folder: bytes) -> bytes:
    """The folder of git for a folder or one above it; a worktree has a file that names it."""
    folder = os.path.realpath(folder)
    while True:
        git = os.path.join(folder, b".git")
        if os.path.isdir(git):
            return git
        pointer = _read(git)
        if pointer.startswith("gitdir: "):
            return os.path.join(folder, os.fsencode(pointer.removeprefix("gitdir: ")))
        parent = os.path.dirname(folder)
        if parent == folder:
            return b""
        folder = parent


def _read(path: bytes) -> str:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            return file.read(LONGEST).decode("utf-8", "replace").strip()
    return ""


def _is_commit(text: str) -> bool:
    return len(text) in (40, 64) and set(text) <= set("0123456789abcdef")
