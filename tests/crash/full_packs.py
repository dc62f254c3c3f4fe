"""Fill FOLDER, a small disk of its own, with packs of which one object in eight is named, and collect: `full_packs.py
FOLDER`. Says what happened.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from clew.model.errors import ClewError
from clew.model.events import ArtifactSaved, Draft
from clew.store import open_store
from clew.store.log.opening import Opening
from clew.store.objects import objects
from clew.store.objects.collection import collect
from support.object_promises import ADA, content

# Room for the rows of what is deleted, and not for the packs that are written anew.
ROOM_BYTES = 1_000_000
TRIES = 4


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def code_of(act: Callable[[], object]) -> str:
    try:
        act()
    except ClewError as error:
        return error.code
    return "none"


def main(folder: Path) -> None:
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(ROOM_BYTES))
    with open_store(f"sqlite:///{folder}/log/clew.db") as store:
        session = store.open(Opening(project="p", title="t"), actor=ADA)
        named: dict[str, bytes] = {}

        def fill() -> None:
            while True:
                group = [content(f"{len(named)}/{number}", 100_000) for number in range(8)]
                first, *_ = objects.put_many(store, group)
                store.append(session, [Draft(body=ArtifactSaved(name="a", blob=first, size=1))], actor=ADA)
                named[first] = group[0]

        say("full", code_of(fill))
        ballast.unlink()
        for _ in range(TRIES):
            say("collected", code := code_of(lambda: collect(store, grace_us=0)))
            if code == "none":
                break
        say("named", "all" if all(objects.load(store, name) == data for name, data in named.items()) else "lost")
        say("afterwards", code_of(lambda: objects.put(store, [content("afterwards", 4_000_000)])))


main(Path(sys.argv[1]))
