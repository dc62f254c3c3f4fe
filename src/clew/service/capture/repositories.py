"""Find the repository that a folder is in, without running git: only small files are read, and none that they include.

A worktree belongs to its main repository, a submodule is a repository of its own. A repository in a person's home
folder, as people have for their settings, does not cover the folders below.
"""

import os
import re
import stat

import msgspec
from blake3 import blake3

from clew.model.repository import address_of, path_in, remote_in

# A configuration is read up to this size, a file that only points somewhere up to that of a path.
LONGEST_CONFIGURATION = 256 * 1024
LONGEST_POINTER = 8 * 1024
LONGEST_PATH = 4096
# A clone of a folder that is a clone of a folder ...
LONGEST_CHAIN = 4


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """A repository on this machine: the folder that identifies it here, and the address of its remote, if it has one.

    `mark` is a hash of how its history began, which stays when it is moved.
    """

    root: str
    address: str = ""
    mark: str = ""


def real_folder(path: str) -> str:
    """A folder's path without symbolic links; empty if there is no such folder."""
    if not path.startswith("/") or len(path) > LONGEST_PATH or "\0" in path:
        return ""
    try:
        real = os.path.realpath(path, strict=True)
        return real if os.path.isdir(real) else ""
    except (OSError, ValueError):
        return ""


def repository_of(folder: str, *, chain: int = LONGEST_CHAIN) -> Repository | None:
    """The repository that an existing folder, given without symbolic links, is in."""
    for root in _upwards(folder):
        if git_folder := _git_folder(root):
            found = _repository(root, git_folder, chain)
            is_covered = root == folder or root not in ("/", real_folder(os.path.expanduser("~")))
            return found if is_covered else None
    return None


def _upwards(folder: str) -> list[str]:
    folders = [folder]
    while (above := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(above)
    return folders


def _git_folder(root: str) -> str:
    """The folder with a repository's own data: `.git`, what a file `.git` names, or the folder itself if it is bare."""
    git = os.path.join(root, ".git")
    try:
        is_folder = stat.S_ISDIR(os.stat(git).st_mode)
    except (OSError, ValueError):
        return root if _is_git_folder(root) and os.path.isdir(os.path.join(root, "objects")) else ""
    if is_folder:
        return git if _is_git_folder(git) else ""
    pointer = read_small(git, LONGEST_POINTER)
    named = pointer.removeprefix("gitdir:").strip() if pointer.startswith("gitdir:") else ""
    return os.path.realpath(os.path.join(root, named)) if named and "\0" not in named else ""


def _is_git_folder(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, "HEAD"))


def _repository(root: str, git_folder: str, chain: int) -> Repository:
    shared = _shared_folder(git_folder)
    configuration = read_small(os.path.join(shared, "config"), LONGEST_CONFIGURATION)
    main = root if shared == git_folder and os.path.basename(shared) != ".git" else _main_folder(shared, configuration)
    beginning = read_small(os.path.join(shared, "logs", "HEAD"), LONGEST_POINTER).partition("\n")[0]
    mark = blake3(beginning.encode("utf-8", "surrogateescape")).hexdigest()[:32] if beginning else ""
    url = remote_in(configuration)
    address = address_of(url)
    if not address and (path := path_in(url)):
        return _cloned_from(os.path.join(main, path), chain)
    return Repository(root=main, address=address, mark=mark)


def _shared_folder(git_folder: str) -> str:
    """The folder that all worktrees of a repository share."""
    if common := read_small(os.path.join(git_folder, "commondir"), LONGEST_POINTER).strip():
        return os.path.realpath(os.path.join(git_folder, common)) if "\0" not in common else git_folder
    above = os.path.dirname(git_folder)
    # The main repository of this worktree is gone, or somewhere else now; its path is still known.
    return os.path.dirname(above) if os.path.basename(above) == "worktrees" else git_folder


def _main_folder(shared: str, configuration: str) -> str:
    """The folder of the main repository, by the folder with its data."""
    above = os.path.dirname(shared)
    if os.path.basename(shared) == ".git" or _git_folder_named_in(above) == shared:
        return above
    worktree = re.search(r"^\s*worktree\s*=\s*(\S.*?)\s*$", configuration, re.MULTILINE)
    return real_folder(os.path.join(shared, worktree[1])) or shared if worktree and "\0" not in worktree[1] else shared


def _git_folder_named_in(folder: str) -> str:
    return _git_folder(folder) if os.path.isfile(os.path.join(folder, ".git")) else ""


def _cloned_from(path: str, chain: int) -> Repository:
    """The repository of a remote that is a path on this machine: a clone of it is the same repository."""
    path = os.path.normpath(path)
    real = real_folder(path) or real_folder(f"{path}.git")
    found = repository_of(real, chain=chain - 1) if real and chain > 0 else None
    return found if found is not None else Repository(root=real or path)


def read_small(path: str, limit: int) -> str:
    """The beginning of a regular file as text; empty for anything else, because reading a pipe could block for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, limit).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
