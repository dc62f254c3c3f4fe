"""Objects survive what their writers and collectors do not: kill -9 at every step, power loss, flipped bytes.

CLEW_OBJECT_KILLS asks for more rounds than an ordinary run has time for.
"""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.model.errors import Damaged
from clew.store import Store, open_store
from clew.store.objects import objects
from clew.store.objects.pack_store import PART_BYTES
from crash.test_disk_full import small_disk
from store.rows import change, query
from support.children import Child
from support.object_promises import Promises, content
from support.postgres import Server
from support.power_loss import calls, moments, replay, strace, why_not_strace
from support.s3 import S3

KILLS = int(os.environ.get("CLEW_OBJECT_KILLS", "51"))
IMAGES = int(os.environ.get("CLEW_POWERLOSS_IMAGES", "2000")) // 20
FLIPS = 1000

Where = tuple[str, str]


@pytest.fixture(params=["folder", "rows", "s3"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """The URLs of a new store and of its pack store: each of the three that there are."""
    if request.param == "folder":
        return f"sqlite:///{tmp_path}/clew.db", ""
    if request.param == "rows":
        server: Server = request.getfixturevalue("postgres")
        return server.new_database(), ""
    s3: S3 = request.getfixturevalue("s3")
    return f"sqlite:///{tmp_path}/clew.db", s3.new_bucket()


def test_nothing_named_is_lost_and_nothing_else_is_kept_when_a_process_is_killed_at_any_step(
    where: Where, chance: random.Random
) -> None:
    """Each round dies at another step of the same story; the next one finds what all of them left."""
    open_store(where[0], objects=where[1]).close()
    promises = Promises()
    rounds, kills = KILLS // 3, 0
    with Child("object_steps.py", *where) as child:
        child.hear("ready")
        child.tell("whole", 0)
        steps = int(child.hear("steps")[0])
        child.hear("ended")
        for number in range(rounds):
            # Every stretch of the story has its round, and within it chance says at which step.
            at = 1 + (number * steps + chance.randrange(steps)) // rounds
            child.tell(f"round-{number}", at)
            code = int(child.hear("ended")[1])
            assert code in (0, -9), child.errors()
            kills += code == -9
            if number % 4 == 3 or number == rounds - 1:
                promises.hear(child.lines)
                with open_store(where[0], objects=where[1]) as store:
                    promises.check(store)
    assert kills >= rounds * 0.7, "hardly anybody was killed"
    print(f"{kills} kills among {steps} steps; {len(promises.named)} sessions named objects")


@pytest.mark.skipif(bool(why_not_strace()), reason=why_not_strace())
def test_nothing_named_is_lost_to_power_loss(scratch: Path, chance: random.Random) -> None:
    disk, image = scratch / "disk", scratch / "image"
    disk.mkdir()
    with Child("traced_objects.py", f"sqlite:///{disk}/clew.db", 3, under=strace(scratch / "trace")) as child:
        child.finish()
    traced = calls(scratch / "trace")
    named = 0
    for state in replay(traced, disk, moments(traced, disk, IMAGES, chance), chance):
        image.mkdir()
        state.leave(image)
        promises = Promises()
        promises.hear(state.said)
        if promises.named:
            named += 1
            with open_store(f"sqlite:///{image}/clew.db", synchronous="OFF") as store:
                promises.check(store)
        shutil.rmtree(image)
    print(f"{named} of {IMAGES} images were made after an object was named")
    assert named > IMAGES // 3


# Damage ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def packed(tmp_path: Path) -> Iterator[tuple[Store, dict[str, bytes]]]:
    """A store with objects in shared packs and in packs of their own, one of them in two parts."""
    with open_store(f"sqlite:///{tmp_path}/clew.db", synchronous="OFF") as store:
        small = [content(f"small {number}", 300 * (number + 1)) for number in range(40)]
        known = dict(zip(objects.put_many(store, small), small, strict=True))
        for size in (200_000, PART_BYTES + 100_000):
            data = content(str(size), size)
            known[objects.put(store, [data])] = data
        yield store, known


def test_every_flipped_byte_of_a_pack_is_found_and_costs_one_object(
    packed: tuple[Store, dict[str, bytes]], tmp_path: Path, chance: random.Random
) -> None:
    store, known = packed
    parts = sorted((tmp_path / "blobs" / "packs").glob("??/*"))
    spans = query(store, "SELECT lower(hex(digest)), pack, start, length FROM blob WHERE pack IS NOT NULL")
    for _ in range(FLIPS):
        # Mostly the pack with many objects, because a large one takes long to read.
        part = min(parts, key=lambda path: path.stat().st_size) if chance.random() < 0.9 else chance.choice(parts)
        at = chance.randrange(part.stat().st_size)
        flip(part, at, mask := chance.choice([1, 2, 4, 8, 16, 32, 64, 128, 255]))
        pack, _, number = part.name.partition("-")
        at += int(number) * PART_BYTES
        [hurt] = [name for name, of, start, length in spans if of == pack and start <= at < start + length]
        with pytest.raises(Damaged):
            objects.load(store, hurt)
        other = chance.choice([name for name in known if name != hurt and len(known[name]) < 100_000])
        assert objects.load(store, other) == known[other]
        flip(part, at - int(number) * PART_BYTES, mask)
    assert all(objects.load(store, name) == data for name, data in known.items())


def flip(path: Path, at: int, mask: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ mask]))


def test_no_last_byte_comes_from_an_object_that_is_another_one(packed: tuple[Store, dict[str, bytes]]) -> None:
    """A reader who knows the size does not read beyond it, so the end is checked before the last bytes are given."""
    store, known = packed
    one, other = (name for name in known if len(known[name]) in (300, 600))
    change(
        store,
        f"UPDATE blob SET (pack, start, length) = (SELECT pack, start, length FROM blob WHERE digest = x'{one}') "
        f"WHERE digest = x'{other}'",
    )
    with objects.open(store, other) as stream, pytest.raises(Damaged, match="another object"):
        stream.read(1)


# A full disk ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_freed_by_a_collection(tmp_path: Path) -> None:
    """To write the rest of a pack anew takes room, and what nobody needs any more gives it."""
    with Child("full_packs.py", tmp_path, under=small_disk(tmp_path, "16m")) as child:
        child.finish()
        assert child.heard("full") == [["disk_full"]]
        codes = [code for (code,) in child.heard("collected")]
        assert set(codes) <= {"disk_full", "none"}
        assert codes[-1] == "none", "a collection never comes to its end"
        assert child.heard("named") == [["all"]]
        assert child.heard("afterwards") == [["none"]]
