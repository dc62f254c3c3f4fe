"""Random trees, edits, snapshots, forks and restores beside plain copies: always identical."""

import os
import random
import shutil
import stat
from pathlib import Path

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.store import Store
from clew.store.objects.collection import collect

ME = "person:ada"
STEPS = int(os.environ.get("CLEW_WORKSPACE_STEPS", "30"))
NAMES = ["a", "b.py", "c d", "é", "caf\udce9", "new\nline", "UPPER", "upper", "-dash", "x" * 200]


def content(folder: Path) -> dict[bytes, tuple[int, bytes]]:
    found: dict[bytes, tuple[int, bytes]] = {}
    for path in folder.rglob("*"):
        mode, name = path.lstat().st_mode, os.fsencode(path.relative_to(folder))
        if stat.S_ISLNK(mode):
            found[name] = (0, os.fsencode(os.readlink(path)))
        else:
            found[name] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found


def edit(chance: random.Random, folder: Path) -> None:
    """One random change below a folder."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())]
    path = chance.choice(folders) / chance.choice(NAMES)
    if len(path.relative_to(folder).parts) > 5:
        return
    what = chance.choice(["file", "file", "file", "folder", "folder", "link", "mode", "large", "move", "nothing"])
    if what == "mode" and path.exists() and not path.is_symlink():
        path.chmod(chance.choice([0o755, 0o700] if path.is_dir() else [0o644, 0o755, 0o600, 0o444]))
        return
    if what == "move" and os.path.lexists(path):
        target = chance.choice(folders) / chance.choice(NAMES)
        if not os.path.lexists(target) and not target.is_relative_to(path):
            path.rename(target)
        return
    remove(path)
    if what == "file":
        path.write_bytes(chance.randbytes(chance.choice([0, 1, 100, 70_000])))
    elif what == "large":
        path.write_bytes(random.Random(chance.randrange(2)).randbytes(5_000_000) + chance.randbytes(10))
    elif what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(chance.choice([".", "..", "/etc/passwd", "a", "nowhere"]))


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def test_a_restore_is_always_the_plain_copy(store: Store, tmp_path: Path) -> None:
    seed = int(os.environ.get("CLEW_SEED", "18"))
    chance = random.Random(seed)
    context = Context(
        store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(tmp_path / "home")
    )
    session = Plane(Local(context)).session("t")
    # Each session with its folder; each point of a session with what was in the folder then.
    folders = {session.id: tmp_path / "0"}
    points: dict[tuple[str, int], dict[bytes, tuple[int, bytes]]] = {}
    (tmp_path / "0").mkdir()
    for step in range(STEPS):
        id, folder = chance.choice([*folders.items()])
        for _ in range(chance.choice([0, 1, 5, 20])):
            edit(chance, folder)
        others = {other: content(path) for other, path in folders.items() if other != id}
        now = content(folder)
        what = chance.choice(["snapshot", "snapshot", "restore", "fork", "collect"]) if points else "snapshot"
        own = [seq for owner, seq in points if owner == id]
        if what == "snapshot":
            taken = call(context, "workspace_snapshot", {"session": id, "folder": str(folder)})
            points[id, taken.seq] = now
        elif what == "restore" and own:
            seq = chance.choice(own)
            restored = call(context, "workspace_restore", {"session": id, "at": seq, "folder": str(folder)})
            now = points[id, seq]
            if restored.undo is not None and chance.random() < 0.5:
                call(context, "workspace_restore", {"session": id, "at": restored.undo, "folder": str(folder)})
                continue
        elif what == "fork" and own:
            seq = chance.choice(own)
            child = call(context, "fork", {"session": id, "at": seq}).id
            folders[child] = tmp_path / f"{step + 1}"
            call(context, "workspace_checkout", {"session": child, "folder": str(folders[child])})
            points[child, seq] = points[id, seq]
            assert content(folders[child]) == points[id, seq], (seed, step)
        elif what == "collect":
            collect(store, grace_us=0)
        assert content(folder) == now, (seed, step, what)
        assert {other: content(folders[other]) for other in others} == others, (seed, step, what)
    for number, ((id, seq), expected) in enumerate(points.items()):
        out = tmp_path / f"out{number}"
        call(context, "workspace_checkout", {"session": id, "at": seq, "folder": str(out)})
        assert content(out) == expected, (seed, id, seq)
