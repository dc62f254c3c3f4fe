"""Repositories for tests, made of the few files that are read of one, as git writes them."""

import hashlib
from pathlib import Path


def repository(root: Path, *, remote: str = "", name: str = "origin") -> Path:
    """A repository with one commit, and with a remote if one is given."""
    _git_folder(root / ".git", str(root), remote, name)
    return root


def bare(root: Path, *, remote: str = "") -> Path:
    _git_folder(root, str(root), remote, "origin", bare=True)
    return root


def worktree(main: Path, root: Path, *, git: str = ".git") -> Path:
    """A worktree of a repository."""
    root.mkdir(parents=True, exist_ok=True)
    worktrees = main / git / "worktrees"
    worktrees.mkdir(exist_ok=True)
    own = worktrees / f"{root.name}{len(list(worktrees.iterdir())) or ''}"
    own.mkdir()
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{root}/.git\n")
    (own / "HEAD").write_text("ref: refs/heads/side\n")
    (root / ".git").write_text(f"gitdir: {own}\n")
    return root


def submodule(main: Path, name: str, *, remote: str = "") -> Path:
    """A submodule of a repository; it has its data in the one of that."""
    root = main / name
    root.mkdir(parents=True)
    own = main / ".git" / "modules" / name
    _git_folder(own, f"{main}/{name}", remote, "origin", worktree=f"../../../{name}")
    (root / ".git").write_text(f"gitdir: ../.git/modules/{name}\n")
    return root


def _git_folder(
    folder: Path, seed: str, remote: str, name: str, *, bare: bool = False, worktree: str = ""
) -> None:  # fmt: skip
    (folder / "objects").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "logs").mkdir()
    first = hashlib.sha1(seed.encode(), usedforsecurity=False).hexdigest()
    (folder / "logs" / "HEAD").write_text(
        f"{'0' * 40} {first} Ada <ada@example.org> 1790000000 +0000\tcommit (initial)\n"
    )
    lines = ["[core]", "\trepositoryformatversion = 0", f"\tbare = {str(bare).lower()}"]
    lines += [f"\tworktree = {worktree}"] if worktree else []
    if remote:
        lines += [f'[remote "{name}"]', f"\turl = {remote}", "\tfetch = +refs/heads/*:refs/remotes/origin/*"]
    (folder / "config").write_text("\n".join(lines) + "\n")
