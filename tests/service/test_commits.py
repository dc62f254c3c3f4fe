"""Which commits came out of a session, and which sessions led to a commit."""

import time
from pathlib import Path
from typing import Any

import pytest

from clew.client import OpenSession, Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import Denied, InvalidInput
from clew.service import Context, call
from clew.store import Store
from service.test_workspace_git import git

ME = "person:ada"


@pytest.fixture
def context(store: Store) -> Context:
    return Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a").write_text("1\n")
    git(folder, "add", "a")
    git(folder, "commit", "-qm", "before")
    # It was made long before the sessions.
    log = folder / ".git" / "logs" / "HEAD"
    log.write_text(log.read_text().replace("> 1", "> 0", 1))
    return folder


def at_work(context: Context, folder: Path) -> OpenSession:
    session = Plane(Local(context)).session("t", project="shop")
    session.append({"kind": "runtime_attached", "runtime": "codex", "cwd": str(folder)})
    session.user("commit it")
    return session


def keep(context: Context, session: OpenSession) -> list[str]:
    found = call(context, "workspace_keep", {"sessions": [session.id]})
    assert not [kept.error for kept in found if kept.error]
    return [sha for kept in found for sha in kept.commits]


def commits(context: Context, **given: Any) -> list[tuple[str, str, str]]:
    return [(link.commit, link.how, link.session) for link in call(context, "commit", given)]


def made(folder: Path, text: str) -> str:
    (folder / "a").write_text(text)
    git(folder, "commit", "-qam", text)
    return git(folder, "rev-parse", "HEAD").strip()


def ran(session: OpenSession, command: str, output: str) -> int:
    id = f"c{time.monotonic_ns()}"
    session.append({"kind": "call_made", "call": id, "tool": "Bash", "input": {"command": command}})
    return session.append({"kind": "call_returned", "call": id, "output": output}).seqs[0]


def test_commits_of_a_session_are_recorded_as_they_happen(context: Context, shop: Path) -> None:
    session = at_work(context, shop)
    assert keep(context, session) == [], "one that was made before the session is not its own"
    first, second = made(shop, "2\n"), made(shop, "3\n")
    git(shop, "checkout", "-q", "-b", "other", first)
    git(shop, "checkout", "-q", "main")
    git(shop, "reset", "-q", "--soft", first)
    git(shop, "merge", "-q", "--ff-only", second)
    assert keep(context, session) == [first, second], "a checkout, a reset and a fast-forward make no commit"
    assert keep(context, session) == []
    assert sorted(commits(context, session=session.id)) == sorted((sha, "head", session.id) for sha in (first, second))
    # What a call printed is a stronger link, and has the whole name when that is known.
    seq = ran(session, "cd shop && git commit -qam 3", f"[main {second[:8]}] 3\n 1 file changed, 1 insertion(+)\n")
    ran(session, "cat CHANGES", f"[main {first[:7]}] what a file says is no commit\n")
    elsewhere = ran(session, "git -c x=y commit -m z", "ok\n[detached HEAD 0123456789] z\n")
    for sha in (second[:4], second[:12], second.upper(), second):
        assert commits(context, sha=sha)[0] == (second, "call", session.id)
    assert call(context, "commit", {"sha": second[:9]})[0].seq == seq
    assert commits(context, sha=first[:7]) == [(first, "head", session.id)]
    assert commits(context, sha="0123456789" + "a" * 30) == [("0123456789" + "a" * 30, "call", session.id)]
    assert call(context, "commit", {"sha": "01234567"})[0].seq == elsewhere
    assert commits(context, sha="f" * 40) == []
    found = commits(context)
    call(context, "views_rebuild", {})
    assert commits(context) == found
    with pytest.raises(InvalidInput, match="at least 4 of its hexadecimal digits"):
        commits(context, sha="HEAD~1; rm")


@pytest.mark.parametrize("database", ["sqlite"])
def test_a_session_that_wrote_the_files_of_a_commit_is_a_weak_link(context: Context, shop: Path) -> None:
    plane = Plane(Local(context))
    wrote, other = plane.session("wrote", project="shop"), plane.session("other", project="shop")
    for session, path in ((wrote, str(shop / "a")), (other, "/elsewhere/a")):
        session.append({"kind": "call_made", "call": "1", "tool": "Write", "input": {"file_path": path}})
    sha = made(shop, "2\n")
    [link] = call(context, "commit", {"sha": "HEAD", "folder": str(shop)})
    assert (link.commit, link.how, link.session, link.files, link.seq) == (sha, "files", wrote.id, ["a"], 2)
    assert commits(context, sha=sha) == [], "without the repository nobody knows its files"
    away = Context(
        store=context.store, unrestricted=context.store, principal=ME, grants=context.grants, answers_leave_machine=True
    )
    with pytest.raises(Denied, match="on the machine where they are"):
        commits(away, sha=sha, folder=str(shop))
