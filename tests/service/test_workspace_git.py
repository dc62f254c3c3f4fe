"""What git knows of a folder goes with its snapshots, and nothing of the user's own repository changes."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.client import OpenSession, Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import ClewError, Conflict, Damaged, InvalidInput, NotFound, Unavailable
from clew.model.git_record import GIT_RECORD, GitRecord, Staged, decode_git_record, encode_git_record
from clew.service import Context, call
from clew.store import Store

ME = "person:ada"
ENVIRONMENT = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip
STATUS = ("status", "--porcelain=v2", "--untracked-files=all", "--branch")


@pytest.fixture
def database() -> str:
    return "sqlite"


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    home = tmp_path / "home"
    return Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(home))


@pytest.fixture
def session(context: Context) -> OpenSession:
    return Plane(Local(context)).session("t", project="shop")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which everything that `git status` tells apart is there at once."""
    folder = tmp_path_factory.mktemp("made") / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for name in ("clean", "edited", "staged", "both", "deleted", "removed", "moved", "run", "assumed", ".env"):
        (folder / name).write_text(f"{name}\n")
    (folder / "gone").mkdir()
    (folder / "gone" / ".env").write_text("a secret\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "link").symlink_to("../clean")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", "--all")
    git(folder, "commit", "-qm", "first")
    git(folder, "branch", "other")
    for name in ("staged", "both"):
        (folder / name).write_text("to be committed\n")
    (folder / "run").chmod(0o755)
    git(folder, "add", "staged", "both", "run")
    git(folder, "rm", "-q", "removed")
    git(folder, "mv", "moved", "sub/moved")
    (folder / "both").write_text("and edited again\n")
    (folder / "edited").write_text("an edit\n")
    (folder / "deleted").unlink()
    (folder / "untracked").write_text("new\n")
    (folder / "intended").write_text("to be added\n")
    git(folder, "add", "-N", "intended")
    git(folder, "update-index", "--assume-unchanged", "assumed")
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'c' * 40},module")
    # A tracked secret below a folder that became a link to the outside.
    (folder / "gone" / ".env").unlink()
    (folder / "gone").rmdir()
    (folder / "gone").symlink_to("../outside")
    return folder


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "shop", symlinks=True))


def snapshot(context: Context, session: OpenSession, folder: Path) -> Any:
    return call(context, "workspace_snapshot", {"session": session.id, "folder": str(folder)})


def checkout(context: Context, session: OpenSession, folder: Path, **given: Any) -> Any:
    return call(context, "workspace_checkout", {"session": session.id, "folder": str(folder), **given})


def every_byte(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def statuses(folder: Path) -> list[str]:
    return [line for line in git(folder, *STATUS).splitlines() if not line.startswith("# branch.upstream")]


def test_a_checkout_has_the_same_status_and_the_repository_is_untouched(
    context: Context, session: OpenSession, shop: Path, tmp_path: Path
) -> None:
    (shop.parent / "outside").mkdir()
    before, status = every_byte(shop / ".git"), statuses(shop)
    assert len(status) == 2 + 12, "\n".join(status)
    taken = snapshot(context, session, shop)
    assert [skipped.path for skipped in taken.skipped] == [".env"]
    child = session.fork()
    out = checkout(context, child, tmp_path / "child")
    assert every_byte(shop / ".git") == before
    assert (out.repository, out.branch, out.notes) == (
        "own", "main", ["as in the index, because snapshots leave them out: .env"],
    )  # fmt: skip
    assert statuses(tmp_path / "child") == status
    assert git(tmp_path / "child", "diff", "--cached") == git(shop, "diff", "--cached")
    assert git(tmp_path / "child", "ls-files", "-v", "assumed") == "h assumed\n"
    git(tmp_path / "child", "fsck", "--strict")
    git(tmp_path / "child", "commit", "-qm", "of the child")
    assert "origin/other" in git(tmp_path / "child", "branch", "-r")
    assert [*(shop.parent / "outside").iterdir()] == []
    assert every_byte(shop / ".git") == before, "the child has branches and objects of its own"
    # What is unchanged is one event, and git is not asked again.
    assert snapshot(context, session, shop).seq == taken.seq


def test_a_worktree_is_at_the_commit_and_moves_no_branch(
    context: Context, session: OpenSession, shop: Path, tmp_path: Path
) -> None:
    status, references = statuses(shop), git(shop, "for-each-ref")
    before = every_byte(shop / ".git")
    seq = snapshot(context, session, shop).seq
    out = checkout(context, session, tmp_path / "tree", worktree=True)
    assert (out.repository, out.branch) == ("worktree", "")
    after = {name: data for name, data in every_byte(shop / ".git").items() if "/worktrees/" not in name}
    assert after == before
    assert statuses(tmp_path / "tree")[2:] == status[2:]
    assert "# branch.head (detached)" in statuses(tmp_path / "tree")
    on = checkout(context, session, tmp_path / "on", worktree=True, branch="try/it", at=seq)
    assert (on.branch, statuses(tmp_path / "on")[1:]) == ("try/it", ["# branch.head try/it", *status[2:]])
    added = set(git(shop, "for-each-ref").splitlines()) - set(references.splitlines())
    assert [line.split("\t")[1] for line in added] == ["refs/heads/try/it"]
    with pytest.raises(Conflict, match="the branch other exists"):
        checkout(context, session, tmp_path / "no", worktree=True, branch="other")
    with pytest.raises(InvalidInput, match="is no name of a branch"):
        checkout(context, session, tmp_path / "no", worktree=True, branch="--force")
    assert not (tmp_path / "no").exists()


def test_another_clone_gets_what_was_staged(context: Context, session: OpenSession, shop: Path, tmp_path: Path) -> None:
    """The staged bytes are in the snapshot, so a clone without them, here a bare one, has them after the checkout."""
    status = statuses(shop)
    seq = snapshot(context, session, shop).seq
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--bare", str(shop), str(clone))
    shutil.rmtree(shop)
    gone = checkout(context, session, tmp_path / "files")
    assert gone.repository == ""
    assert "is gone; name a clone" in gone.notes[0]
    for number, given in enumerate(({}, {"worktree": True})):
        out = tmp_path / f"out{number}"
        checkout(context, session, out, at=seq, repository=str(clone), **given)
        assert statuses(out)[2:] == status[2:]
        git(out, "fsck", "--strict")


HOSTILE = """
[core]
    hooksPath = {hooks}
    fsmonitor = {run}
    pager = {run}
    editor = {run}
    sshCommand = {run}
    alternateRefsCommand = {run}
    attributesFile = {attributes}
[filter "x"]
    clean = {run}
    smudge = {run}
    process = {run}
    required = true
[diff "x"]
    command = {run}
    textconv = {run}
[diff]
    external = {run}
[credential]
    helper = !{run}
[remote "origin"]
    url = ext::{run}
    promisor = true
[extensions]
    partialClone = origin
[gc]
    auto = 1
"""


def test_nothing_of_a_hostile_repository_runs(
    context: Context, session: OpenSession, shop: Path, tmp_path: Path
) -> None:
    ran, run, hooks = tmp_path / "ran", tmp_path / "run.sh", tmp_path / "hooks"
    run.write_text(f"#!/bin/sh\necho $0 $* >> {ran}\ncat\n")
    run.chmod(0o755)
    hooks.mkdir()
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"):
        shutil.copy(run, hooks / hook)
        shutil.copy(run, shop / ".git" / "hooks" / hook)
    (tmp_path / "attributes").write_text("* filter=x diff=x\n")
    with (shop / ".git" / "config").open("a") as config:
        config.write(HOSTILE.format(run=run, hooks=hooks, attributes=tmp_path / "attributes"))
    (shop / ".gitattributes").write_text("* filter=x diff=x\n")
    shutil.copytree(shop / ".git", shop / "nested" / ".git")
    (shop / "nested" / "x").write_text("in a repository of its own\n")
    snapshot(context, session, shop)
    assert checkout(context, session, tmp_path / "own").repository == "own"
    checkout(context, session, tmp_path / "tree", worktree=True, branch="new")
    assert not ran.exists(), ran.read_text()
    assert [path.name for path in (tmp_path / "own" / "nested").iterdir()] == ["x"], "its git stays where it is"
    subprocess.run(["git", "status"], cwd=shop, env=ENVIRONMENT, capture_output=True, check=False)
    assert ran.exists(), "the repository is hostile indeed"


def _no_commit(shop: Path, session: OpenSession, context: Context) -> None:
    git(shop, "checkout", "-q", "-f", "--orphan", "fresh")
    git(shop, "commit", "-qm", "other", "--allow-empty")
    git(shop, "branch", "-qD", "main", "other")
    git(shop, "reflog", "expire", "--expire=now", "--all")
    git(shop, "gc", "-q", "--prune=now")


def _merging(shop: Path, session: OpenSession, context: Context) -> None:
    (shop / ".git" / "MERGE_HEAD").write_text(git(shop, "rev-parse", "HEAD"))


def _merging_then(shop: Path, session: OpenSession, context: Context) -> None:
    _merging(shop, session, context)
    snapshot(context, session, shop)
    (shop / ".git" / "MERGE_HEAD").unlink()


def _no_repository(shop: Path, session: OpenSession, context: Context) -> None:
    shutil.rmtree(shop / ".git")


def _is_submodule(shop: Path, session: OpenSession, context: Context) -> None:
    modules = shop.parent / "around" / ".git" / "modules" / "shop"
    modules.parent.mkdir(parents=True)
    (shop / ".git").rename(modules)
    (shop / ".git").write_text(f"gitdir: {modules}\n")


def _is_part(shop: Path, session: OpenSession, context: Context) -> None:
    snapshot(context, session, shop / "sub")


def _is_shallow(shop: Path, session: OpenSession, context: Context) -> None:
    _no_commit(shop, session, context)
    (shop / ".git" / "shallow").write_text(git(shop, "rev-parse", "HEAD"))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (_no_commit, NotFound, "is not in .*; fetch it there"),
        (_is_shallow, NotFound, "shallow clone: git fetch --unshallow"),
        (_merging, Conflict, "a merge is under way"),
        (_merging_then, Conflict, "a merge was under way at the snapshot"),
        (_no_repository, InvalidInput, "is in no repository of git"),
        (_is_submodule, InvalidInput, "is a submodule"),
        (_is_part, InvalidInput, "of the folder sub of a repository and not of all of it"),
    ],
)
def test_a_worktree_that_cannot_be_made_says_why(
    change: Callable[[Path, OpenSession, Context], None],
    error: type[ClewError],
    words: str,
    context: Context,
    session: OpenSession,
    shop: Path,
    tmp_path: Path,
) -> None:
    snapshot(context, session, shop)
    change(shop, session, context)
    with pytest.raises(error, match=words):
        checkout(context, session, tmp_path / "tree", worktree=True)
    assert not (tmp_path / "tree").exists()


def test_without_git_the_files_are_kept_and_written(
    context: Context, session: OpenSession, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    taken = snapshot(context, session, shop)
    assert "git is not installed" in {skipped.path: skipped.why for skipped in taken.skipped}[".git"]
    out = checkout(context, session, tmp_path / "out")
    assert (out.repository, (tmp_path / "out" / "both").read_text()) == ("", "and edited again\n")
    assert "git is not installed" in out.notes[0]
    with pytest.raises(Unavailable, match="git is not installed"):
        checkout(context, session, tmp_path / "tree", worktree=True)


@pytest.mark.parametrize(
    "record",
    [
        GitRecord(staged=[Staged(b"../out", 0o100644, "a" * 40)]),
        GitRecord(staged=[Staged(b".GIT/config", 0o100644, "a" * 40)]),
        GitRecord(staged=[Staged(b"a//b", 0o100644, "a" * 40)]),
        GitRecord(staged=[Staged(b"a", 0o777, "a" * 40)]),
        GitRecord(staged=[Staged(b"a", 0o100644, "--upload-pack")]),
        GitRecord(to_add=[b"/etc/passwd"]),
        GitRecord(below=b".."),
        GitRecord(commit="--output=x"),
        *(GitRecord(branch=branch) for branch in ("-f", "a..b", "a b", "x.lock", "@{1}", "/a", "a\n", "..")),
    ],
)
def test_a_hostile_record_is_refused(record: GitRecord) -> None:
    with pytest.raises(Damaged):
        decode_git_record(encode_git_record(record))


def test_a_record_is_read_as_it_was_written() -> None:
    record = GitRecord("a" * 40, "feature/ä", b"x", "", [Staged(b"p\xff", 0o120000, "b" * 40, b"d" * 32), Staged(b"q")])
    assert decode_git_record(encode_git_record(record)) == record
    for broken in (b"", b"clew tree 1\n", GIT_RECORD + b"\xc1", GIT_RECORD + msgspec.msgpack.encode([1])):
        with pytest.raises(Damaged):
            decode_git_record(broken)
