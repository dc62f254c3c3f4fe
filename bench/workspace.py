"""Measures snapshots of a folder beside git, restic (if it is installed), a bare walk and `cp -a`.

    python bench/workspace.py [--files N] [--mb N] [--rounds N] [--strict]

The tree is made of texts that compress like source code, and of some that do not. Each step runs in a process of
its own, and the steps of a round take turns.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

WORDS = "def return import self for in if else None value name path file session store event object test assert".split()
EDITS = 10
# What the figures have to be.
GIT_TIMES, WALK_RATIO, COPY_RATIO, MOST_MB, DAY_RATIO = 3.0, 1.3, 1.3, 200.0, 1.1
DAY = 100
ME = "person:me"


def make_tree(root: Path, files: int, megabytes: int) -> None:
    """A tree like a repository: most files small, a few large, one in ten random bytes."""
    chance = random.Random(1)
    mean = megabytes * 1_000_000 / files
    for number in range(files):
        folder = root / f"p{number % 37}" / f"d{number // 37 % 53}"
        if number % 100 < 7:
            folder = folder / f"deep{number % 11}"
        folder.mkdir(parents=True, exist_ok=True)
        size = max(1, int(chance.expovariate(1 / mean)))
        data = chance.randbytes(size) if number % 10 == 0 else text(chance, size)
        (folder / f"f{number}.py").write_bytes(data)


def text(chance: random.Random, size: int) -> bytes:
    line = " ".join(f"{chance.choice(WORDS)}_{chance.randrange(1000)}" for _ in range(200)).encode()
    pieces = [
        line[at : at + chance.randrange(20, 70)] for at in (chance.randrange(1500) for _ in range(size // 45 + 1))
    ]
    return b"\n".join(pieces)[:size]


def edit(root: Path, chance: random.Random) -> int:
    """Change ten files; returns how many bytes they have."""
    files = sorted(root.rglob("f*.py"))
    size = 0
    for path in chance.sample(files, EDITS):
        data = path.read_bytes() + text(chance, 100)
        path.write_bytes(data)
        size += len(data)
    return size


# What is measured -----------------------------------------------------------------------------------------------------


def clew(step: str, home: Path, *arguments: str) -> float:
    """Run a step of clew in a process of its own; returns its seconds."""
    out = subprocess.run(
        [sys.executable, __file__, "--step", step, str(home), *arguments], check=True, capture_output=True, text=True
    ).stdout.split()
    PEAKS.append(float(out[1]))
    return float(out[0])


PEAKS: list[float] = []


def run_step(step: str, home: str, *arguments: str) -> None:
    from clew.model.access import owner_of_everything
    from clew.service import Context, call
    from clew.service.kernel.registry import load
    from clew.store import open_store

    load()
    with open_store(f"sqlite:///{home}/clew.db") as store:
        context = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=home)
        listed = store.sessions(limit=1)
        session = listed[0].session.id if listed else call(context, "open", {"title": "bench"}).id
        began = time.perf_counter()
        if step == "snapshot":
            call(context, "workspace_snapshot", {"session": session, "folder": arguments[0]})
        elif step == "checkout":
            call(context, "workspace_checkout", {"session": session, "folder": arguments[0]})
        elif step == "fork":
            call(context, "fork", {"session": session})
        seconds = time.perf_counter() - began
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def timed(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def git(root: Path, store: Path, message: str) -> float:
    began = time.perf_counter()
    place = ["git", f"--git-dir={store}", f"--work-tree={root}", "-c", "user.name=a", "-c", "user.email=a@b"]
    if not store.exists():
        subprocess.run([*place, "init", "-q"], check=True)
    subprocess.run([*place, "add", "-A", "-f"], check=True)
    subprocess.run([*place, "commit", "-q", "-m", message], check=True)
    return time.perf_counter() - began


WALK = """
import os, sys, time
def walk(path):
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            walk(entry.path)
        else:
            entry.stat(follow_symlinks=False)
began = time.perf_counter()
walk(sys.argv[1])
print(time.perf_counter() - began)
"""


def walk(root: Path) -> float:
    out = subprocess.run([sys.executable, "-c", WALK, str(root)], check=True, capture_output=True, text=True)
    return float(out.stdout)


def disk(path: Path) -> int:
    return sum(file.lstat().st_blocks * 512 for file in path.rglob("*") if not file.is_dir())


# Rounds ---------------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--mb", type=int, default=45)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--day", type=int, default=DAY, help="How many snapshots a working day has.")
    parser.add_argument("--strict", action="store_true", help="Fail when a bar is missed.")
    parser.add_argument("--folder", default="", help="Where to work. [default: a temporary folder]")
    given = parser.parse_args()
    missed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="clew-bench-", dir=given.folder or None) as name:
        folder = Path(name)
        make_tree(folder / "tree", given.files, given.mb)
        print(f"{given.files:,} files, {disk(folder / 'tree') / 1e6:,.0f} MB on disk; {given.rounds} rounds, medians")
        missed += first(folder, given.rounds)
        missed += incremental(folder, given.rounds)
        missed += restores(folder, given.rounds)
        missed += day(folder, given.day)
    print(f"peak memory {max(PEAKS):.0f} MB (bar {MOST_MB:.0f})")
    missed += ["memory"] if max(PEAKS) > MOST_MB else []
    print("missed: " + ", ".join(missed) if missed else "every bar is met")
    return 1 if missed and given.strict else 0


def measured(steps: dict[str, Callable[[int], float]], rounds: int) -> dict[str, float]:
    """The median of each step; in each round they take turns, and another one is first."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds):
        names = [*steps][number % len(steps) :] + [*steps][: number % len(steps)]
        for name in names:
            seconds[name].append(steps[name](number))
    return {name: median(values) for name, values in seconds.items()}


def first(folder: Path, rounds: int) -> list[str]:
    steps: dict[str, Callable[[int], float]] = {
        "clew": lambda n: clew("snapshot", folder / f"clew{n}", str(folder / "tree")),
        "git add && commit": lambda n: git(folder / "tree", folder / f"git{n}", "first"),
    }
    if shutil.which("restic"):
        steps["restic"] = lambda n: restic(folder, n)
    for number in range(rounds):
        (folder / f"clew{number}").mkdir()
    found = measured(steps, rounds)
    for name, seconds in found.items():
        print(f"first snapshot: {name} {seconds:.2f} s ({seconds / found['clew']:.2f}x clew)")
    sizes = {"clew": disk(folder / "clew0"), "git": disk(folder / "git0")}
    print("disk: " + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items()))
    return [
        *(["first"] if found["git add && commit"] < GIT_TIMES * found["clew"] else []),
        *(["restic"] if found.get("restic", 1e9) < found["clew"] else []),
        *(["disk"] if sizes["clew"] > sizes["git"] else []),
    ]


def restic(folder: Path, number: int) -> float:
    env = {
        "RESTIC_PASSWORD": "x",
        "RESTIC_REPOSITORY": str(folder / f"restic{number}"),
        "RESTIC_CACHE_DIR": str(folder / "cache"),
    }
    timed("restic", "init", "-q", env=env)
    return timed("restic", "backup", "-q", str(folder / "tree"), env=env)


def incremental(folder: Path, rounds: int) -> list[str]:
    chance = random.Random(2)
    time.sleep(2.1)  # What was just written is read again, because it could change without a new time.
    clew("snapshot", folder / "clew0", str(folder / "tree"))
    seconds: dict[str, list[float]] = {"clew": [], "git": [], "walk": [], "unchanged": []}
    for number in range(max(rounds, 5)):
        edit(folder / "tree", chance)
        seconds["walk"].append(walk(folder / "tree"))
        seconds["clew"].append(clew("snapshot", folder / "clew0", str(folder / "tree")))
        seconds["git"].append(git(folder / "tree", folder / "git0", f"edit {number}"))
        seconds["unchanged"].append(clew("snapshot", folder / "clew0", str(folder / "tree")))
        seconds["walk"].append(walk(folder / "tree"))
    found = {name: median(values) for name, values in seconds.items()}
    for name, value in found.items():
        print(f"after {EDITS} edits: {name} {value * 1000:.0f} ms ({value / found['walk']:.2f}x the walk)")
    return ["incremental"] if found["clew"] > WALK_RATIO * found["walk"] else []


def restores(folder: Path, rounds: int) -> list[str]:
    steps: dict[str, Callable[[int], float]] = {
        "clew": lambda n: clew("checkout", folder / "clew0", str(folder / f"out{n}")),
        "cp -a": lambda n: timed("cp", "-a", str(folder / "tree"), str(folder / f"copy{n}")),
    }
    found = measured(steps, rounds)
    found["fork"] = median(clew("fork", folder / "clew0") for _ in range(rounds))
    for name, seconds in found.items():
        print(f"restore: {name} {seconds:.3f} s ({seconds / found['cp -a']:.2f}x cp -a)")
    different = subprocess.run(["diff", "-rq", folder / "tree", folder / "out0"], capture_output=True, check=False)
    if different.stdout:
        raise SystemExit(f"the restored tree is another: {different.stdout[:300]!r}")
    return [
        *(["restore"] if found["clew"] > COPY_RATIO * found["cp -a"] else []),
        *(["fork"] if found["fork"] > 0.05 else []),
    ]


def day(folder: Path, snapshots: int) -> list[str]:
    """A working day of snapshots: what is on disk beside the first one and the bytes that changed."""
    chance, home = random.Random(3), folder / "clew1"
    clew("snapshot", home, str(folder / "tree"))
    base, changed = disk(home), 0
    for _ in range(snapshots):
        changed += edit(folder / "tree", chance)
        clew("snapshot", home, str(folder / "tree"))
    grown = disk(home) - base
    print(f"{snapshots} snapshots of {EDITS} edits: {grown / 1e6:.1f} MB for {changed / 1e6:.1f} MB that changed "
          f"({grown / changed:.2f}x)")  # fmt: skip
    return ["day"] if grown > DAY_RATIO * changed else []


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        run_step(sys.argv[2], *sys.argv[3:])
    else:
        sys.exit(main())
