"""Measures finding: search beside agentsview on a thousand sessions, then search and lists at a million events.

Queries of the two programs take turns, so that both meet the same machine. agentsview is asked over HTTP on the
loopback, which is how it is meant to be asked; clew inside the process.
"""

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE.parent / "tests"))  # for the private PostgreSQL server

from large import EVENTS, Speech, fill, needle  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from transcripts import WORDS, make  # noqa: E402

import clew  # noqa: E402
from capture import Subject, install  # noqa: E402
from clew.client import Plane  # noqa: E402
from clew.store import open_store  # noqa: E402

Bar = tuple[str, str, bool | None]


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e3


def p50(times: list[float]) -> float:
    return statistics.median(times)


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


# Beside agentsview ----------------------------------------------------------------------------------------------------


@contextmanager
def agentsview(home: Path, corpus: Path) -> Iterator[Callable[[str], object]]:
    """A running agentsview that has taken the corpus in; asks it for a word."""
    with agentsview_served(home, corpus) as address:
        yield partial(_ask, address)


def _ask(address: str, words: str) -> object:
    url = f"{address}/api/v1/search?q={urllib.parse.quote(words)}"
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # our own loopback address
        return json.loads(answer.read())


@contextmanager
def agentsview_served(home: Path, corpus: Path) -> Iterator[str]:
    """The address of a running agentsview that has taken the corpus in."""
    subject = Subject("agentsview", home, corpus)
    subject.run()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [
        str(install("agentsview") / "agentsview"),
        "serve",
        "--no-browser",
        "--no-update-check",
        "--port",
        str(port),
    ]
    server = subprocess.Popen(argv, env=subject.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 60
        while True:
            try:
                _ask(address, "ready")
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait()


def beside(work: Path, sessions: int, rounds: int) -> tuple[Table, list[Bar]]:
    corpus = work / "corpus"
    make(corpus, sessions)
    subject = Subject("clew", work / "clew", corpus)
    subject.run()
    chance = random.Random(1)
    rare = [f"needle{n:05d}" for n in chance.sample(range(sessions), rounds)]
    common = [" ".join(chance.sample(WORDS, 2)) for _ in range(max(5, rounds // 4))]
    figures: dict[str, dict[str, list[float]]] = {"clew": {}, "agentsview": {}}
    with clew.connect(home=subject.data) as plane, agentsview(work / "agentsview", corpus) as ask:
        plane.search("warm")
        for kind, queries in (("rare word", rare), ("two common words", common)):
            for query in queries:
                found = plane.search(query)
                if not found.sessions:
                    sys.exit(f"clew did not find {query!r}")
                figures["clew"].setdefault(kind, []).append(timed(partial(plane.search, query)))
                figures["agentsview"].setdefault(kind, []).append(timed(partial(ask, query)))
    table = Table(title=f"searching {sessions} sessions, {sessions * 100} messages; p50 in ms")
    for column in ("program", "rare word", "two common words"):
        table.add_column(column, justify="left" if column == "program" else "right")
    for name, kinds in figures.items():
        table.add_row(name, *(f"{p50(times):.2f}" for times in kinds.values()))
    ours, theirs = (
        (p50(figures[name]["rare word"]), p50(figures[name]["two common words"])) for name in ("clew", "agentsview")
    )
    return table, [
        ("rare word, p50 under 5 ms", f"{ours[0]:.2f} ms", ours[0] < 5),
        ("rare word, not slower than agentsview", f"{ours[0] / theirs[0]:.2f}x", ours[0] <= theirs[0]),
        ("two common words, at least 10x faster than agentsview", f"{theirs[1] / ours[1]:.1f}x",
         theirs[1] >= 10 * ours[1]),
    ]  # fmt: skip


# At a million events --------------------------------------------------------------------------------------------------


def large(url: str, sessions: int, rounds: int, note: Callable[[str], None]) -> list[Bar]:
    began = time.perf_counter()
    with open_store(url) as store:
        size = fill(store, sessions, progress=lambda done: note(f"written {done:,} of {sessions:,} sessions"))
    note(f"written in {time.perf_counter() - began:.0f} s")
    with clew.connect(url) as plane:
        began = time.perf_counter()
        left = 1
        while left:
            left = plane.client.call("views_step", limit=20_000).left
            note(f"{left:,} events to index")
        took = time.perf_counter() - began
        lite = url.startswith("sqlite")
        bars: list[Bar] = [
            (f"indexing {sessions * EVENTS:,} events", f"{sessions * EVENTS / took:,.0f}/s", None),
            *_searches(plane, sessions, rounds, strict=lite),
            *_lists(plane, rounds, strict=lite),
        ]
        if lite:
            bars.append(_size(plane, size))
        else:
            bars.append(_plans(plane, url))
        return bars


def _searches(plane: Plane, sessions: int, rounds: int, *, strict: bool) -> list[Bar]:
    chance, speech = random.Random(2), Speech()
    numbers = chance.sample(range(0, sessions, 100), min(rounds, sessions // 100))
    rare = []
    for number in numbers:
        rare.append(timed(partial(_found, plane, needle(number))))
    common, relevant, narrowed, asked, vague = [], [], [], [], []
    for _ in range(rounds):
        words = " ".join(chance.sample(speech.words[:50], 2))
        common.append(timed(partial(plane.search, words)))
        relevant.append(timed(partial(plane.search, words, order="relevant")))
        filters = {"runtime": "codex", "project": f"project{chance.randrange(40)}", "role": "asked"}
        narrowed.append(timed(partial(plane.search, words, **filters)))
        question = " ".join(chance.sample(speech.words[:50], 3))
        vague.append(timed(partial(plane.recall, question)))
        asked.append(timed(partial(plane.recall, f"{question} {needle(chance.choice(numbers))}")))
    return [
        ("rare word, p95 under 10 ms", f"{p95(rare):.2f} ms (p50 {p50(rare):.2f})", p95(rare) < 10 if strict else None),
        ("two common words, p95 under 100 ms", f"{p95(common):.1f} ms (p50 {p50(common):.1f})",
         p95(common) < 100 if strict else None),
        ("the same by relevance, p95", f"{p95(relevant):.1f} ms (p50 {p50(relevant):.1f})", None),
        ("the same in a project, runtime and role, p95", f"{p95(narrowed):.1f} ms (p50 {p50(narrowed):.1f})", None),
        ("a question with a rare word, p95 under 100 ms", f"{p95(asked):.1f} ms (p50 {p50(asked):.1f})",
         p95(asked) < 100 if strict else None),
        ("a question of common words, p95 under 100 ms", f"{p95(vague):.1f} ms (p50 {p50(vague):.1f})",
         p95(vague) < 100 if strict else None),
    ]  # fmt: skip


def _found(plane: Plane, word: str) -> None:
    if not plane.search(word).sessions:
        sys.exit(f"clew did not find {word!r}")


def _lists(plane: Plane, rounds: int, *, strict: bool) -> list[Bar]:
    chance = random.Random(4)
    times = []
    for _ in range(rounds):
        filters = chance.choice(
            [
                {}, {"project": f"project{chance.randrange(40)}"}, {"runtime": "codex"},
                {"agent": f"agent{chance.randrange(13)}"}, {"state": "active"}, {"person": "ada"}, {"failed": True},
                {"since": "2026-06", "until": "2026-06"}, {"machine": "m3"},
                {"runtime": "cursor", "project": f"project{chance.randrange(40)}", "state": "active"},
            ]
        )  # fmt: skip
        times.append(timed(partial(plane.sessions, limit=50, **filters)))
    return [
        ("filtered list, p95 under 50 ms", f"{p95(times):.1f} ms (p50 {p50(times):.1f})",
         p95(times) < 50 if strict else None),
    ]  # fmt: skip


def _size(plane: Plane, text: int) -> Bar:
    """What the text index takes, by SQLite's own count of pages."""
    with plane.client.context.views.read() as tx:
        rows = tx.connection.execute(  # type: ignore[attr-defined]
            "SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'words%' OR name IN ('passage', 'speaking')"
        ).fetchall()
    [(taken,)] = rows
    share = taken / text
    return ("the text index adds at most 40 %", f"{share:.0%} of {text / 1e6:.0f} MB of text", share <= 0.4)


def _plans(plane: Plane, url: str) -> Bar:
    """Whether a search or a list would ever read a whole table."""
    from explain import scans

    found = scans(plane.client.context.views)
    return ("no plan of a search or a list reads a whole table", ", ".join(found) or "none", not found)


# Appending while the views follow -------------------------------------------------------------------------------------


def appending(work: Path, rounds: int) -> Bar:
    """An append alone, and while another process takes everything into the views at once; in turns."""
    home = work / "appending"
    alone: list[float] = []
    followed: list[float] = []
    with clew.connect(home=home) as plane:
        session = plane.session("appending")
        text = " ".join(random.Random(9).choices(WORDS, k=170))
        for turn in range(10):
            follower = None
            if turn % 2:
                env = {**os.environ, "CLEW_HOME": str(home)}
                follower = subprocess.Popen([sys.executable, "-m", "clew", "follow"], env=env, stdin=subprocess.PIPE)
                time.sleep(1)
            times = followed if turn % 2 else alone
            times += [timed(lambda: session.user(text)) for _ in range(rounds)]
            if follower is not None and follower.stdin is not None:
                follower.stdin.close()
                follower.wait()
    ratio = p50(followed) / p50(alone)
    return ("an append while the views follow, at most 1.15x", f"{ratio:.2f}x of {p50(alone):.2f} ms", ratio <= 1.15)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000, help="sessions of 100 messages beside agentsview")
    parser.add_argument("--large", type=int, default=100_000, help="sessions of 10 events in the large log")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    console = Console(width=120)
    bars: list[tuple[str, Bar]] = []

    def note(text: str) -> None:
        print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        work = Path(scratch)
        if options.only != "postgres":
            if not options.no_peers:
                table, found = beside(work, options.sessions, min(options.rounds, 100))
                console.print(table)
                bars += [("sqlite", bar) for bar in found]
            bars.append(("sqlite", appending(work, options.rounds * 2)))
            for bar in large(f"sqlite:///{work / 'large' / 'clew.db'}", options.large, options.rounds, note):
                bars.append(("sqlite", bar))
            shutil.rmtree(work / "large")
        if options.only != "sqlite":
            from support.postgres import Server

            with Server() as server:
                for bar in large(server.new_database(), options.large, max(20, options.rounds // 4), note):
                    bars.append(("postgres", bar))
    note("")
    verdicts = Table(title=f"finding in {options.large * EVENTS:,} events")
    for column in ("database", "bar", "measured", "met"):
        verdicts.add_column(column)
    for database, (claim, measured, met) in bars:
        verdicts.add_row(database, claim, measured, {True: "yes", False: "NO", None: ""}[met])
    console.print(verdicts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
