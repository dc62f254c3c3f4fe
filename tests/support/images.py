"""Images of a disk after a power loss, opened with clew and compared with what crash/traced_writer.py had said."""

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from clew.model.errors import Damaged, NotFound
from clew.model.events import MessageAdded
from clew.store import open_store
from clew.store.log.verify import verify
from support.drafts import batch_names, check_order, draft, names
from support.power_loss import Call, replay


def losses(traced: Sequence[Call], log: Path, moments: Iterable[int], *, chance: random.Random) -> Iterator[str]:
    """Lose the power at each of these moments; yields a line for each image that lacks what was acknowledged.

    `log` is the database's file; only the folder `disk` above it was there before the trace.
    """
    disk_folder = next(folder for folder in log.parents if folder.name == "disk")
    image = disk_folder.with_name("image")
    for disk in replay(traced, disk_folder, moments, chance):
        image.mkdir()
        disk.leave(image)
        if missing := lost(disk.said, image / log.relative_to(disk_folder)):
            yield missing
        shutil.rmtree(image)


def lost(said: list[str], log: Path) -> str:
    """What was acknowledged and is not in the log; also checks that all that is there is as it was appended."""
    session, acknowledged = promises(said)
    if not session:
        return ""
    with open_store(f"sqlite:///{log}", synchronous="OFF") as store:
        assert store.database.check() == []
        try:
            place = store.session(session)
            events = list(store.read(place))
        except (NotFound, Damaged) as error:
            return str(error)
        assert verify(store, place).problems == []
    stored = names(events)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    check_order(stored)
    for event in events[-3:]:
        assert not isinstance(event.body, MessageAdded) or event.body == draft(names([event])[0]).body
    return " ".join(acknowledged - set(stored))


def promises(said: list[str]) -> tuple[str, set[str]]:
    """The session that the writer opened, and the names of the drafts that it had acknowledged."""
    session = ""
    acknowledged: set[str] = set()
    for word, *rest in map(str.split, said):
        if word == "session":
            session = rest[0]
        if word == "acknowledged":
            acknowledged.update(batch_names(rest[0], int(rest[1])))
    return session, acknowledged
