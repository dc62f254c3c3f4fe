"""Build the views of a log again and again, or fill the disk they are on: `rebuild URL LIMIT`, `fill FOLDER`."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from clew.model.errors import ClewError
from clew.model.events import Draft, MessageAdded
from clew.store import open_store
from clew.store.log.opening import Opening
from clew.views.upkeep import Views


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def rebuild(url: str, limit: int) -> None:
    """Go on with what there is at every line; at `again` from the beginning, and at `for ever` again and again."""
    with open_store(url) as store:
        views = Views(store)
        say("ready")
        while (told := input()) != "end":
            while True:
                if told != "go on":
                    views.rebuild()
                    say("begun")
                while views.catch_up(limit=limit).left:
                    pass
                say("built")
                if told != "for ever":
                    break
        views.close()


def fill(folder: Path) -> None:
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(3_000_000))
    with open_store(f"sqlite:///{folder}/clew.db", synchronous="OFF") as store:
        session = store.open(Opening(project="p"), actor="person:test")
        for number in range(60):
            text = " ".join(f"w{number}x{word}" for word in range(300))
            store.append(session, [Draft(body=MessageAdded(role="user", text=text))], actor="person:test")
        with (folder / "rest").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        views = Views(store)
        for _ in range(2):
            try:
                views.catch_up()
            except ClewError as error:
                say("failed", error.code, error)
        say("readable", len(list(store.read(session))), *store.database.check())
        ballast.unlink()
        say("taken", views.catch_up().done)
        views.close()


match sys.argv[1:]:
    case ["rebuild", url, limit]:
        rebuild(url, int(limit))
    case ["fill", folder]:
        fill(Path(folder))
