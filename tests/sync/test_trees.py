"""The files of snapshots travel with their session: all of them, once, checked, and without secrets."""

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from clew.model.errors import ClewError, NotFound, Unavailable
from clew.model.file_tree import FILE, Entry, encode_tree
from clew.model.git_record import decode_git_record
from clew.service import call
from clew.service.replication import tree_pull, tree_push
from clew.service.replication.push import Push
from clew.service.replication.trees import packed
from clew.service.workspaces import cutting, saving
from clew.store.objects import objects
from clew.store.objects.collection import collect
from server.running import Running, writer
from service.test_workspace_property import content
from support.fake_secrets import some
from sync.machines import Machine, sound

Start = Any
SQLITE = pytest.mark.parametrize("database", ["sqlite"])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a large file here is quick to be searched for secrets."""
    monkeypatch.setattr(saving, "LARGE_BYTES", 200_000)
    monkeypatch.setattr(cutting, "SHORTEST", 16_000)
    monkeypatch.setattr(cutting, "LONGEST", 64_000)


def files(folder: Path, seed: int = 7) -> None:
    """A folder with all that a snapshot keeps, and a file that is stored in pieces."""
    noise = random.Random(seed)
    (folder / "src" / "empty").mkdir(parents=True)
    for number in range(30):
        (folder / "src" / f"m{number}.py").write_bytes(b"print(%d)\n" % number * 40)
    (folder / "src" / "same.py").write_bytes(b"print(1)\n" * 40)
    (folder / "large.bin").write_bytes(noise.randbytes(300_000))
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    os.symlink("run.sh", folder / "link")


def snapshot(machine: Machine, session: str, folder: Path) -> Any:
    return machine.plane.client.call("workspace_snapshot", session=session, folder=str(folder))


def checkout(machine: Machine, session: str, folder: Path, at: int | None = None) -> Any:
    given = {} if at is None else {"at": at}
    machine.plane.client.call("workspace_checkout", session=session, folder=str(folder), **given)
    return content(folder)


def test_the_files_travel_with_the_session(running: Running, machine: Start, tmp_path: Path) -> None:
    """From one machine to the server and to another, where a checkout equals the original; then only what is new."""
    first: Machine = machine(box="first")
    folder = tmp_path / "shop"
    files(folder)
    id = first.open("begin")
    taken = snapshot(first, id, folder)
    before = content(folder)
    pushed = first.push()
    assert (pushed.left_out, pushed.refused) == (0, {})
    assert pushed.blobs > 35, "31 files that differ, pieces, and trees"
    collect(running.authenticator.store, grace_us=0)

    second: Machine = machine(box="second")
    assert second.pull(id).left_out == 0
    collect(second.store, grace_us=0)
    assert checkout(second, id, tmp_path / "out") == before
    assert second.plane.client.call("workspace_log", session=id)[-1].snapshot == taken.snapshot

    # What is damaged there comes from the server.
    for path in (second.home / "blobs" / "packs").rglob("*-0"):
        path.write_bytes(path.read_bytes().replace(b"clew", b"CLEW"))
    shutil.rmtree(tmp_path / "out")
    folder.rename(tmp_path / "away")
    verified = second.plane.client.call("verify_objects")
    assert (verified.lost, {problem.source for problem in verified.problems}) == (0, {"the server team"})
    assert verified.repaired == len(verified.problems) > 3
    assert checkout(second, id, tmp_path / "out") == before
    (tmp_path / "away").rename(folder)

    # One edit: the file, its folder and the topmost one travel, and nothing else.
    (folder / "src" / "m1.py").write_bytes(b"changed\n")
    second_taken = snapshot(first, id, folder)
    assert first.push().blobs == 3
    assert second.pull(id).blobs == 3
    assert checkout(second, id, tmp_path / "again", at=second.store.head(second.store.session(id)).head) == content(
        folder
    )
    assert second_taken.snapshot != taken.snapshot

    # Another session of the project with the same files: both stores have them.
    other = first.open("another")
    snapshot(first, other, folder)
    assert first.push().blobs == 0
    assert second.pull(other).blobs == 0
    collect(second.store, grace_us=0)
    assert checkout(second, other, tmp_path / "other") == content(folder)
    sound(running.authenticator.store, first.store, second.store)


@SQLITE
def test_a_file_with_a_secret_does_not_leave(running: Running, machine: Start, tmp_path: Path) -> None:
    """It is left out of the snapshot there, and so is a large file with a secret where two pieces meet."""
    first: Machine = machine(box="first")
    folder = tmp_path / "shop"
    files(folder)
    token = f"gh{'p_'}{some('abcdefghijkmnpqrstuvwxyz23456789', 36)(random.Random(5))}"
    (folder / "src" / "config.py").write_text(f"token = '{token}'\n")
    noise = random.Random(3).randbytes(300_000)
    (folder / "large.bin").write_bytes(noise.replace(b"\0", b"a") + f"\ntoken = '{token}'\n".encode())
    id = first.open("begin")
    snapshot(first, id, folder)
    pushed = first.push()
    assert pushed.left_out == 2
    assert pushed.masked
    second: Machine = machine(box="second")
    second.pull(id)
    kept = checkout(second, id, tmp_path / "out")
    expected = content(folder)
    assert expected.keys() - kept.keys() == {b"large.bin", b"src/config.py"}
    assert all(expected[name] == kept[name] for name in kept)


@SQLITE
def test_what_is_staged_travels(running: Running, machine: Start, tmp_path: Path) -> None:
    """The record of git beside a snapshot names the bytes of staged files; one with a secret stays."""
    first: Machine = machine(box="first")
    folder = tmp_path / "shop"
    folder.mkdir()
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.example")
    token = f"gh{'p_'}{some('abcdefghijkmnpqrstuvwxyz23456789', 36)(random.Random(5))}"
    (folder / "a").write_text("staged")
    (folder / "b").write_text(f"token = '{token}'")
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "m"], ["add", "."]):
        subprocess.run([*git, *command], check=True)
    (folder / "a").write_text("edited")
    (folder / "b").write_text("edited")
    id = first.open("begin")
    snapshot(first, id, folder)
    assert (first.push().refused, first.push().left_out) == ({}, 0)
    second: Machine = machine(box="second")
    second.pull(id)
    collect(second.store, grace_us=0)
    [event] = [event for event in second.store.read(second.store.session(id)) if event.kind == "workspace_snapshotted"]
    record = decode_git_record(objects.load(second.store, event.body.git))  # type: ignore[union-attr]
    assert [(staged.path, bool(staged.digest)) for staged in record.staged] == [(b"a", True), (b"b", False)]
    assert objects.load(second.store, record.staged[0].digest.hex()) == b"staged"


@SQLITE
def test_a_digest_alone_gives_no_file(running: Running, machine: Start, tmp_path: Path) -> None:
    """Who knows the digest of a file of others cannot name it in a tree, and is not told that it is here."""
    first: Machine = machine(box="first")
    folder = tmp_path / "shop"
    files(folder)
    hers = first.open("mine alone")
    snapshot(first, hers, folder)
    first.push()
    running.key("person:eve", writer("person:eve", project="den"))
    context = running.authenticator.principal_context("person:eve")
    id = call(context, "open", {"project": "den"}).id
    digest = blake3((folder / "src" / "m1.py").read_bytes()).digest()
    assert objects.stat(running.authenticator.store, digest.hex()).size
    assert call(context, "sync_known", {"session": id, "digests": [digest.hex()], "bases": [hers]}) == []
    tree = encode_tree([Entry(b"stolen", FILE, 0o644, 360, digest)])
    with pytest.raises(ClewError, match="was not sent before it"):
        call(context, "sync_objects", {"session": id, "data": packed([("tree", tree)])})
    with pytest.raises(NotFound):
        call(context, "sync_read", {"session": id, "at": 1, "wanted": [{"digest": digest.hex()}]})


@SQLITE
def test_an_interrupted_push_and_pull_go_on(
    running: Running, machine: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What arrived before the interruption does not travel again."""
    for module in (tree_push, tree_pull):
        monkeypatch.setattr(module, "MOST_OBJECTS", 10)
    first: Machine = machine(box="first")
    folder = tmp_path / "shop"
    files(folder)
    id = first.open("begin")
    snapshot(first, id, folder)
    remote = first.remote()
    with pytest.raises(Unavailable):
        Push(first.context, first.home, first.setting, Broken(remote, "sync_objects", after=3)).run()
    remote.close()
    again = first.push()
    with first.store.database.read() as tx:
        [(total, *_)] = tx.run("objects_summary")
    assert again.blobs == total - 20, "two groups had arrived, the first in two requests"
    second: Machine = machine(box="second")
    assert second.pull(id).left_out == 0
    assert checkout(second, id, tmp_path / "out") == content(folder)


class Broken:
    """A server that is gone once it was asked for this so often."""

    def __init__(self, server: Any, name: str, *, after: int) -> None:
        self.server, self.name, self.left = server, name, after

    def call(self, name: str, /, **arguments: Any) -> Any:
        self.left -= name == self.name
        if self.left < 0:
            raise Unavailable("the network is gone")
        return self.server.call(name, **arguments)

    def close(self) -> None:
        self.server.close()
