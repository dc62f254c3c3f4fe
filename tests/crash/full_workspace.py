"""Snapshots and restores on a disk that is full: FOLDER, a small disk of its own, and WORK, which is not on it."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import ClewError
from clew.service import Context, call
from clew.service.workspaces.snapshot import save
from clew.store import Store, open_store
from service.test_workspace_property import content

ME = "person:me"


def say(*words: object) -> None:
    print(*words, flush=True)


def error_of(act: Callable[[], object]) -> str:
    try:
        act()
    except ClewError as error:
        return f"{error.code} {error}"
    return "none"


def opened(url: str, home: Path) -> tuple[Store, Context]:
    store = open_store(url)
    grants = (owner_of_everything(ME),)
    return store, Context(store=store, unrestricted=store, principal=ME, grants=grants, home=str(home))


small, work = Path(sys.argv[1]), Path(sys.argv[2])
noise = random.Random(1)
(work / "files").mkdir()
for number in range(20):
    (work / "files" / f"f{number}").write_bytes(noise.randbytes(1_000_000))

store, context = opened(f"sqlite:///{small}/clew.db", small / "home")
with store:
    session = Plane(Local(context)).session("t")
    given = {"session": session.id, "folder": str(work / "files")}
    say("floor", error_of(lambda: call(context, "workspace_snapshot", given)))
    folder = os.fsencode(work / "files")
    say("full", error_of(lambda: save(context, store.session(session.id), folder, floor=0)))
    left = [path for path in (small / "blobs").rglob("*") if path.is_file()]
    say("left", sum(path.stat().st_size for path in left))
    session.append({"kind": "message_added", "role": "user", "text": "there is room for this"})
    say("appended", session.head)

for path in sorted(small.rglob("*"), reverse=True):
    path.rmdir() if path.is_dir() else path.unlink()
store, context = opened(f"sqlite:///{work}/clew.db", work / "home")
with store:
    id = Plane(Local(context)).session("t").id
    call(context, "workspace_snapshot", {"session": id, "folder": str(work / "files")})
    target = small / "out"
    target.mkdir()
    restore = {"session": id, "folder": str(target)}
    say("restore", error_of(lambda: call(context, "workspace_restore", restore)))
    whole = content(work / "files")
    say("only", all(whole[name] == kept for name, kept in content(target).items() if name in whole))
    subprocess.run(["mount", "-o", "remount,size=40m", str(small)], check=True)
    say("again", error_of(lambda: call(context, "workspace_restore", restore)))
    say("same", content(target) == whole)
