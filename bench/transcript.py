"""Measures the pages of the transcript of a long session, on both databases.

    python bench/transcript.py [--events N] [--rounds N] [--strict]

The session has rewinds, revisions and calls whose returns come late. The bar is for the first page in a process that
has the store open; the views are up to date, as they are after a capture.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Raw

_HERE = Path(__file__).resolve().parent
sys.path.append(str(_HERE.parent / "tests"))  # for the private PostgreSQL server

from clew.model.access import owner_of_everything  # noqa: E402
from clew.model.events import CallMade, CallReturned, Draft, MessageAdded, Rewound  # noqa: E402
from clew.service import Context, call  # noqa: E402
from clew.store import Store, open_store  # noqa: E402
from clew.store.log.opening import Opening  # noqa: E402

ME = "person:bench"
# The first page of a session of 50,000 events takes less than this.
BAR_MS = 50.0
OUTPUT = Raw(b'"%s"' % (b"a line of output " * 40))


def main() -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description="Measure the pages of a transcript.")
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--strict", action="store_true", help="exit with 1 when the bar is missed")
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        missed |= measured("sqlite", f"sqlite:///{folder}/clew.db", options.events, options.rounds)
        from support.postgres import Server

        with Server() as server:
            missed |= measured("postgres", server.new_database(), options.events, options.rounds)
    return 1 if missed and options.strict else 0


def measured(name: str, url: str, events: int, rounds: int) -> bool:
    """Print the times of the pages on one database; returns whether the bar was missed."""
    with open_store(url) as store:
        context = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))
        id = filled(store, events)
        started = time.perf_counter()
        context.views.catch_up()
        print(f"{name}: {events:,} events; all views caught up in {time.perf_counter() - started:.1f} s")
        asked: dict[str, dict[str, int]] = {
            "first page": {}, "last page": {"backward": 2**62}, "a page in the middle": {"at": events // 2},
            "last three turns": {"last": 3}, "first page as it was half-way": {"upto": events // 2},
        }  # fmt: skip
        first = 0.0
        for what, arguments in asked.items():
            ms = median_ms(rounds, lambda given=arguments: call(context, "transcript", {"session": id, **given}))  # type: ignore[misc]
            first = first or ms
            print(f"  {what:32} {ms:7.1f} ms")
        context.views.close()
    print(f"  the bar for the first page is {BAR_MS:.0f} ms: {'met' if first < BAR_MS else 'missed'}")
    return first >= BAR_MS


def median_ms(rounds: int, ask: Callable[[], object]) -> float:
    ask()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        ask()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


def filled(store: Store, events: int) -> str:
    """A session with so many events."""
    session = store.open(Opening(project="bench", title="A long session"), actor=ME)
    drafts: list[Draft] = []
    for draft in talk(events - 1):
        drafts.append(draft)
        if len(drafts) == 1000:
            store.append(session, drafts, actor=ME)
            drafts = []
    store.append(session, drafts, actor=ME)
    return session.id


def talk(events: int) -> Iterator[Draft]:
    """Prompts with calls and answers, a rewind every 500 events, and a revision every 100."""
    for number in range(events):
        source = f"r{number}"
        if number % 500 == 499:
            yield Draft(body=Rewound(to=f"r{number - 20}"), source=source)
        elif number % 100 == 50:
            yield Draft(body=MessageAdded(role="user", text="corrected"), source=f"r{number - 50}~1")
        elif number % 10 == 0:
            yield Draft(body=MessageAdded(role="user", text=f"question {number} " * 5), source=source)
        elif number % 10 == 9:
            yield Draft(body=MessageAdded(role="assistant", text=f"answer {number} " * 30), source=source)
        elif number % 2:
            yield Draft(body=CallMade(call=f"c{number}", tool="Bash", input=Raw(b'{"command":"ls"}')), source=source)
        else:
            yield Draft(body=CallReturned(call=f"c{number - 1}", output=OUTPUT), source=source)


if __name__ == "__main__":
    sys.exit(main())
