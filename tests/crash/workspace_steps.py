"""Keep, change and restore a folder, and die at a step of it: `workspace_steps.py URL HOME FOLDER COPIES SESSION`.

Each line of standard input is a seed and a step, as in object_steps.py. What was acknowledged is said: `kept COPY SEQ`.
"""

import os
import random
import shutil
import sys
import threading
from pathlib import Path

from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.service.kernel.registry import load
from clew.store import open_store
from clew.store.objects import collection
from crash import object_steps
from crash.object_steps import Steps

object_steps.BUILTIN |= {"rename", "open", "symlink", "fchmod", "rmdir"}
NAMES = ("a", "b", "c", "link")


def change(folder: Path, chance: random.Random) -> None:
    """Change a few files, folders and links."""
    for _ in range(6):
        below = folder / chance.choice(("", "d", "e"))
        below.mkdir(exist_ok=True)
        path = below / chance.choice(NAMES)
        if os.path.lexists(path):
            path.unlink()
        elif path.name == "link":
            path.symlink_to("a")
        else:
            path.write_bytes(chance.randbytes(chance.choice((10, 10_000, 200_000))))
            path.chmod(chance.choice((0o644, 0o755)))


def tell(url: str, home: str, folder: Path, copies: Path, session: str, seed: str, at: int) -> None:
    chance = random.Random(seed)
    with open_store(url) as store:
        me = "person:me"
        context = Context(store=store, unrestricted=store, principal=me, grants=(owner_of_everything(me),), home=home)
        steps = object_steps.STEPS = Steps(at)
        for number in range(2):
            change(folder, chance)
            copy = copies / f"{seed}-{number}"
            # What a killed restore left unfinished is in no snapshot.
            shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(".clew-new-*"))
            threading.setprofile(steps)
            sys.setprofile(steps)
            seq = call(context, "workspace_snapshot", {"session": session, "folder": str(folder)}).seq
            object_steps.say("kept", copy.name, seq)
            change(folder, chance)
            call(context, "workspace_restore", {"session": session, "at": seq, "folder": str(folder)})
            object_steps.say("restored", seq)
            collection.collect(store, grace_us=0)
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]  # It ends what was set.
    os.write(1, f"steps {steps.count}\n".encode())


def main(url: str, home: str, folder: str, copies: str, session: str) -> None:
    load()  # Once, for all that are killed.
    os.write(1, b"ready\n")
    for line in sys.stdin:
        seed, at = line.split()
        child = os.fork()
        if child == 0:
            tell(url, home, Path(folder), Path(copies), session, seed, int(at))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        os.write(1, f"ended {seed} {os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
