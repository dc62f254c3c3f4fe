"""The cost of showing only what the caller may see: `python bench/access.py [--sessions N] [--grants N] [--postgres]`.

The list of many sessions, for callers with many grants: on sessions all over, on the oldest ones (so that the whole
list has to be looked through), on projects and agents; beside the same list for the owner. Bar: p95 under 50 ms.
"""

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.append(str(_HERE.parent / "tests"))  # for the private PostgreSQL server; last, it must hide nothing

from clew.model.access import Grant, Right, owner_of_everything  # noqa: E402
from clew.service import Context, call  # noqa: E402
from clew.store import Store, open_store  # noqa: E402
from clew.store.log.opening import Opening, open_in  # noqa: E402
from clew.store.log.writing import write  # noqa: E402

ME = "person:ann"
OWNER = "person:owner"
PROJECTS = 200
AGENTS = 50
ROUNDS = 40
BAR_MS = 50.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--grants", type=int, default=10_000)
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        if options.postgres:
            from support.postgres import Server

            url = opened.enter_context(Server()).walled_database()
        else:
            url = f"sqlite:///{opened.enter_context(tempfile.TemporaryDirectory(dir=options.work))}/clew.db"
        store = opened.enter_context(open_store(url))
        owner = Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))
        ids = _opened(store, options.sessions)
        owner.views.catch_up()
        return _measured(owner, ids, options.grants)


def _measured(owner: Context, ids: list[str], count: int) -> int:
    chance = random.Random(1)
    asked = {
        "the owner": owner,
        f"{count:,} grants on sessions all over": _caller(owner, [_on(session=id) for id in chance.sample(ids, count)]),
        f"{count:,} grants on the oldest sessions": _caller(owner, [_on(session=id) for id in ids[:count]]),
        "100 projects": _caller(owner, [_on(project=f"project {n}") for n in range(100)]),
        f"one project and {count:,} grants on the oldest": _caller(
            owner, [_on(project="project 7"), *(_on(session=id) for id in ids[:count])]
        ),
        "agents of 40 projects": _caller(owner, [_on(project=f"project {n}", agent=f"agent {n}") for n in range(40)]),
        "one old session": _caller(owner, [_on(session=ids[3])]),
    }
    times: dict[str, list[float]] = {name: [] for name in asked}
    # Interleaved, so that a noisy moment of the machine meets all of them.
    for _ in range(ROUNDS):
        for name, context in asked.items():
            start = time.perf_counter()
            call(context, "sessions", {"limit": 50})
            times[name].append((time.perf_counter() - start) * 1000)
    missed = 0
    print(f"list of {len(ids):,} sessions, 50 of them shown, on {owner.store.database.describe()['database']}")
    for name, found in times.items():
        found.sort()
        p50, p95 = found[len(found) // 2], found[int(len(found) * 0.95)]
        missed += p95 > BAR_MS
        print(f"  {name:50} p50 {p50:6.1f} ms   p95 {p95:6.1f} ms{'   over the bar' if p95 > BAR_MS else ''}")
    start = time.perf_counter()
    _caller(owner, [_on(session=id) for id in ids[:count]]).reach(Right.SEE)
    print(f"  to work out what {count:,} grants reach, once for each key and half second: "
          f"{(time.perf_counter() - start) * 1000:.1f} ms")  # fmt: skip
    return 1 if missed else 0


def _on(**where: str) -> Grant:
    return Grant(principal=ME, rights=frozenset({Right.SEE, Right.READ}), **where)  # type: ignore[arg-type]


def _caller(owner: Context, grants: list[Grant]) -> Context:
    return Context(
        store=owner.store, unrestricted=owner.store, principal=ME, grants=tuple(grants), _views=[owner.views]
    )


def _opened(store: Store, count: int) -> list[str]:
    """So many sessions, oldest first, a thousand in a commit."""
    ids: list[str] = []
    while len(ids) < count:
        with store.database.write() as tx:
            plans = []
            for n in range(len(ids), min(count, len(ids) + 1000)):
                project, agent = f"project {n % PROJECTS}", f"agent {n % AGENTS}"
                opening = Opening(project=project, agent=agent, title=f"session {n}")
                plan = open_in(tx, opening, f"person:{n % 40}")
                plans.append(plan)
                ids.append(plan.session.id)
            write(tx, plans, store.pack_stores)
    return ids


if __name__ == "__main__":
    sys.exit(main())
