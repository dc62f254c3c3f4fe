"""Measures objects beside plain files: a large one put and read, many small ones put, and the memory that it takes.

    python bench/objects.py [--mb N] [--small N] [--rounds N] [--strict]

A plain file is copied with `cp`, made durable with `sync`, and hashed with BLAKE3 by reading it once more: what a put
does in one pass. Reading writes a file, too. Each step runs in a process of its own, and the steps take turns.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median

from blake3 import blake3

_HERE = Path(__file__).resolve().parent
MOST_RATIO = 1.3
MOST_MB = 100
LEAST_TIMES = 5
PIECE = 1024 * 1024
# As much as `cp` writes at once.
WRITTEN = 128 * 1024
FOLDERS = 256


# What is measured; each prints its seconds and the most megabytes that it held ----------------------------------------


def put(folder: Path, source: Path) -> None:
    from clew.store import open_store
    from clew.store.objects import objects

    with open_store(f"sqlite:///{folder}/clew.db") as store, source.open("rb") as file:
        _print_seconds(lambda: objects.put(store, file))


def get(folder: Path, source: Path) -> None:
    """Read the only object of the store into a file."""
    from clew.store import open_store
    from clew.store.objects import objects

    name = _hashed(source)
    with open_store(f"sqlite:///{folder}/clew.db") as store:

        def read() -> None:
            with (folder / "read").open("wb", buffering=0) as file:
                for piece in objects.pieces(store, name):
                    for start in range(0, len(piece), WRITTEN):
                        file.write(memoryview(piece)[start : start + WRITTEN])
                os.fsync(file.fileno())

        _print_seconds(read)


def plain(folder: Path, source: Path) -> None:
    """Copy the file, make the copy durable, and hash it."""

    def copy() -> None:
        subprocess.run(["cp", str(source), str(folder / "copy")], check=True)
        subprocess.run(["sync", str(folder / "copy")], check=True)
        _hashed(source)

    _print_seconds(copy)


def _hashed(path: Path) -> str:
    hash = blake3()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            hash.update(piece)
    return hash.hexdigest()


def many(folder: Path, count: Path) -> None:
    from clew.store import open_store
    from clew.store.objects import objects

    made = list(small(int(str(count))))
    with open_store(f"sqlite:///{folder}/clew.db") as store:
        _print_seconds(lambda: sum(1 for _ in objects.put_many(store, made)))


def files(folder: Path, count: Path) -> None:
    """A file for each, as durable as an object: written, synced, renamed."""
    _print_seconds(lambda: _write(folder, int(str(count)), synced=True))


def files_not_synced(folder: Path, count: Path) -> None:
    _print_seconds(lambda: _write(folder, int(str(count)), synced=False))


def _write(folder: Path, count: int, *, synced: bool) -> None:
    for number in range(FOLDERS):
        (folder / f"{number:02x}").mkdir()
    for data in small(count):
        name = blake3(data).hexdigest()
        new = folder / "new"
        with new.open("wb", buffering=0) as file:
            file.write(data)
            if synced:
                os.fsync(file.fileno())
        new.rename(folder / name[:2] / name)


STEPS: dict[str, Callable[[Path, Path], None]] = {
    "put": put, "get": get, "plain": plain, "many": many, "files": files, "files_not_synced": files_not_synced,
}  # fmt: skip


def small(count: int) -> Iterator[bytes]:
    """Objects such as the files of a project: 100 bytes to 4 KB, half of it text that repeats."""
    chance = Random(3)
    for number in range(count):
        noise = chance.randbytes(chance.randint(50, 2000))
        yield b"%d\n" % number + noise + b"import os\n" * (len(noise) // 10)


def _print_seconds(run: Callable[[], object]) -> None:
    began = time.perf_counter()
    run()
    print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


# The run --------------------------------------------------------------------------------------------------------------


def measured(step: str, folder: Path, argument: object) -> tuple[float, float]:
    """The seconds and the megabytes of a step, in a process of its own."""
    command = [sys.executable, __file__, "--step", step, str(folder), str(argument)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=2048, help="How large the large object is.")
    parser.add_argument("--small", type=int, default=100_000, help="How many small objects there are.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step, folder, argument = options.step
        STEPS[step](Path(folder), Path(argument))
        return 0
    options.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        met = [_large(Path(scratch), options.mb, options.rounds), _small(Path(scratch), options.small, options.rounds)]
    return 1 if options.strict and not all(met) else 0


def _large(scratch: Path, megabytes: int, rounds: int) -> bool:
    source = scratch / "source"
    with source.open("wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(PIECE))
        os.fsync(file.fileno())
    taken: dict[str, list[float]] = {"put": [], "get": [], "plain": []}
    held: dict[str, float] = {}
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            # Reading follows the put; the plain copy comes first or last, in turn.
            for step in ("plain", "put", "get") if number % 2 else ("put", "get", "plain"):
                seconds, most = measured(step, Path(folder), source)
                held[step] = max(most, held.get(step, 0.0))
                if number:  # The first round warms up.
                    taken[step].append(seconds)
    source.unlink()
    print(f"one object of {megabytes:,} MB that does not compress, {rounds} rounds")
    print(f"  {'cp, sync and hash':<24} {median(taken['plain']):7.2f} s")
    met = True
    for step in ("put", "get"):
        ratios = [ours / plain for ours, plain in zip(taken[step], taken["plain"], strict=True)]
        fits = median(ratios) <= MOST_RATIO and held[step] < MOST_MB
        met = met and fits
        print(
            f"  {step:<24} {median(taken[step]):7.2f} s   {median(ratios):.2f}x (from {min(ratios):.2f} to "
            f"{max(ratios):.2f}; the bar is {MOST_RATIO}x)   {held[step]:.0f} MB held (the bar is {MOST_MB} MB)   "
            f"{'met' if fits else 'missed'}"
        )
    return met


def _small(scratch: Path, count: int, rounds: int) -> bool:
    steps = ("many", "files", "files_not_synced")
    taken: dict[str, list[float]] = {step: [] for step in steps}
    for number in range(rounds):
        for step in steps if number % 2 else reversed(steps):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                taken[step].append(measured(step, Path(folder), count)[0])
    print(f"{count:,} small objects, {rounds} rounds")
    print(f"  {'objects':<24} {median(taken['many']):7.2f} s")
    times = {step: median(taken[step]) / median(taken["many"]) for step in steps}
    for step, name in (("files", "a file each, synced"), ("files_not_synced", "a file each, not synced")):
        print(f"  {name:<24} {median(taken[step]):7.2f} s   {times[step]:.1f} times as long")
    met = times["files"] >= LEAST_TIMES
    print(f"  the bar is {LEAST_TIMES} times as long as objects, synced: {'met' if met else 'missed'}")
    return met


if __name__ == "__main__":
    sys.exit(main())
