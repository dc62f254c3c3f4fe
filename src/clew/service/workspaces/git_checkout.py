"""Give a folder that is checked out what it had in git: a repository of its own, or a worktree of the one it is from.

A repository of its own shares no file that git changes: its objects, which git never changes, are hard links where the
file system takes them, and its branches are those of the snapshot and, below `origin`, those of the other repository.
A worktree belongs to the other repository, and moves no branch of it. Of both, the index is made as it was.
"""

import os
import re
import shutil
from typing import NamedTuple

from clew.model.errors import Conflict, InvalidInput, NotFound
from clew.model.file_tree import shown
from clew.model.git_record import GitRecord, is_branch
from clew.service.workspaces.git import Git
from clew.service.workspaces.git_index import stage
from clew.service.workspaces.git_state import Repository, is_bare, is_submodule, repository_of, under_way
from clew.store import Store

# What git never changes once it is there.
_LOOSE = re.compile(rb"[0-9a-f]{38}|[0-9a-f]{62}")
_PACKED = re.compile(rb"(pack|multi-pack-index)[-.0-9a-f]*\.?(pack|idx|rev|bitmap|mtimes|promisor)?")


class Made(NamedTuple):
    """What a folder is in git."""

    git: Git
    source: Repository
    branch: str
    """The branch that was made; empty where there is none."""
    is_worktree: bool


def source_of(folder: bytes, record: GitRecord) -> Repository:
    """The repository in a folder that has the commit; refused with the reason if it cannot be used."""
    if not os.path.isdir(folder):
        raise NotFound(f"the folder {shown(folder)} is gone; name a clone of its repository", path=shown(folder))
    repository = Repository(folder, folder, folder) if is_bare(folder) else repository_of(folder)
    if repository is None:
        raise InvalidInput(f"{shown(folder)} is in no repository of git", path=shown(folder))
    if is_submodule(repository):
        raise InvalidInput(f"{shown(repository.top)} is a submodule, which git gives no second folder")
    if record.below:
        raise InvalidInput(
            f"the snapshot is of the folder {shown(record.below)} of a repository and not of all of it; "
            f"take one of {shown(repository.top)}"
        )
    if record.under_way:
        raise Conflict(f"{record.under_way} was under way at the snapshot; finish it, and take another snapshot")
    git = Git(repository.top)
    if record.commit and not git.accepts("cat-file", "-e", f"{record.commit}^{{commit}}"):
        git("rev-parse", "--git-dir")  # A repository that git refuses has a better reason than a missing commit.
        is_shallow = os.path.exists(os.path.join(repository.shared, b"shallow"))
        why = "it is a shallow clone: git fetch --unshallow gets the rest" if is_shallow else "fetch it there"
        raise NotFound(
            f"the commit {record.commit[:12]} of the snapshot is not in {shown(repository.top)}; {why}",
            commit=record.commit,
        )
    return repository


def add_worktree(store: Store, source: Repository, root: bytes, record: GitRecord, branch: str) -> Made:
    """Make the folder a worktree at the commit: on no branch, or on a new one of this name."""
    if not record.commit:
        raise InvalidInput("there was no commit yet at the snapshot, and a worktree needs one")
    if branch and not is_branch(branch):
        raise InvalidInput(f"{branch!r} is no name of a branch", branch=branch)
    if begun := under_way(source):
        raise Conflict(f"{begun} is under way in {shown(source.top)}; finish or abort it first")
    git = Git(source.top)
    if branch and git.accepts("show-ref", "--verify", "--quiet", f"refs/heads/{branch}"):
        raise Conflict(f"the branch {branch} exists in {shown(source.top)}; name a new one", branch=branch)
    on = ["-b", branch] if branch else ["--detach"]
    git("worktree", "add", "--no-checkout", "--quiet", *on, root, record.commit)
    made = Made(Git(root), source, branch, is_worktree=True)
    try:
        stage(store, made.git, record)
    except BaseException:
        remove(made, record)
        raise
    return made


def own_repository(store: Store, source: Repository, root: bytes, record: GitRecord) -> Made:
    """Make the folder a repository of its own at the commit and on the branch."""
    folder, git = os.path.join(root, b".git"), Git(source.top)
    made = Made(Git(root), source, record.branch, is_worktree=False)
    form = git.text("rev-parse", "--show-object-format")
    references = git.text("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
    os.makedirs(root, exist_ok=True)
    try:
        made.git("init", "--quiet", "--template=", f"--object-format={form}", ".")
        _link_objects(os.path.join(source.shared, b"objects"), os.path.join(folder, b"objects"))
        _write(os.path.join(folder, b"packed-refs"), _packed(references, record))
        if os.path.isfile(os.path.join(source.shared, b"shallow")):
            shutil.copyfile(os.path.join(source.shared, b"shallow"), os.path.join(folder, b"shallow"))
        for name, value in (("url", source.top), ("fetch", b"+refs/heads/*:refs/remotes/origin/*")):
            made.git("config", "--local", f"remote.origin.{name}", value)
        if record.branch or not record.commit:
            made.git("symbolic-ref", "HEAD", f"refs/heads/{record.branch or 'main'}")
        else:
            _write(os.path.join(folder, b"HEAD"), f"{record.commit}\n".encode())
        stage(store, made.git, record)
    except BaseException:
        remove(made, record)
        raise
    return made


def remove(made: Made, record: GitRecord) -> None:
    """Take back what was made in git; a worktree goes with its files."""
    if not made.is_worktree:
        shutil.rmtree(os.path.join(made.git.folder, b".git"), ignore_errors=True)
        return
    git = Git(made.source.top)
    git("worktree", "remove", "--force", made.git.folder)
    if made.branch:
        git("update-ref", "-d", f"refs/heads/{made.branch}", record.commit)


def _packed(references: str, record: GitRecord) -> bytes:
    """The branches and tags of the other repository, as a clone has them, and the branch of the snapshot."""
    lines = {}
    for line in references.splitlines():
        name, _, reference = line.partition(" ")
        lines[re.sub("^refs/heads/", "refs/remotes/origin/", reference)] = name
    if record.branch and record.commit:
        lines[f"refs/heads/{record.branch}"] = record.commit
    return b"".join(os.fsencode(f"{name} {reference}\n") for reference, name in sorted(lines.items()))


def _link_objects(source: bytes, target: bytes) -> None:
    """Link the objects of a repository into another; nothing but plain files with the names of objects."""
    for name in os.listdir(source):
        if re.fullmatch(rb"[0-9a-f]{2}", name):
            _link_files(os.path.join(source, name), os.path.join(target, name), _LOOSE)
    _link_files(os.path.join(source, b"pack"), os.path.join(target, b"pack"), _PACKED)
    others = os.path.join(source, b"info", b"alternates")
    if os.path.isfile(others):
        with open(others, "rb") as file:
            paths = [os.path.join(source, line) for line in file.read().splitlines() if line and line[:1] != b"#"]
        _write(os.path.join(target, b"info", b"alternates"), b"".join(path + b"\n" for path in paths))


def _link_files(source: bytes, target: bytes, names: re.Pattern[bytes]) -> None:
    try:
        entries = [entry for entry in os.scandir(source) if names.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return
    os.makedirs(target, exist_ok=True)
    for entry in entries:
        if not entry.is_file(follow_symlinks=False):
            continue
        try:
            os.link(entry.path, os.path.join(target, entry.name), follow_symlinks=False)
        except OSError:  # Another file system, or one without links.
            shutil.copyfile(entry.path, os.path.join(target, entry.name), follow_symlinks=False)


def _write(path: bytes, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
