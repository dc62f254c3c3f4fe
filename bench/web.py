"""Measures the pages in a browser: how soon they can be read and used, on large stores and beside agentsview's page.

    python bench/web.py [--quick] [--no-peers] [--only NAME] [--strict]

The stores are made once and kept below bench/.work. Times of the browser are those of Debian's Chromium, from the
navigation, the click or the keystroke up to the frame that shows what was asked for; times of the server are those of
an answer over HTTP on the loopback, page and all.
"""

import argparse
import random
import statistics
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Browser
from rich.console import Console
from rich.table import Table

_HERE = Path(__file__).resolve().parent

from large import EVENTS, Speech, needle  # noqa: E402
from web_browser import arrival, browser, keystroke, next_page, nodes, opened, settle, visitor  # noqa: E402
from web_server import Served, large_store, long_store  # noqa: E402

Bar = tuple[str, str, bool | None]

PAINT_MS, LIST_MS, NEXT_MS, LIVE_MS, SEARCH_MS = 500, 150, 150, 250, 200
# A session of so many events can be used after so many milliseconds.
OPEN_MS = {5_000: 1_000, 50_000: 1_500}
NODES, SCRIPTS, STYLES = 2_000, 150_000, 40_000
SHOWN = {"/": "main h2", "/sessions": "tr[data-row]", "/search": "main h1", "/usage": "main table"}
PART = {"HX-Request": "true"}


def p50(times: list[float]) -> float:
    return statistics.median(times)


def p95(times: list[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.95))]


def said(times: list[float]) -> str:
    return f"{p50(times):.0f} ms (p95 {p95(times):.0f})"


# A large store --------------------------------------------------------------------------------------------------------


def paints(chromium: Browser, served: Served, rounds: int) -> Iterator[Bar]:
    """The first paint of each page for somebody who was never here."""
    slowest: tuple[float, str, list[float]] = (0.0, "", [])
    for path, selector in SHOWN.items():
        times = []
        for _ in range(rounds):
            context = visitor(chromium, served.address)
            times.append(opened(context, served.address + path, selector)["paint"])
            context.close()
        slowest = max(slowest, (p50(times), path, times))
    value, path, times = slowest
    yield (f"first contentful paint under {PAINT_MS} ms, slowest page", f"{path} {said(times)}", value < PAINT_MS)


def lists(served: Served, sessions: int, rounds: int) -> Iterator[Bar]:
    """The list of sessions, with filters and without."""
    chance, times = random.Random(4), []
    served.get("/sessions")
    for _ in range(rounds):
        query = chance.choice([
            {}, {"project": f"project{chance.randrange(40)}"}, {"runtime": "codex"},
            {"agent": f"agent{chance.randrange(13)}"}, {"state": "active"}, {"failed": "true"},
            {"since": "2026-06", "until": "2026-06"}, {"machine": "m3"},
        ])  # fmt: skip
        times.append(timed(lambda query=query: served.get(f"/sessions?{urllib.parse.urlencode(query)}")))  # type: ignore[misc]
    claim = f"list of {sessions:,} sessions on the server, p95 under {LIST_MS} ms"
    yield (claim, f"{p95(times):.0f} ms (p50 {p50(times):.0f})", p95(times) < LIST_MS)


def searches(chromium: Browser, served: Served, sessions: int, rounds: int) -> Iterator[Bar]:
    """A search with each letter that somebody types: the answer of the server, and the results on the page."""
    chance, speech, times = random.Random(2), Speech(), []
    words = [" ".join(chance.sample(speech.words[:2000], chance.choice((1, 2)))) for _ in range(max(3, rounds // 6))]
    words += [needle(number) for number in chance.sample(range(0, sessions, 100), max(1, rounds // 20))]
    served.get("/search?q=warm")
    for word in words:
        for end in range(2, len(word) + 1):
            query = urllib.parse.urlencode({"q": word[:end], "part": "results"})
            times.append(timed(lambda query=query: served.get(f"/search?{query}", **PART)))  # type: ignore[misc]
    claim = f"search of {sessions * EVENTS:,} events at each letter"
    yield (f"{claim}, on the server, p95 under {SEARCH_MS} ms", f"{p95(times):.0f} ms (p50 {p50(times):.0f})",
           p95(times) < SEARCH_MS)  # fmt: skip
    context = visitor(chromium, served.address)
    page = context.new_page()
    page.goto(f"{served.address}/search?q=warm")
    settle(page)
    if page.locator("[data-results]").count() == 0:
        yield (f"{claim}, on the page", "the page has no search while typing", None)
        return
    typed = []
    for word in words[: max(2, rounds // 10)]:
        page.locator("#find").fill("")
        settle(page)
        typed += [keystroke(page, key, "[data-results]") for key in word]
        settle(page, 0.6)
    context.close()
    yield (f"{claim}, from key to results, p95 under {SEARCH_MS} ms", f"{p95(typed):.0f} ms (p50 {p50(typed):.0f})",
           p95(typed) < SEARCH_MS)  # fmt: skip


# Long sessions --------------------------------------------------------------------------------------------------------


def long_sessions(chromium: Browser, served: Served, sessions: dict[int, str], rounds: int) -> Iterator[Bar]:
    context = visitor(chromium, served.address)
    most = 0
    # The first visit fills the caches of the browser and the server, and is not counted.
    opened(context, f"{served.address}/sessions/{sessions[min(sessions)]}", "#transcript [id^=e]")
    for (events, id), limit in zip(sessions.items(), OPEN_MS.values(), strict=True):
        times = []
        for _ in range(rounds):
            measured = opened(context, f"{served.address}/sessions/{id}", "#transcript [id^=e]")
            times.append(max(measured["shown"], measured["interactive"]))
        claim = f"session of {events:,} events, can be used in under {limit / 1000:g} s"
        yield (claim, said(times), p50(times) < limit)
    id = sessions[max(sessions)]
    page = context.new_page()
    following: list[float] = []
    for path in (f"/sessions/{id}", f"/sessions/{id}?event={max(sessions) // 2}"):
        page.goto(served.address + path)
        settle(page)
        most = max(most, nodes(page))
        for _ in range(max(2, rounds // 2)):
            following.append(next_page(page))
            settle(page)
            most = max(most, nodes(page))
    claim = f"its next page of events on the page, under {NEXT_MS} ms"
    yield (claim, said(following), p50(following) < NEXT_MS)
    yield (f"at most {NODES:,} nodes, after each of these pages", f"{most:,}", most <= NODES)
    context.close()


def live(chromium: Browser, served: Served, id: str, rounds: int) -> Iterator[Bar]:
    """An event that is appended while somebody looks at the end of the session."""
    context = visitor(chromium, served.address)
    page = context.new_page()
    page.goto(f"{served.address}/sessions/{id}?backward={2**53 - 1}")
    page.wait_for_function("document.getElementById('live-text')?.textContent === 'live'")
    run, times = time.time_ns(), []
    for number in range(rounds):
        text = f"said {run} {number};"
        times.append(arrival(page, text, lambda text=text: served.append(id, text)))  # type: ignore[misc]
        settle(page)
    context.close()
    claim = f"live event on the page, p95 under {LIVE_MS} ms after its append"
    yield (claim, f"{p95(times):.0f} ms (p50 {p50(times):.0f})", p95(times) < LIVE_MS)


# Files ----------------------------------------------------------------------------------------------------------------


def sizes() -> Iterator[Bar]:
    from clew.server.web.static_files import static_files

    for name, most, what in (("js", SCRIPTS, "scripts"), ("css", STYLES, "styles")):
        size = sum(len(file.data) for path, file in static_files().items() if path.endswith(f".{name}"))
        yield (f"{what}, at most {most // 1000} KB", f"{size / 1000:.1f} KB", size <= most)


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e3


def main() -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller stores and fewer rounds: a first look")
    parser.add_argument("--only", choices=("large", "long", "sizes", "peers"), action="append")
    parser.add_argument("--no-peers", action="store_true", help="measure clew alone")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR")
    options = parser.parse_args()
    rounds = options.rounds or (5 if options.quick else 20)
    wanted = set(options.only or ("large", "long", "sizes", *(() if options.no_peers else ("peers",))))
    sessions = 2_000 if options.quick else 100_000
    events = (1_000, 5_000) if options.quick else tuple(OPEN_MS)
    console, bars = Console(width=120), list[Bar]()
    options.work.mkdir(parents=True, exist_ok=True)

    def note(text: str) -> None:
        print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)

    def take(measured: Iterator[Bar]) -> None:
        for bar in measured:
            note("")
            print(f"\r{bar[0]}: {bar[1]}", file=sys.stderr)
            bars.append(bar)

    with browser() as chromium:
        if "large" in wanted:
            with Served(large_store(options.work, sessions, note)) as served:
                take(paints(chromium, served, rounds))
                take(lists(served, sessions, rounds * 10))
                take(searches(chromium, served, sessions, rounds * 3))
        if "long" in wanted:
            folder, known = long_store(options.work, events, note)
            with Served(folder) as served:
                take(long_sessions(chromium, served, known.sessions, rounds))
                take(live(chromium, served, known.live, rounds))
        if "sizes" in wanted:
            take(sizes())
        if "peers" in wanted:
            from web_peer import beside

            table, found = beside(chromium, options.work, 60 if options.quick else 1_000, rounds, note)
            note("")
            console.print(table)
            bars += found
    verdicts = Table(title=f"pages, {'small stores' if options.quick else f'{sessions:,} sessions'}, {rounds} rounds")
    for column in ("bar", "measured", "met"):
        verdicts.add_column(column)
    for claim, measured, met in bars:
        verdicts.add_row(claim, measured, {True: "yes", False: "NO", None: ""}[met])
    console.print(verdicts)
    return 1 if options.strict and any(met is False for _, _, met in bars) else 0


if __name__ == "__main__":
    sys.exit(main())
