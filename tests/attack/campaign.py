"""Attacks a running server thousands of times, and a server with planted holes until each hole is found.

Run it with `make attack`. Every attack is made from the seed that is printed, so that a run can be repeated.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from attack import entering, naming, racing, ruling
from attack.attack import Attack, Race, verdict
from attack.entering import their_request
from attack.holes import HOLES
from attack.serving import Serving
from attack.wire import Answer, request, send
from attack.world import World, plant, state
from clew.store import Store, open_store
from support.postgres import Server

# Each family with its share of all attacks.
FAMILIES = {
    naming.swaps: 22, naming.tells: 10, naming.cursors: 6, naming.injections: 12, naming.over_mcp: 4, naming.streams: 3,
    naming.pages: 3, naming.actions: 3, entering.tokens: 9, entering.logins: 4, entering.credentials: 6,
    entering.headers: 5, entering.paths: 5, entering.encodings: 4, ruling.rules: 6, ruling.blobs: 4, ruling.secrets: 10,
    racing.races: 1,
}  # fmt: skip
# Attacks are not known to have changed anything until it is looked at; after those that were carried out, at once.
LOOK_EVERY = 50


class Success(NamedTuple):
    number: int
    attack: Attack | Race
    why: str


class Result(NamedTuple):
    counts: Counter[str]
    successes: list[Success]
    seconds: float


def attacks(world: World, seed: int) -> Iterator[Attack | Race]:
    """All families side by side, each from a seed of its own."""
    order = random.Random(seed)
    made = {family: family(world, random.Random(f"{seed} {family.__name__}")) for family in FAMILIES}
    while True:
        [family] = order.choices(list(FAMILIES), weights=list(FAMILIES.values()))
        yield next(made[family])


def campaign(world: World, seed: int, count: int, *, hole: str = "", stop_at: int = 0) -> Result:
    """Start a server and attack it so often; or until so many attacks have succeeded."""
    counts: Counter[str] = Counter()
    successes: list[Success] = []
    began = time.monotonic()
    with open_store(world.url) as store, Serving(world.url, world.home, hole) as serving:
        port = serving.port
        send(port, their_request(world))
        before = state(store, world)
        for number, attack in enumerate(attacks(world, seed), 1):
            if number > count or (stop_at and len(successes) >= stop_at):
                break
            counts[attack.family] += 1
            why, is_done = _carried_out(world, port, attack)
            if is_done or number % LOOK_EVERY == 0:
                why = why or _changed(store, world, before)
            if why:
                successes.append(Success(number, attack, why))
                before = state(store, world)
            if not serving.is_alive:
                successes.append(Success(number, attack, "the server ended"))
                break
        if why := _changed(store, world, before):
            successes.append(Success(count, attack, why))
        if not hole:
            successes += [Success(count, attack, why) for why in _shut_out(world, port)]
    return Result(counts, successes, time.monotonic() - began)


def _carried_out(world: World, port: int, attack: Attack | Race) -> tuple[str, bool]:
    try:
        if isinstance(attack, Race):
            return attack.run(port), False
        answer = send(port, attack.raw, until=attack.until)
        twin = send(port, attack.twin, until=attack.until) if attack.twin else None
    except ConnectionError as error:
        return f"the server took no connection: {error}", False
    is_change = not attack.raw.startswith(b"GET ")
    return verdict(world, attack, answer, twin), is_change and answer.is_done


def _changed(store: Store, world: World, before: set[str]) -> str:
    changed = sorted(state(store, world) ^ before)
    return f"it changed {changed[0][:200]}" if changed else ""


def _shut_out(world: World, port: int) -> Iterator[str]:
    """Attackers who lost their own rights on the way would have shown nothing: all of them still have theirs."""
    own = {"mole": world.vault.session, "colleague": world.vault.session}
    for way in world.living():
        session = own.get(way.name, world.ours.session)
        path = "/v1/me" if way.name == "see-only key" else f"/v1/sessions/{session}/events?limit=1"
        answer: Answer = send(port, request("GET", path, way.headers))
        if not answer.is_done:
            yield f"the attacker {way.name} could do nothing any more: {answer.text[-200:]!r}"


def find(world: World, seed: int, count: int, hole: str) -> Success | None:
    """The first attack that succeeds where a hole was made."""
    found = campaign(world, seed, count, hole=hole, stop_at=1).successes
    return found[0] if found else None


# The whole of it ------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attacks", type=int, default=6000, help="how many on each database")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--database", choices=("sqlite", "postgres"), action="append", help="only this one")
    parser.add_argument("--without-holes", action="store_true", help="plant none")
    parser.add_argument("--hole", action="append", choices=HOLES, help="plant only this one")
    options = parser.parse_args()
    print(f"seed {options.seed}; the same attacks again: make attack ARGS='--seed {options.seed}'", flush=True)
    failed = False
    for database in options.database or ("sqlite", "postgres"):
        with tempfile.TemporaryDirectory() as folder, Databases(database, Path(folder)) as databases:
            if not options.hole:
                result = campaign(databases.world(options.seed), options.seed, options.attacks)
                failed |= report(database, result)
            if not options.without_holes:
                failed |= plant_holes(database, databases, options.seed, options.hole or list(HOLES))
    return 1 if failed else 0


class Databases:
    """New worlds on one database."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._server = Server(durable=False) if kind == "postgres" else None

    def __enter__(self) -> "Databases":
        if self._server is not None:
            self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    def world(self, seed: int, *, has_wall: bool = True) -> World:
        """On PostgreSQL the second wall can be left out, because a hole in the first one would be hidden by it."""
        self._count += 1
        home = self._folder / str(self._count)
        home.mkdir()
        if self._server is None:
            return plant(f"sqlite:///{home / 'clew.db'}", home, seed)
        return plant(self._server.two_roles().runtime if has_wall else self._server.new_database(), home, seed)


def report(database: str, result: Result) -> bool:
    succeeded = Counter(success.attack.family for success in result.successes)
    print(f"\n{database}: {result.counts.total()} attacks in {result.seconds:.0f} s")
    print(f"  {'family':16} {'attacks':>8} {'successes':>10}")
    for family, count in sorted(result.counts.items()):
        print(f"  {family:16} {count:8} {succeeded[family]:10}")
    print(f"  {'total':16} {result.counts.total():8} {succeeded.total():10}", flush=True)
    for success in result.successes:
        print(
            f"  attack {success.number}, {success.attack.family}: {success.attack.about}\n    {success.why}", flush=True
        )
    return bool(result.successes)


def plant_holes(database: str, databases: Databases, seed: int, holes: list[str]) -> bool:
    print(f"\n{database}: planted holes, and the first attack that found each")
    missed = 0
    for hole in holes:
        success = find(databases.world(seed, has_wall=False), seed, 3000, hole)
        missed += success is None
        told = f"{success.number:5} {success.attack.family}: {success.why[:80]}" if success else "NOT FOUND"
        print(f"  {hole:44} {told}", flush=True)
    print(f"  {len(holes) - missed} of {len(holes)} found", flush=True)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
