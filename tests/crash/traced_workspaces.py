"""Take snapshots, thin and collect them, for a trace: `traced_workspaces.py URL HOME FOLDER COPIES`."""

import os
import random
import shutil
import sys
from pathlib import Path

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.store import open_store
from clew.store.log.thinning import thin
from clew.store.objects.collection import collect

ME = "person:me"
DAY_US = 24 * 3_600_000_000


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


url, home, folder, copies = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
chance = random.Random(1)
with open_store(url) as store:
    context = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=home)
    session = Plane(Local(context)).session("t").id
    for number in range(6):
        (folder / f"f{chance.randrange(3)}").write_bytes(chance.randbytes(90_000))
        (folder / f"d{number % 2}").mkdir(exist_ok=True)
        (folder / f"d{number % 2}" / "small").write_text(str(number))
        shutil.copytree(folder, copies / str(number))
        taken = call(context, "workspace_snapshot", {"session": session, "folder": str(folder)})
        say("kept", session, number, taken.seq)
        if number == 3:
            say("thinning")
            thin(store, store.session(session), actor=ME, now=store.now() + 2 * DAY_US)
            collect(store, grace_us=0)
