"""The files of a session: kept, compared, and brought back exactly."""

import errno
import os
import random
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.client import OpenSession, Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import ClewError, Conflict, Damaged, DiskFull, InvalidInput, NotFound, TooLarge
from clew.model.file_tree import FILE, FOLDER, LINK, Entry, encode_tree
from clew.service import Context, call
from clew.service.workspaces import cloning, cutting, restoring
from clew.store import Store
from clew.store.objects import objects
from clew.store.objects.collection import collect
from clew.store.objects.pack import address

ME = "person:ada"
# The property test (test_workspace_property.py) has both databases.


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


class Workspace:
    """The operations on the workspace of a session."""

    def __init__(self, context: Context, session: OpenSession, folder: Path) -> None:
        self.context, self.id, self.folder = context, session.id, folder

    def __getattr__(self, name: str) -> Any:
        def operation(**given: Any) -> Any:
            return call(self.context, f"workspace_{name}", {"session": self.id, **given})

        return operation

    def keep(self, **given: Any) -> Any:
        return self.snapshot(folder=str(self.folder), **given)


@pytest.fixture
def work(context: Context, session: OpenSession, folder: Path) -> Workspace:
    return Workspace(context, session, folder)


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """What is in a folder: kinds, modes, bytes and targets."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[str(path.relative_to(folder))] = (0, os.fsencode(os.readlink(path)))
        else:
            found[str(path.relative_to(folder))] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def skipped(taken: Any) -> dict[str, str]:
    return {skipped.path: skipped.why for skipped in taken.skipped}


# Exactly --------------------------------------------------------------------------------------------------------------


def test_content_modes_links_and_empty_folders_come_back(work: Workspace, folder: Path) -> None:
    write(folder, plain="text", run="#!/bin/sh")
    (folder / "run").chmod(0o755)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "file").write_bytes(bytes(range(256)))
    (folder / "closed").mkdir(mode=0o700)
    (folder / "link").symlink_to("deep/file")
    (folder / "dangling").symlink_to("/nowhere/at/all")
    before = content(folder)
    taken = work.keep()
    assert (taken.files, taken.seq) == (5, 2)
    write(folder, plain="other", new="not there before")
    (folder / "run").chmod(0o600)
    (folder / "link").unlink()
    (folder / "link").mkdir()
    (folder / "link" / "inner").write_text("in the way")
    (folder / "deep" / "er").rmdir()
    restored = work.restore(at=2)
    assert content(folder) == before
    assert (restored.written, restored.removed, restored.unchanged) == (3, 2, 2)


def test_every_restore_can_be_undone(work: Workspace, folder: Path) -> None:
    write(folder, a="1")
    work.keep()
    write(folder, a="2", b="3")
    before = content(folder)
    undo = work.restore(at=2).undo
    assert content(folder) == {"a": (stat.S_IFREG | 0o644, b"1")}
    work.restore(at=undo)
    assert content(folder) == before


def test_a_restore_into_an_equal_folder_writes_nothing(work: Workspace, folder: Path) -> None:
    write(folder, a="1")
    work.keep()
    restored = work.restore()
    assert (restored.written, restored.removed, restored.unchanged, restored.undo) == (0, 0, 1, None)
    assert [point.event for point in work.log()] == ["snapshot"]


def test_single_paths_are_restored_and_the_others_stay(work: Workspace, folder: Path) -> None:
    (folder / "src").mkdir(mode=0o750)
    write(folder, a="1", b="1")
    write(folder / "src", c="1", d="1")
    work.keep()
    write(folder, a="2", b="2")
    for path in (folder / "src").iterdir():
        path.unlink()
    (folder / "src").rmdir()
    restored = work.restore(paths=["a", "src/c"], at=2)
    assert (restored.written, restored.removed) == (2, 0)
    assert {name: data for name, (_, data) in content(folder).items()} == {
        "a": b"1",
        "b": b"2",
        "src": b"",
        "src/c": b"1",
    }
    assert stat.S_IMODE((folder / "src").stat().st_mode) == 0o750
    with pytest.raises(NotFound, match="neither in the folder nor in the snapshot"):
        work.restore(paths=["nothing"])
    for outside in ("../x", "/etc/passwd", ".git/config"):
        with pytest.raises(InvalidInput):
            work.restore(paths=[outside])


def test_a_session_has_the_files_of_any_of_its_events(work: Workspace, folder: Path, session: OpenSession) -> None:
    write(folder, a="1")
    first = work.keep().seq
    session.user("change it")
    write(folder, a="2")
    second = work.keep().seq
    assert [work.cat(path="a", at=seq).text for seq in (first, first + 1, second)] == ["1", "1", "2"]
    child = session.fork(at=first + 1)
    assert call(work.context, "workspace_cat", {"session": child.id, "path": "a"}).text == "1"
    with pytest.raises(NotFound, match="no snapshot of its files at or before event 1"):
        work.cat(path="a", at=1)


def test_a_fork_has_a_folder_of_its_own(work: Workspace, folder: Path, session: OpenSession, tmp_path: Path) -> None:
    write(folder, a="1")
    work.keep()
    child = session.fork()
    out = call(work.context, "workspace_checkout", {"session": child.id, "folder": str(tmp_path / "child")})
    assert content(tmp_path / "child") == content(folder)
    assert out.files == 1
    write(tmp_path / "child", a="of the child")
    taken = call(work.context, "workspace_snapshot", {"session": child.id})
    assert content(folder)["a"][1] == b"1"
    found = call(work.context, "workspace_diff", {"left": session.id, "right": child.id})
    assert [change.path for change in found.changes] == ["a"]
    assert "-1" in found.changes[0].lines
    assert taken.files == 1
    with pytest.raises(Conflict, match="is not empty"):
        call(work.context, "workspace_checkout", {"session": child.id, "folder": str(tmp_path / "child")})


def test_files_that_are_unchanged_in_their_folder_are_cloned_from_there(
    work: Workspace, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's own clone is replaced, because few file systems have one; then the one here is asked."""
    (folder / "deep").mkdir()
    large = random.Random(3).randbytes(cutting.LARGE_BYTES)
    for path, data in (("same", b"1"), ("deep/large", large), ("edited", b"2"), ("gone", b"3"), ("empty", b"")):
        (folder / path).write_bytes(data)
        os.utime(folder / path, ns=(0, 0))
    monkeypatch.setattr("clew.service.workspaces.saving.CLOCK_TICK_NS", -(10**12))
    work.keep()
    write(folder, edited="9")
    (folder / "gone").unlink()
    cloned = []

    def clone(target: int, request: int, source: int) -> None:
        assert request == cloning.FICLONE
        cloned.append(os.path.basename(os.readlink(f"/proc/self/fd/{source}")))
        os.sendfile(target, source, 0, len(large))

    with monkeypatch.context() as patched:
        patched.setattr(cloning.fcntl, "ioctl", clone)
        work.checkout(folder=str(tmp_path / "cloned"))
    assert sorted(cloned) == ["large", "same"]
    work.checkout(folder=str(tmp_path / "written"), at=2)
    for out in ("cloned", "written"):
        assert (tmp_path / out / "deep" / "large").read_bytes() == large
        assert {name: (tmp_path / out / name).read_text() for name in ("same", "edited", "gone", "empty")} == {
            "same": "1", "edited": "2", "gone": "3", "empty": "",
        }  # fmt: skip


# Cheaply --------------------------------------------------------------------------------------------------------------


def test_an_unchanged_folder_is_one_walk_and_one_event(work: Workspace, folder: Path, monkeypatch: Any) -> None:
    for number in range(30):
        write(folder, **{f"f{number}": str(number)})
    settle(folder)
    first = work.keep()
    opened: list[Any] = []
    monkeypatch.setattr("clew.service.workspaces.saving._opened", lambda path: opened.append(path))
    second = work.keep()
    assert opened == []
    assert (second.seq, second.snapshot, second.new_bytes) == (first.seq, first.snapshot, 0)


def test_only_what_changed_is_new(work: Workspace, folder: Path) -> None:
    for number in range(30):
        (folder / f"d{number}").mkdir()
        (folder / f"d{number}" / "f").write_bytes(random.Random(number).randbytes(1000))
    settle(folder)
    assert work.keep().new_bytes == 30_000
    (folder / "d7" / "f").write_text("new")
    assert work.keep().new_bytes == 3
    assert work.cat(path="d7/f").text == "new"


def settle(folder: Path) -> None:
    """As if the files had been written some time ago."""
    import clew.service.workspaces.saving as saving

    saving.CLOCK_TICK_NS = -60_000_000_000


@pytest.fixture(autouse=True)
def clock_tick() -> Iterator[None]:
    import clew.service.workspaces.saving as saving

    before = saving.CLOCK_TICK_NS
    yield
    saving.CLOCK_TICK_NS = before


def test_a_file_that_may_change_within_a_tick_of_the_clock_is_read_again(
    work: Workspace, folder: Path, monkeypatch: Any
) -> None:
    import clew.service.workspaces.saving as saving

    write(folder, a="1")
    work.keep()
    opened, read = saving._opened, []
    monkeypatch.setattr(saving, "_opened", lambda path: read.append(path) or opened(path))
    work.keep()
    assert [os.path.basename(path) for path in read] == [b"a"]


def test_a_small_edit_of_a_large_file_costs_little(work: Workspace, folder: Path) -> None:
    data = random.Random(1).randbytes(12_000_000)
    (folder / "large").write_bytes(data)
    assert work.keep().new_bytes == len(data)
    (folder / "large").write_bytes(data[:3_000_000] + b"inserted" + data[3_000_000:])
    assert work.keep().new_bytes < 6_000_000
    (folder / "large").unlink()
    work.restore(at=2)
    assert (folder / "large").read_bytes() == data


@pytest.mark.parametrize("data", [b"", b"a", b"\0" * 9_000_000, b"line of text\n" * 700_000])
def test_the_pieces_of_a_file_are_the_file(data: bytes) -> None:
    at = 0

    def read(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    pieces = list(cutting.cut(read))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= cutting.LONGEST for piece in pieces)


def test_a_lost_memory_of_the_last_snapshot_costs_a_reading(work: Workspace, folder: Path, tmp_path: Path) -> None:
    write(folder, a="1")
    work.keep()
    for path in (tmp_path / "home" / "workspaces").iterdir():
        path.write_bytes(path.read_bytes()[:-3] + b"xyz")
    assert work.keep().seq == 2


def test_collected_objects_are_stored_again(work: Workspace, folder: Path, context: Context, store: Store) -> None:
    (folder / "d").mkdir()
    write(folder / "d", a="1")
    settle(folder)
    first = work.keep()
    call(context, "erase", {"session": work.id, "reason": "x"})
    collect(store, grace_us=0)
    assert call(context, "workspace_gc", {}).blobs == 0
    with pytest.raises(NotFound):
        objects.stat(store, first.snapshot)
    other = Workspace(context, Plane(Local(context)).session("u", project="shop"), folder)
    assert other.keep().new_bytes == 1
    assert other.cat(path="d/a").text == "1"


# What is left out -----------------------------------------------------------------------------------------------------


def test_ignored_files_and_secrets_are_left_out(work: Workspace, folder: Path) -> None:
    for name in ("node_modules", ".venv", "build", "src", ".git", "keep"):
        (folder / name).mkdir()
        write(folder / name, inner="x")
    write(folder, **{".env": "TOKEN=1", ".env.example": "TOKEN=", "server.pem": "x", "a.log": "x", "b.log": "x"})
    write(folder, **{".gitignore": "build/\n*.log\n", ".clewignore": "!b.log\n!keep\n/src/inner\n"})
    taken = work.keep()
    names = set(work.cat(path=".").text.split())
    assert names == {".env.example", ".gitignore", ".clewignore", "b.log", "src/", "keep/"}
    assert work.cat(path="src").text == ""
    assert skipped(taken) == {".env": "looks like a secret", "server.pem": "looks like a secret"}
    assert not work.keep(with_secrets=True).skipped
    assert work.cat(path=".env").text == "TOKEN=1"


def test_what_is_ignored_survives_a_restore(work: Workspace, folder: Path) -> None:
    (folder / "src").mkdir()
    write(folder / "src", a="1")
    work.keep()
    (folder / "lib" / "node_modules").mkdir(parents=True)
    write(folder / "lib" / "node_modules", m="installed")
    write(folder / "lib", b="new")
    write(folder, **{".env": "TOKEN"})
    work.restore(at=2)
    assert sorted(content(folder)) == [".env", "lib", "lib/node_modules", "lib/node_modules/m", "src", "src/a"]


def test_a_restored_secret_does_not_replace_another_unsaved(work: Workspace, folder: Path) -> None:
    write(folder, **{".env": "old"})
    work.keep(with_secrets=True)
    write(folder, **{".env": "new"})
    undo = work.restore(at=2).undo
    assert (folder / ".env").read_text() == "old"
    work.restore(at=undo)
    assert (folder / ".env").read_text() == "new"


def test_a_project_that_masks_secrets_keeps_no_file_with_one(work: Workspace, folder: Path, context: Context) -> None:
    from support.fake_secrets import KINDS

    call(context, "setting_set", {"project": "shop", "name": "secrets", "value": "mask"})
    work.context = msgspec.structs.replace(context, _cache={})
    write(folder, a=f"token = '{KINDS['GITHUB_TOKEN'](random.Random(3))}'", b="harmless")
    taken = work.keep()
    assert skipped(taken) == {"a": "holds a secret, which this project masks"}
    assert work.cat(path=".").text == "b\n"


def test_the_store_itself_is_never_in_a_snapshot(work: Workspace, tmp_path: Path) -> None:
    work.folder = tmp_path
    (tmp_path / "home").mkdir(exist_ok=True)
    assert "home" in skipped(work.keep())
    with pytest.raises(InvalidInput, match="clew's own store"):
        work.snapshot(folder=str(tmp_path / "home"))


# Odd and hostile files ------------------------------------------------------------------------------------------------


def test_odd_files_are_kept_or_listed(work: Workspace, folder: Path) -> None:
    (folder / "loop").symlink_to(".")
    (folder / "outside").symlink_to("/etc")
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "sock"))
    Path(os.fsdecode(os.path.join(os.fsencode(folder), b"caf\xe9"))).write_text("latin")
    write(folder, one="1", tab="a\tb")
    os.link(folder / "one", folder / "two")
    write(folder, **{"new\nline": "x"})
    taken = work.keep()
    assert set(skipped(taken)) == {"fifo", "sock"}
    assert work.cat(path="caf\\xe9").text == "latin"
    assert work.cat(path="outside").text == "/etc"
    with pytest.raises(NotFound):
        work.cat(path="outside/passwd")
    before = {name: kept for name, kept in content(folder).items() if name not in ("fifo", "sock")}
    write(folder, one="2")
    work.restore()
    after = {name: kept for name, kept in content(folder).items() if name not in ("fifo", "sock")}
    assert after == before


def test_a_restore_writes_through_no_link(work: Workspace, folder: Path, tmp_path: Path) -> None:
    (folder / "d").mkdir()
    write(folder / "d", a="1")
    write(folder, f="1")
    work.keep()
    outside = tmp_path / "outside"
    outside.mkdir()
    write(outside, a="precious", f="precious")
    (folder / "d" / "a").unlink()
    (folder / "d").rmdir()
    (folder / "d").symlink_to(outside)
    (folder / "f").unlink()
    (folder / "f").symlink_to(outside / "f")
    work.restore(at=2)
    assert content(outside) == dict.fromkeys(("a", "f"), (stat.S_IFREG | 420, b"precious"))
    assert (folder / "d" / "a").read_text() == "1"
    assert not (folder / "f").is_symlink()


def test_a_link_that_appears_while_a_restore_runs_is_not_followed(
    work: Workspace, folder: Path, store: Store, tmp_path: Path
) -> None:
    from clew.service.workspaces.restoring import Restoring

    (folder / "d").mkdir()
    write(folder / "d", a="1")
    tree = bytes.fromhex(work.keep().snapshot)
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "d").symlink_to(outside)
    with pytest.raises(Conflict, match="is a link or a file"):
        Restoring(store, os.fsencode(root)).restore(b"", tree)
    assert content(outside) == {}


def test_a_restore_that_fails_leaves_no_folder_open(work: Workspace, folder: Path, monkeypatch: Any) -> None:
    for number in range(120):
        (folder / f"d{number}").mkdir()
        write(folder / f"d{number}", a="1", b="2")
    work.keep()
    write(folder, c="3")
    work.restore()  # Opens the files of the store.
    shutil.rmtree(folder)
    before, write_whole, written = open_files(), restoring._write_whole, list[bytes]()

    def full(descriptor: int, data: bytes) -> None:
        written.append(data)
        if len(written) > 60:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(descriptor, data)

    monkeypatch.setattr(restoring, "_write_whole", full)
    with pytest.raises(DiskFull, match="restore again"):
        work.restore()
    assert open_files() == before
    monkeypatch.setattr(restoring, "_write_whole", write_whole)
    work.restore()
    assert len(content(folder)) == 360
    assert open_files() == before


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_restore_changes_no_other_name_of_a_file(work: Workspace, folder: Path, tmp_path: Path) -> None:
    write(folder, a="1")
    (folder / "a").chmod(0o600)
    work.keep()
    (folder / "a").unlink()
    write(tmp_path, precious="1")
    os.link(tmp_path / "precious", folder / "a")
    work.restore(at=2)
    assert stat.S_IMODE((tmp_path / "precious").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "name", [b"..", b".", b"", b"a/b", b"/etc/passwd", b".git", b".GIT", b"nul\0", b"x" * 300], ids=repr
)  # fmt: skip
def test_a_tree_with_a_hostile_name_is_refused(name: bytes, work: Workspace, store: Store, tmp_path: Path) -> None:
    inner = objects.put(store, [b"owned"])
    data = encode_tree([Entry(name, FILE, 0o644, 5, bytes.fromhex(inner))])
    tree = objects.put(store, [data], names=[inner])
    draft = {"kind": "workspace_snapshotted", "snapshot": tree, "blob": tree}
    call(work.context, "append", {"session": work.id, "drafts": [draft]})
    with pytest.raises(Damaged, match="nothing of it is restored"):
        work.checkout(folder=str(tmp_path / "out" / "in"))
    assert not (tmp_path / "owned").exists()


def test_a_tree_cannot_write_through_a_link_of_its_own(work: Workspace, store: Store, tmp_path: Path) -> None:
    data = encode_tree([Entry(b"a", LINK, target=b"/tmp"), Entry(b"a", FILE, 0o644, 1, address(b"x"))])
    tree = objects.put(store, [data])
    draft = {"kind": "workspace_snapshotted", "snapshot": tree, "blob": tree}
    call(work.context, "append", {"session": work.id, "drafts": [draft]})
    with pytest.raises(Damaged, match="not in order"):
        work.checkout(folder=str(tmp_path / "out"))


def test_a_tree_that_stands_for_more_than_any_disk_takes_is_refused(
    work: Workspace, store: Store, tmp_path: Path, monkeypatch: Any
) -> None:
    tree = objects.put(store, [encode_tree([])])
    for _ in range(300):
        names = [Entry(name, FOLDER, 0o755, 0, bytes.fromhex(tree)) for name in (b"a", b"b")]
        tree = objects.put(store, [encode_tree(names)], names=[tree])
    draft = {"kind": "workspace_snapshotted", "snapshot": tree, "blob": tree}
    call(work.context, "append", {"session": work.id, "drafts": [draft]})
    with pytest.raises(Damaged, match="more than 200 folders deep"):
        work.checkout(folder=str(tmp_path / "deep"))
    monkeypatch.setattr("clew.service.workspaces.restoring.MOST_ENTRIES", 100)
    with pytest.raises(TooLarge, match="more than 100 files and folders"):
        work.checkout(folder=str(tmp_path / "wide"))


def test_a_file_that_changes_while_it_is_read_is_marked(work: Workspace, folder: Path, monkeypatch: Any) -> None:
    import clew.service.workspaces.saving as saving

    write(folder, a="0")
    opened = saving._opened

    def busy(path: bytes) -> Any:
        file = opened(path)
        with open(path, "a") as other:
            other.write("1")
        read = file.read

        class Changing:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def fileno(self) -> int:
                return file.fileno()

            def read(self, *size: int) -> bytes:
                data = read(*size)
                with open(path, "a") as other:
                    other.write("2")
                return data

        return Changing()

    monkeypatch.setattr(saving, "_opened", busy)
    assert "changed while it was read" in skipped(work.keep())["a"]
    assert work.cat(path="a").text.startswith("0")


def test_a_damaged_object_is_refused_and_nothing_wrong_is_written(
    work: Workspace, folder: Path, store: Store, tmp_path: Path
) -> None:
    (folder / "f").write_bytes(random.Random(2).randbytes(2_000_000))
    work.keep()
    damage(store)
    out = tmp_path / "out"
    with pytest.raises(ClewError):
        work.checkout(folder=str(out))
    assert not (out / "f").exists()


def damage(store: Store) -> None:
    """Flip one byte of what holds the bytes of objects."""
    current = store.pack_stores.current
    for stray in list(current.list("packs/")):
        data = bytearray(current.read(stray.key, 0, 10_000_000))
        data[len(data) // 2] ^= 1
        current.remove([stray.key])
        current.write(stray.key, bytes(data))


# Refusals -------------------------------------------------------------------------------------------------------------


def test_what_is_too_large_is_left_out_or_refused(work: Workspace, folder: Path) -> None:
    write(folder, small="1", large="x" * 1000)
    assert skipped(work.keep(largest=100)) == {"large": "has 1,000 bytes; the limit is 100"}
    with pytest.raises(TooLarge, match=r"name what is not needed in a \.clewignore"):
        work.keep(most=100)


def test_a_folder_that_is_not_there_is_refused(work: Workspace, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no folder"):
        work.snapshot(folder=str(tmp_path / "nothing"))
    with pytest.raises(InvalidInput, match="has no folder on this machine"):
        work.snapshot()


def test_no_restore_where_another_agent_is_at_work(work: Workspace, folder: Path, context: Context) -> None:
    write(folder, a="1")
    work.keep()
    write(folder, a="2")
    other = Plane(Local(context)).session("other", project="shop")
    other.append({"kind": "runtime_attached", "runtime": "codex", "cwd": str(folder)})
    other.start_turn()
    other.call("shell", {"command": "make"})
    with pytest.raises(Conflict, match=f"session {other.id} is at work"):
        work.restore(at=2)
    assert (folder / "a").read_text() == "2"
    work.restore(at=2, force=True)
    assert (folder / "a").read_text() == "1"


def test_names_that_are_one_file_there_are_refused(
    work: Workspace, folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    write(folder, readme="1", README="2")
    work.keep()
    monkeypatch.setattr("clew.service.workspaces.restoring.ignores_case", lambda folder: True)
    with pytest.raises(Conflict, match="README and readme in the folder are one file"):
        work.checkout(folder=str(tmp_path / "out"))


def test_a_full_disk_keeps_nothing_half(work: Workspace, folder: Path, store: Store, monkeypatch: Any) -> None:
    (folder / "f").write_bytes(random.Random(5).randbytes(300_000))

    def full(*_: object) -> None:
        raise DiskFull("no room left")

    with monkeypatch.context() as patched:
        patched.setattr(type(store.pack_stores.current), "write", full)
        with pytest.raises(DiskFull):
            work.keep()
    assert work.log() == []
    assert work.keep().files == 1


def test_a_preview_changes_nothing(work: Workspace, folder: Path) -> None:
    write(folder, a="1", b="1")
    work.keep()
    write(folder, a="2", c="3")
    (folder / "b").chmod(0o755)
    before = content(folder)
    found = {change.path: change.change for change in work.preview(at=2)}
    assert found == {"a": "changed", "b": "mode", "c": "removed"}
    assert content(folder) == before
    assert len(work.log()) == 1


def test_a_closed_session_is_checked_out_and_not_restored(
    work: Workspace, folder: Path, session: OpenSession, tmp_path: Path
) -> None:
    write(folder, a="1")
    work.keep()
    session.close()
    with pytest.raises(ClewError, match="closed"):
        work.restore()
    assert work.checkout(folder=str(tmp_path / "out")).files == 1
