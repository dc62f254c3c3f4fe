"""Workspaces survive kill -9 at every step of a snapshot, a restore and a collection.

CLEW_WORKSPACE_KILLS asks for more rounds than an ordinary run has time for.
"""

import os
import random
import shutil
from pathlib import Path

import pytest

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import ClewError
from clew.service import Context, call
from clew.store import open_store
from clew.store.objects import objects
from clew.store.objects.collection import collect
from crash.test_disk_full import small_disk
from service.test_workspace_property import content
from support.children import Child
from support.power_loss import calls, moments, replay, strace, why_not_strace

KILLS = int(os.environ.get("CLEW_WORKSPACE_KILLS", "12"))
IMAGES = int(os.environ.get("CLEW_POWERLOSS_IMAGES", "2000")) // 100
FLIPS = int(os.environ.get("CLEW_WORKSPACE_FLIPS", "60"))
ME = "person:me"


def test_nothing_acknowledged_is_lost_and_a_second_restore_completes(tmp_path: Path, chance: random.Random) -> None:
    url, home, folder, copies = (
        f"sqlite:///{tmp_path}/clew.db", tmp_path / "home", tmp_path / "work", tmp_path / "copies",
    )  # fmt: skip
    folder.mkdir()
    with open_store(url) as store:
        context = Context(
            store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(home)
        )
        session = Plane(Local(context)).session("t").id
        kills = 0
        with Child("workspace_steps.py", url, home, folder, copies, session) as child:
            child.hear("ready")
            child.tell("whole", 0)
            steps = int(child.hear("steps")[0])
            child.hear("ended")
            for number in range(KILLS):
                at = 1 + (number * steps + chance.randrange(steps)) // KILLS
                child.tell(f"round-{number}", at)
                code = int(child.hear("ended")[1])
                assert code in (0, -9), child.errors()
                kills += code == -9
                if number % 6 == 5 or number == KILLS - 1:
                    check(context, session, folder, copies, child.heard("kept"), tmp_path / "out")
        assert kills >= KILLS * 0.7, "hardly anybody was killed"


def check(context: Context, session: str, folder: Path, copies: Path, kept: list[list[str]], out: Path) -> None:
    """Every snapshot that was acknowledged is as its copy, after a collection, too; and a restore completes."""
    collect(context.store, grace_us=0)
    for copy, seq in kept:
        call(context, "workspace_checkout", {"session": session, "at": int(seq), "folder": str(out)})
        assert content(out) == content(copies / copy), copy
        shutil.rmtree(out)
    copy, seq = kept[-1]
    call(context, "workspace_restore", {"session": session, "at": int(seq), "folder": str(folder)})
    finished = {name: kept for name, kept in content(folder).items() if b".clew-new-" not in name}
    assert finished == content(copies / copy)


@pytest.mark.skipif(bool(why_not_strace()), reason=why_not_strace())
def test_no_acknowledged_snapshot_is_lost_to_power_loss(scratch: Path, tmp_path: Path, chance: random.Random) -> None:
    """Also not when old ones were thinned and collected meanwhile: the newest of then, and all after it, are whole."""
    disk, image, folder, copies = scratch / "disk", scratch / "image", tmp_path / "work", tmp_path / "copies"
    for made in (disk, folder, copies):
        made.mkdir()
    arguments = (f"sqlite:///{disk}/clew.db", disk / "home", folder, copies)
    with Child("traced_workspaces.py", *arguments, under=strace(scratch / "trace")) as child:
        child.finish()
    traced = calls(scratch / "trace")
    checked = 0
    for state in replay(traced, disk, moments(traced, disk, IMAGES, chance), chance):
        said = [line.split() for line in state.said]
        thinning = said.index(["thinning"]) if ["thinning"] in said else 0
        kept = [words[1:] for words in said[max(0, thinning - 1) :] if words[0] == "kept"]
        if kept:
            image.mkdir()
            state.leave(image)
            with open_store(f"sqlite:///{image}/clew.db", synchronous="OFF") as store:
                context = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))
                for session, copy, seq in kept:
                    out = tmp_path / "out"
                    call(context, "workspace_checkout", {"session": session, "at": int(seq), "folder": str(out)})
                    assert content(out) == content(copies / copy), (copy, said)
                    shutil.rmtree(out)
                    checked += 1
            shutil.rmtree(image)
    print(f"{IMAGES} images, {checked} snapshots checked out of them")
    assert checked > IMAGES // 3


def test_a_full_disk_ends_a_snapshot_and_a_restore_and_leaves_nothing_half(tmp_path: Path) -> None:
    """A snapshot is refused before it writes, or leaves nothing when the disk gets full; a restore goes on."""
    small, work = tmp_path / "small", tmp_path / "work"
    small.mkdir()
    work.mkdir()
    with Child("full_workspace.py", small, work, under=small_disk(small, "12m")) as child:
        child.finish()
        [floor], [full], [restore] = child.heard("floor"), child.heard("full"), child.heard("restore")
        assert floor[0] == "disk_full"
        assert "below" in floor
        assert full[0] == "disk_full"
        assert child.heard("left") == [["0"]]
        assert child.heard("appended") == [["2"]]
        assert restore[0] == "disk_full"
        assert child.heard("only") == [["True"]]
        assert child.heard("again") == [["none"]]
        assert child.heard("same") == [["True"]]


def test_a_flipped_byte_is_found_or_harmless(tmp_path: Path, chance: random.Random) -> None:
    """Wherever a byte of a pack is another, a checkout is refused or what was kept."""
    folder = tmp_path / "work"
    folder.mkdir()
    for number in range(20):
        (folder / f"f{number}").write_bytes(chance.randbytes(8_000) + b"text " * 500)
    expected = content(folder)
    with open_store(f"sqlite:///{tmp_path}/clew.db") as store:
        context = Context(
            store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(tmp_path / "h")
        )
        session = Plane(Local(context)).session("t").id
        call(context, "workspace_snapshot", {"session": session, "folder": str(folder)})
        [part] = [path for path in (tmp_path / "blobs" / "packs").rglob("*") if path.is_file()]
        whole, refused = part.read_bytes(), 0
        for _ in range(FLIPS):
            damaged = bytearray(whole)
            damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
            part.write_bytes(damaged)
            out = tmp_path / "out"
            try:
                call(context, "workspace_checkout", {"session": session, "folder": str(out)})
                assert content(out) == expected
            except ClewError:
                refused += 1
                assert all(expected[name] == kept for name, kept in content(out).items())
                assert call(context, "verify_objects", {"dry_run": True}).problems, "a checkout was refused"
            shutil.rmtree(out, ignore_errors=True)
        assert refused > FLIPS * 0.9
        part.write_bytes(whole)
        assert objects.stat(store, call(context, "workspace_log", {"session": session})[0].snapshot).refs >= 1
