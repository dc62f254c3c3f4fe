"""A disk that reports errors (T5): strace makes single calls of the unmodified program fail."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from clew.store import open_store
from clew.store.log.verify import verify
from support.children import Child
from support.drafts import batch_names, check_history, draft, name
from support.images import losses, promises
from support.power_loss import Call, calls, moments, strace, why_not_strace

COUNT = 14
NAMES = [name("w0", number) for number in range(COUNT)]
IMAGES = 15
LOG = "disk/clew.db"

pytestmark = pytest.mark.skipif(bool(why_not_strace()), reason=why_not_strace())


def write_with(inject: str, folder: Path) -> tuple[list[str], list[Call]]:
    """Run the writer while calls fail; returns what it said and what it did."""
    (folder / "disk").mkdir()
    arguments = (folder / LOG, "FULL", 1, COUNT, 7000)
    with Child("traced_writer.py", *arguments, under=strace(folder / "trace", inject=inject)) as child:
        child.finish()
        return child.lines, calls(folder / "trace")


def writes_before_appends(traced: Iterable[Call]) -> int:
    """How many times the writer wrote to the disk until the session was open and it said so."""
    count = 0
    for call in traced:
        if call.name == "write" and call.arguments[0] == "1" and bytes(call.arguments[1]).startswith(b"session "):
            return count
        count += call.name == "pwrite64" and call.when == "end"
    raise AssertionError("the writer opened no session")


def check_log(said: list[str], log: Path, *, under_way: Iterable[list[str]] = ()) -> None:
    """Check the log on the healthy disk: exactly what was acknowledged is there, and appending goes on."""
    session, acknowledged = promises(said)
    if not session:
        return
    with open_store(f"sqlite:///{log}") as store:
        place = store.session(session)
        check_history(list(store.read(place)), acknowledged=acknowledged, under_way=under_way)
        store.append(place, [draft("late-0")], actor="agent:late")
        check_history(list(store.read(place)), acknowledged={*acknowledged, "late-0"}, under_way=under_way)
        assert store.database.check() == []
        assert verify(store, place).problems == []


def codes(said: list[str]) -> set[str]:
    """The codes of all failures."""
    return {line.split()[1] for line in said if line.startswith("failed")}


def failed_batches(said: list[str]) -> list[list[str]]:
    """What failed to be appended, perhaps to succeed later."""
    failures = [line.split()[2:] for line in said if line.startswith("failed")]
    return [batch_names(failure[0], int(failure[1])) for failure in failures if len(failure) == 2]


def is_folder_sync_of_sqlite(traced: list[Call], folder: Path) -> bool:
    """Whether the call that failed synced a folder for SQLite, which goes on as if it had not failed."""
    folders: set[int] = set()
    for call in traced:
        if call.when == "end" and call.name == "openat":
            (folders.add if call.arguments[1] == bytes(folder) else folders.discard)(call.result)
        if call.when == "end" and call.name == "fdatasync" and call.result < 0:
            return int(str(call.arguments[0])) in folders
    return False


@pytest.mark.parametrize(
    ("sync", "number"), [*(("fdatasync", n) for n in (*range(1, 11), 15, 20)), *(("fsync", n) for n in range(1, 6))]
)
def test_an_append_whose_sync_failed_is_not_acknowledged(
    sync: str, number: int, chance: random.Random, scratch: Path
) -> None:
    """What was acknowledged survives a power loss; only a sync that succeeded counts."""
    said, traced = write_with(f"{sync}:error=EIO:when={number}", scratch)
    assert promises(said)[1] == set(NAMES), "each append succeeds when it is tried again"
    if not is_folder_sync_of_sqlite(traced, scratch / "disk"):
        found = losses(traced, scratch / LOG, moments(traced, scratch / "disk", IMAGES, chance), chance=chance)
        assert list(found) == []
    check_log(said, scratch / LOG)


@pytest.mark.parametrize(("sync", "first"), [("fdatasync", 14), ("fsync", 2)])
def test_nothing_is_acknowledged_that_no_sync_made_durable(
    sync: str, first: int, chance: random.Random, scratch: Path
) -> None:
    said, traced = write_with(f"{sync}:error=EIO:when={first}+", scratch)
    assert codes(said)
    assert codes(said) <= {"store", "unavailable"}
    assert list(losses(traced, scratch / LOG, [len(traced)] * IMAGES, chance=chance)) == []
    # Refused is not undone: what could not be synced may have reached the disk all the same.
    check_log(said, scratch / LOG, under_way=failed_batches(said))


@pytest.mark.parametrize("number", [1, 2, 3, 4, 11, 12, 30, 51, 71, 90, 110, 130, 150, 171, 190, 220])
def test_an_append_that_finds_no_room_says_so_and_succeeds_when_there_is_room(number: int, scratch: Path) -> None:
    said, traced = write_with(f"pwrite64:error=ENOSPC:when={number}", scratch)
    assert any(call.name == "pwrite64" and call.result < 0 for call in traced), "no call failed"
    assert codes(said) <= {"disk_full"}
    assert promises(said)[1] == set(NAMES)
    check_log(said, scratch / LOG)


def test_every_append_is_refused_while_there_is_no_room(scratch: Path) -> None:
    (scratch / "healthy").mkdir()
    _, healthy = write_with("pwrite64:error=ENOSPC:when=65535", scratch / "healthy")
    said, _ = write_with(f"pwrite64:error=ENOSPC:when={writes_before_appends(healthy) + 1}+", scratch)
    assert len(failed_batches(said)) > COUNT // 2
    assert codes(said) == {"disk_full"}
    check_log(said, scratch / LOG)
