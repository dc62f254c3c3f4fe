"""Power loss, replayed from a trace of the unmodified program (T3): support/power_loss.py says what it can leave."""

import os
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.children import Child
from support.images import losses, promises
from support.power_loss import calls, moments, replay, strace, why_not_strace

IMAGES = int(os.environ.get("CLEW_POWERLOSS_IMAGES", "2000"))

pytestmark = pytest.mark.skipif(bool(why_not_strace()), reason=why_not_strace())


@dataclass(frozen=True)
class Writer:
    """How the traced program appends, and how often the database file is synced at least, once for each checkpoint."""

    threads: int = 1
    count: int = 420
    reopen: int = 7000
    synchronous: str = "FULL"
    log: str = "clew.db"
    database_syncs: int = 2


def lose_power(writer: Writer, *, images: int, chance: random.Random, folder: Path) -> list[str]:
    """Trace the writer, lose the power at random moments, and return what was lost, one line for each bad image."""
    log, trace = folder / "disk" / writer.log, folder / "trace"
    (folder / "disk").mkdir()
    arguments = (log, writer.synchronous, writer.threads, writer.count, writer.reopen)
    with Child("traced_writer.py", *arguments, under=strace(trace)) as child:
        child.finish()
        assert len(promises(child.lines)[1]) == writer.threads * writer.count
    traced = calls(trace)
    found = list(losses(traced, log, moments(traced, folder / "disk", images, chance), chance=chance))
    (end,) = replay(traced, folder / "disk", [len(traced)], chance)
    assert end.syncs[log.name] >= writer.database_syncs
    print(f"{images} images of {writer}: {len(found)} lost something")
    return found


@pytest.mark.parametrize(
    ("writer", "share"),
    [
        pytest.param(Writer(database_syncs=3), 0.4, id="enough for a checkpoint on the way"),
        pytest.param(Writer(threads=4, count=49), 0.3, id="four threads that share commits"),
        pytest.param(
            Writer(count=98, reopen=14, database_syncs=8), 0.25, id="a log that is opened and closed all the time"
        ),
        pytest.param(Writer(count=14, log="new/home/clew.db"), 0.05, id="a log in folders that are new"),
    ],
)
def test_nothing_acknowledged_is_lost_to_power_loss(
    writer: Writer, share: float, chance: random.Random, scratch: Path
) -> None:
    assert lose_power(writer, images=round(IMAGES * share), chance=chance, folder=scratch) == []


def test_power_loss_takes_events_that_were_not_synced(chance: random.Random, scratch: Path) -> None:
    """The other test can fail: with synchronous=NORMAL SQLite acknowledges before it syncs, and that must show."""
    assert len(lose_power(Writer(synchronous="NORMAL"), images=200, chance=chance, folder=scratch)) > 50
