"""One project per repository, the same from every program, and never one project for two."""

import json
import os
import shutil
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.service import Context
from clew.store import Store, open_store
from support import claude
from support.captures import capture
from support.repositories import bare, repository, submodule, worktree

PROGRAMS = ("claude-code", "codex", "qwen-code", "droid")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Where a person has their folders."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def session_in(person: Path, cwd: str | Path, program: str = "claude-code", *, remote: str = "") -> str:
    """Write a session of a program that worked in a folder; returns its native id."""
    id, cwd = str(uuid.uuid4()), str(cwd)
    if program == "claude-code":
        folder = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in cwd)
        records = [{**claude.says("u", None, f"hello {id}"), "cwd": cwd, "sessionId": id, "uuid": id}]
        path = claude.transcript(person, session=id, folder=folder[:200])
    elif program == "codex":
        meta = {"id": id, "cwd": cwd, "cli_version": "1", "timestamp": "2026-11-15T10:00:00Z"}
        meta |= {"git": {"repository_url": remote}} if remote else {}
        text = {"type": "input_text", "text": f"hello {id}"}
        records = [
            {"timestamp": "2026-11-15T10:00:00Z", "type": "session_meta", "payload": meta},
            {"timestamp": "2026-11-15T10:00:01Z", "type": "response_item",
             "payload": {"type": "message", "role": "user", "content": [text]}},
        ]  # fmt: skip
        path = person / f".codex/sessions/2026/11/15/rollout-2026-11-15T10-00-00-{id}.jsonl"
    elif program == "qwen-code":
        message = {"role": "user", "parts": [{"text": f"hello {id}"}]}
        records = [
            {"uuid": id, "sessionId": id, "timestamp": "2026-11-15T10:00:00Z", "type": "user", "cwd": cwd,
             "version": "1", "message": message},
        ]  # fmt: skip
        path = person / f".qwen/projects/x/chats/{id}.jsonl"
    else:
        records = [
            {"type": "session_start", "id": id, "title": "t", "cwd": cwd, "version": 2},
            {"type": "message", "id": "m", "timestamp": "2026-11-15T10:00:00Z",
             "message": {"role": "user", "content": [{"type": "text", "text": f"hello {id}"}]}},
        ]  # fmt: skip
        path = person / f".factory/sessions/x/{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(claude.lines(records))
    return id


def projects(plane: Plane, person: Path) -> dict[str, str]:
    """Capture, and the project of every session by its native id."""
    for report in capture(plane, person):
        assert report.error is None, report
    found = {}
    for line in plane.client.call("sessions", limit=1000, empty=True):
        about = plane.client.call("show", session=line.id).session
        found[str(json.loads(bytes(about.metadata)).get("native", line.id))] = about.project
    return found


def project_in(plane: Plane, person: Path, cwd: str | Path, program: str = "claude-code", *, remote: str = "") -> str:
    """The project of a new session in a folder."""
    id = session_in(person, cwd, program, remote=remote)
    return projects(plane, person)[id]


def machine(store: Store, name: str) -> Plane:
    me = "person:ada"
    grants = (owner_of_everything(me),)
    return Plane(Local(Context(store=store, unrestricted=store, principal=me, grants=grants, machine=name)))


def test_two_folders_with_names_in_chinese_are_two_projects(plane: Plane, person: Path, work: Path) -> None:
    names = ["文档", "书籍", "音乐", "ドキュメント", "프로젝트"]
    for name in names:
        (work / name).mkdir()
    assert [project_in(plane, person, work / name) for name in names] == names


def test_two_folders_with_names_in_chinese_that_are_gone_are_two_projects(plane: Plane, person: Path) -> None:
    assert [project_in(plane, person, f"/home/me/{name}") for name in ("文档", "书籍")] == ["文档", "书籍"]


@pytest.mark.parametrize("folder", ["/home/me/my.app", "{work}/my.app"], ids=["gone", "there"])
def test_one_folder_is_one_project_in_every_program(plane: Plane, person: Path, work: Path, folder: str) -> None:
    folder = folder.format(work=work)
    if folder.startswith(str(work)):
        Path(folder).mkdir()
    assert {project_in(plane, person, folder, program) for program in PROGRAMS} == {"my.app"}


def test_folders_of_one_name_get_the_name_of_the_folder_above(plane: Plane, person: Path) -> None:
    folders = ["/home/me/work/api", "/home/me/play/api", "/mnt/play/api", "/home/me/work/api"]
    assert [project_in(plane, person, folder) for folder in folders] == ["api", "play-api", "play-api-2", "api"]


def test_a_repository_is_one_project_from_all_its_folders_and_worktrees(plane: Plane, person: Path, work: Path) -> None:
    main = repository(work / "shop")
    (main / "src" / "deep").mkdir(parents=True)
    side = worktree(main, work / "shop-fix-the-lock")
    own = worktree(main, main / ".claude" / "worktrees" / "brave-fox")
    os.symlink(main / "src", work / "link")
    folders = [main / "src" / "deep", side, own, main, work / "link" / "deep"]
    assert {project_in(plane, person, folder, PROGRAMS[i % 4]) for i, folder in enumerate(folders)} == {"shop"}


def test_a_worktree_that_is_gone_still_belongs_to_its_repository(plane: Plane, person: Path, work: Path) -> None:
    main = repository(work / "shop")
    side = worktree(main, work / "elsewhere")
    (side / "src").mkdir()
    assert project_in(plane, person, side) == "shop"
    shutil.rmtree(side)
    assert project_in(plane, person, side, "codex") == "shop"
    gone = main / ".claude" / "worktrees" / "never-seen"
    assert project_in(plane, person, gone) == "shop"


def test_a_submodule_and_a_repository_inside_another_are_their_own(plane: Plane, person: Path, work: Path) -> None:
    main = repository(work / "shop", remote="git@github.com:acme/shop.git")
    lib = submodule(main, "lib", remote="git@github.com:acme/lib.git")
    local = submodule(main, "local")
    inner = repository(main / "vendor" / "tool")
    found = [project_in(plane, person, folder) for folder in (main, lib, local, inner)]
    assert found == ["shop", "lib", "local", "tool"]
    assert project_in(plane, person, work / "other-clone", remote="x") == "other-clone"


def test_a_submodule_is_the_same_repository_as_its_clone(plane: Plane, person: Path, work: Path) -> None:
    main = repository(work / "shop")
    lib = submodule(main, "lib", remote="git@github.com:acme/lib.git")
    clone = repository(work / "my-lib", remote="https://github.com/acme/lib")
    assert [project_in(plane, person, folder) for folder in (clone, lib)] == ["lib", "lib"]


def test_a_bare_repository_and_its_worktrees_are_one(plane: Plane, person: Path, work: Path) -> None:
    data = bare(work / "shop.git")
    side = worktree(data, work / "side", git=".")
    assert {project_in(plane, person, folder) for folder in (data, data / "objects", side)} == {"shop"}
    hidden = bare(work / "store" / ".bare")
    (work / "store" / ".git").write_text("gitdir: ./.bare\n")
    side = worktree(hidden, work / "store" / "main", git=".")
    assert {project_in(plane, person, folder) for folder in (work / "store", side)} == {"store"}


def test_clones_are_one_project_on_every_machine(store: Store, person: Path, work: Path) -> None:
    laptop, desktop = machine(store, "laptop"), machine(store, "desktop")
    one = repository(work / "shop", remote="git@github.com:acme/shop.git")
    other = repository(work / "second" / "clone", remote="https://ada:secret@GitHub.com/acme/shop")
    assert project_in(laptop, person, one) == "shop"
    assert project_in(desktop, person, other, "codex") == "shop"
    assert project_in(desktop, person, "/gone/away", "codex", remote="ssh://git@github.com/acme/shop") == "shop"
    assert project_in(desktop, person, "/gone/away") == "shop"
    assert b"secret" not in json.dumps([line.project for line in laptop.sessions()]).encode()


def test_different_remotes_of_one_name_are_two_projects(plane: Plane, person: Path, work: Path) -> None:
    one = repository(work / "a" / "api", remote="git@github.com:acme/api.git")
    other = repository(work / "b" / "api", remote="git@github.com:globex/api.git")
    assert [project_in(plane, person, folder) for folder in (one, other)] == ["api", "globex-api"]


def test_a_clone_of_a_folder_is_the_same_repository(plane: Plane, person: Path, work: Path) -> None:
    main = repository(work / "shop")
    clone = repository(work / "shop-copy", remote=str(main))
    again = repository(work / "shop-again", remote="../shop-copy")
    assert [project_in(plane, person, folder) for folder in (clone, main, again)] == ["shop"] * 3


def test_a_moved_repository_stays_its_project(plane: Plane, person: Path, work: Path) -> None:
    main = repository(work / "shop")
    assert project_in(plane, person, main) == "shop"
    main.rename(work / "store")
    assert project_in(plane, person, work / "store") == "shop"
    (work / "store" / "sub").mkdir()
    assert project_in(plane, person, work / "store" / "sub", "codex") == "shop"


def test_a_copy_of_a_repository_is_another_project(plane: Plane, person: Path, work: Path) -> None:
    main = repository(work / "template")
    assert project_in(plane, person, main) == "template"
    shutil.copytree(main, work / "shop")
    assert project_in(plane, person, work / "shop") == "shop"
    assert project_in(plane, person, main) == "template"


def test_a_repository_keeps_its_project_when_it_gets_a_remote_and_when_that_changes(
    plane: Plane, person: Path, work: Path
) -> None:
    main = repository(work / "shop")
    assert project_in(plane, person, main) == "shop"
    for remote in ("git@github.com:ada/store.git", "git@github.com:acme/store.git"):
        (main / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
        assert project_in(plane, person, main) == "shop"
    assert project_in(plane, person, "/gone", "codex", remote="https://github.com/acme/store") == "shop"


def test_another_repository_at_the_same_path_is_another_project(plane: Plane, person: Path, work: Path) -> None:
    assert project_in(plane, person, repository(work / "shop", remote="git@github.com:acme/shop.git")) == "shop"
    shutil.rmtree(work / "shop")
    other = repository(work / "shop", remote="git@github.com:globex/shop.git")
    (other / ".git" / "logs" / "HEAD").write_text("another beginning\n")
    assert project_in(plane, person, other) == "globex-shop"


def test_a_repository_in_the_home_folder_does_not_cover_the_folders_in_it(
    plane: Plane, person: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = repository(work / "ada", remote="git@github.com:ada/dotfiles.git")
    monkeypatch.setenv("HOME", str(home))
    for name in ("one", "two"):
        (home / name).mkdir()
    assert [project_in(plane, person, folder) for folder in (home, home / "one", home / "two")] == [
        "dotfiles", "one", "two",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "git",
    [
        b"",
        b"gitdir:",
        b"gitdir: \0",
        b"gitdir: ../../../../../../etc",
        b"gitdir: /dev/zero",
        b"\xff" * 9000,
        b"x" * 70_000,
    ],
    ids=["empty", "no-path", "nul", "up", "device", "bytes", "long"],
)
def test_a_hostile_git_file_harms_nothing(plane: Plane, person: Path, work: Path, git: bytes) -> None:
    (work / "shop").mkdir()
    (work / "shop" / ".git").write_bytes(git)
    assert project_in(plane, person, work / "shop") == "shop"


def test_a_pipe_in_place_of_a_file_is_not_waited_for(plane: Plane, person: Path, work: Path) -> None:
    (work / "shop").mkdir()
    os.mkfifo(work / "shop" / ".git")
    main = repository(work / "other")
    (main / ".git" / "config").unlink()
    os.mkfifo(main / ".git" / "config")
    assert [project_in(plane, person, work / name) for name in ("shop", "other")] == ["shop", "other"]


@pytest.mark.parametrize(
    "cwd", ["/a\0b", "C:\\Users\\ada\\shop", "relative/shop", "/" + "x" * 5000, "/", "~/shop", "-x"]
)
def test_any_working_directory_gives_a_project(plane: Plane, person: Path, cwd: str) -> None:
    assert project_in(plane, person, cwd) == project_in(plane, person, cwd, "codex") != ""


def test_a_session_that_grows_stays_in_its_project(plane: Plane, person: Path, work: Path) -> None:
    (work / "shop").mkdir()
    id = session_in(person, work / "shop")
    assert projects(plane, person)[id] == "shop"
    shutil.rmtree(work / "shop")
    repository(work / "shop", remote="git@github.com:acme/store.git")
    [path] = person.rglob(f"{id}.jsonl")
    more = {**claude.says("more", None, "and on"), "cwd": str(work / "shop"), "sessionId": id}
    path.write_bytes(path.read_bytes() + claude.lines([more]))
    assert projects(plane, person)[id] == "shop"


def test_a_project_of_an_older_clew_goes_on_in_its_folder_only(plane: Plane, person: Path, work: Path) -> None:
    """A project that no place is stored for goes on where one of its sessions worked, and nowhere else."""
    session = plane.session(project="api", agent="old", metadata={"machine": "here"})
    session.append({"kind": "runtime_attached", "runtime": "claude-code", "cwd": "/home/me/work/api"})
    assert project_in(plane, person, "/home/me/play/api") == "play-api"
    assert project_in(plane, person, "/home/me/work/api") == "api"


def test_a_project_made_by_name_is_the_one_of_the_first_folder_called_so(plane: Plane, person: Path) -> None:
    plane.session(project="shop", agent="mine")
    assert [project_in(plane, person, f"/home/me/{name}/shop") for name in ("a", "b")] == ["shop", "b-shop"]


def test_no_folder_gets_the_project_of_sessions_without_one(plane: Plane, person: Path) -> None:
    plane.session(agent="mine")
    assert project_in(plane, person, "/home/me/default") == "me-default"


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """A tree of repositories, worktrees, submodules, clones and folders: what each is, where, and its identity."""
    letters = st.text("abAB文档書яü- _.", min_size=1, max_size=4).filter(
        lambda name: name.strip(". ") == name and not name.endswith(".git")
    )
    made: list[tuple[str, str, str]] = []
    folders = [""]
    for _number in range(draw(st.integers(2, 7))):
        path = f"{draw(st.sampled_from(folders))}/{draw(letters)}"
        if path in folders:
            continue
        folders.append(path)
        mains = [identity for kind, _, identity in made if kind == "repository"]
        kind = draw(st.sampled_from(["folder", "repository", "clone", "worktree", "gone"]))
        if kind == "worktree" and mains:
            made.append((kind, path, draw(st.sampled_from(mains))))
        elif kind == "clone":
            made.append((kind, path, draw(st.sampled_from(["host/a/x", "host/b/x", "host/a/文档"]))))
        elif kind in ("gone", "repository"):
            made.append((kind, path, path))
        else:
            made.append(("folder", path, path))
    return made


@given(tree=trees())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sessions_share_a_project_exactly_if_they_share_a_repository(
    tmp_path_factory: pytest.TempPathFactory, tree: list[tuple[str, str, str]]
) -> None:
    base = tmp_path_factory.mktemp("tree")
    work, person = base / "work", base / "person"
    identities: dict[str, str] = {}
    covering: dict[str, str] = {}
    for kind, path, identity in tree:
        root = work / path[1:]
        if kind == "repository":
            repository(root)
        elif kind == "clone":
            repository(root, remote=f"git@{identity.replace('/', ':', 1)}.git")
        elif kind == "worktree":
            worktree(work / identity[1:], root)
        elif kind == "folder":
            root.mkdir(parents=True, exist_ok=True)
        covering[path] = identity if kind in ("repository", "clone", "worktree") else ""
    for _, path, identity in tree:
        root = work / path[1:]
        if root.exists():
            parts = [path[:at] for at in range(len(path), 0, -1) if at == len(path) or path[at] == "/"]
            identity = next((covering[part] for part in parts if covering.get(part)), path)
        for program in PROGRAMS[: 1 + len(path) % 4]:
            identities[session_in(person, root, program)] = identity
    with open_store(f"sqlite:///{base / 'clew.db'}") as store:
        found = projects(machine(store, "here"), person)
    by_project: dict[str, set[str]] = {}
    by_identity: dict[str, set[str]] = {}
    for id, identity in identities.items():
        by_project.setdefault(found[id], set()).add(identity)
        by_identity.setdefault(identity, set()).add(found[id])
    assert all(len(same) == 1 for same in by_project.values()), by_project
    assert all(len(same) == 1 for same in by_identity.values()), by_identity


def test_a_file_that_has_just_begun_waits_until_it_says_where_its_program_works(
    plane: Plane, person: Path, work: Path
) -> None:
    """The name of Claude Code's folder fits both folders, so the first record alone could name the wrong one."""
    for name in ("文档", "书籍"):
        (work / name).mkdir()
    id = session_in(person, work / "书籍")
    [path] = person.rglob(f"{id}.jsonl")
    whole = path.read_bytes()
    path.write_bytes(claude.lines([{"type": "mode", "mode": "normal", "sessionId": id}]))
    [report] = capture(plane, person)
    assert (report.status, report.session, report.error) == ("new", "", None)
    path.write_bytes(path.read_bytes() + whole)
    assert projects(plane, person)[id] == "书籍"
    # What has said nothing for an hour says no more.
    other = session_in(person, work / "文档")
    [path] = person.rglob(f"{other}.jsonl")
    path.write_bytes(claude.lines([{"type": "mode", "mode": "normal", "sessionId": other}]))
    os.utime(path, (0, 0))
    assert projects(plane, person)[other] not in ("文档", "书籍")
