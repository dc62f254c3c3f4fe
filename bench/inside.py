"""What `compare.py` measures inside a tree: a process with that tree's `clew`, driven by lines of JSON.

    python bench/inside.py NAME OPTIONS

Every line of standard input names a step; its answer is a line with the figures of that step. The code uses stable
public names only (`clew.connect`, `Plane`, `OpenSession`, HTTP), because the same file runs against trees whose
internals differ.
"""

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from random import Random
from typing import Any

from corpus import texts
from measure import seconds
from transcripts import WORDS
from transcripts import text as words_of

import clew

BATCH = 100
FILL_BATCH = 500
WRITERS = 8
FACT_SESSIONS = 20
# Shorter than what our own client compresses, so that both clients send the same bytes.
HTTP_TEXT = 850

Step = Callable[[], dict[str, Any]]


def message(text: str) -> dict[str, Any]:
    return {"kind": "message_added", "role": "user", "text": text}


def undisturbed(times: list[float]) -> float:
    """The lower quartile: what an operation takes while nothing else wants the machine."""
    return sorted(times)[len(times) // 4]


def timed(count: int, run: Callable[[], object]) -> float:
    """Run an operation so many times; the seconds it takes."""
    return undisturbed([seconds(run) for _ in range(count)])


def read_all(session: Any, count: int) -> None:
    """Read a session of at least so many events, in as many pages as this tree needs."""
    after = 0
    while after < count:
        page = session.events(after=after)
        last = None
        for last in page:  # noqa: B007  # The last event of the page.
            pass
        assert last is not None, f"{count} events were appended, {after} were read"
        after = last.seq


def together(operations: Sequence[Callable[[], object]], window: float) -> float:
    """Repeat each operation in a thread of its own for so many seconds; the seconds that one of them took.

    What is under way when the time is over is finished, and counts: on a stalled disk nothing else might.
    """
    gate = threading.Barrier(len(operations) + 1)

    def repeat(operation: Callable[[], object]) -> int:
        gate.wait()
        end = time.perf_counter() + window
        done = 0
        while time.perf_counter() < end:
            operation()
            done += 1
        return done

    with ThreadPoolExecutor(len(operations)) as threads:
        counts = [threads.submit(repeat, operation) for operation in operations]
        gate.wait()
        began = time.perf_counter()
        done = sum(count.result() for count in counts)
        return (time.perf_counter() - began) / max(1, done)


class Filling:
    """Makes what the other classes measure, once for each tree."""

    def __init__(self, store: str, home: str, **_: Any) -> None:
        self.plane = clew.connect(store, home=home)

    def deep(self, events: int = 0) -> dict[str, Any]:
        """A session of so many messages."""
        session = self.plane.session("deep")
        source = texts(1)
        for _ in range(0, events, FILL_BATCH):
            session.append(*(message(text) for text in islice(source, FILL_BATCH)))
        return {"session": session.id}

    def work(self, events: int = 0) -> dict[str, Any]:
        """A session with turns, calls and facts, as an agent program leaves it."""
        session = self.plane.session("work", agent="bench", project="bench")
        random = Random(1)
        for first in range(0, events // 4, FILL_BATCH // 4):
            drafts: list[dict[str, Any]] = []
            for number in range(first, first + FILL_BATCH // 4):
                call = f"call_{number}"
                made = {"command": words_of(random, 30)}
                drafts += [
                    message(words_of(random, 60)),
                    {"kind": "call_made", "call": call, "tool": "Bash", "input": made},
                    {"kind": "call_returned", "call": call, "output": words_of(random, 140)},
                    {"kind": "message_added", "role": "assistant", "text": words_of(random, 120)},
                ]
            session.append(*drafts)
        for number in range(20):
            session.remember(f"fact {number} about {words_of(random, 8)}", evidence=[number + 2])
            session.decide(f"choice {number}: {words_of(random, 8)}", why=words_of(random, 12))
        return {"session": session.id}

    def facts(self, events: int = 0) -> dict[str, Any]:
        """Sessions that know facts, after those that a capture has brought; the newest facts are one of each."""
        sessions = [
            self.plane.session(f"facts {number}", project=f"project{number % 4}") for number in range(FACT_SESSIONS)
        ]
        seqs = [session.user("what do we know?") for session in sessions]
        for fact in range(events // FACT_SESSIONS):
            for number, session in enumerate(sessions):
                session.remember(f"the orbit {fact} of project {number}", evidence=[seqs[number]])
        while not self.plane.search("orbit").sessions:
            time.sleep(0.1)
        return {}


class Log:
    """The log itself: append, read, tail, fork."""

    def __init__(self, store: str, home: str, session: str, events: int, window: float, seed: int) -> None:
        self.plane = clew.connect(store, home=home)
        self.depth, self.window = events, window
        self.deep = self.plane.get(session)
        self.session = self.plane.session("appended")
        self.texts = texts(seed)
        self.writers = [self._writer(self.plane.session("writer"), seed + number) for number in range(WRITERS)]
        near_the_end = self.deep.events(after=events - 1000, upto=events - 999)
        self.position = next(iter(near_the_end)).position

    def _writer(self, session: Any, seed: int) -> Callable[[], object]:
        source = cycle([message(text) for text in islice(texts(seed), 200)])
        return lambda: session.append(next(source))

    def append(self) -> dict[str, Any]:
        drafts = iter([message(text) for text in islice(self.texts, 40)])
        return {"append, one event": timed(40, lambda: self.session.append(next(drafts)))}

    def batch(self) -> dict[str, Any]:
        batches = iter([[message(text) for text in islice(self.texts, BATCH)] for _ in range(5)])
        return {"append, batch of 100": timed(5, lambda: self.session.append(*next(batches)))}

    def threads(self) -> dict[str, Any]:
        return {"append, 8 threads": together(self.writers, self.window)}

    def read(self) -> dict[str, Any]:
        return {"read a deep session": timed(2, lambda: read_all(self.deep, self.depth))}

    def tail(self) -> dict[str, Any]:
        return {"tail, 1,000 events": timed(5, lambda: list(self.plane.tail(after=self.position)))}

    def fork(self) -> dict[str, Any]:
        return {"fork at depth": timed(15, lambda: self.deep.fork(at=self.depth))}


class Find:
    """Search, lists, usage and recall."""

    def __init__(self, store: str, home: str, sessions: int, seed: int, **_: Any) -> None:
        self.plane = clew.connect(store, home=home)
        self.random = Random(seed)
        self.sessions = sessions

    def rare(self) -> dict[str, Any]:
        needles = iter([f"needle{self.random.randrange(self.sessions):05d}" for _ in range(10)])

        def search() -> None:
            assert self.plane.search(next(needles)).sessions, "a word that was captured was not found"

        return {"search, a rare word": timed(10, search)}

    def common(self) -> dict[str, Any]:
        pairs = iter([" ".join(self.random.sample(WORDS, 2)) for _ in range(5)])
        return {"search, two common words": timed(5, lambda: self.plane.search(next(pairs)))}

    def list(self) -> dict[str, Any]:
        return {"sessions, 50 of them": timed(10, lambda: self.plane.sessions(limit=50))}

    def usage(self) -> dict[str, Any]:
        return {"usage by day": timed(3, lambda: self.plane.usage())}

    def recall(self) -> dict[str, Any]:
        def recall() -> None:
            assert len(self.plane.recall("orbit", limit=20).found) == 20

        return {"recall of 20 facts from 20 sessions": timed(5, recall)}


class First:
    """A process that asks for one thing: import, open the store, list."""

    def __init__(self, store: str, home: str, **_: Any) -> None:
        self.store, self.home = store, home

    def first(self) -> dict[str, Any]:
        began = time.perf_counter()
        with clew.connect(self.store, home=self.home) as plane:
            assert plane.sessions(limit=20)
        return {"seconds": time.perf_counter() - began}


class Http:
    """A server, asked by our own client, by httpx2 without it, and by the standard library's client."""

    def __init__(self, url: str, key: str, home: str, window: float, events: int, seed: int) -> None:
        self.url, self.home, self.window = url, home, window
        self.headers = {"Content-Type": "application/json"}
        if key:
            os.environ["CLEW_KEY"] = key  # For our client.
            self.headers["Authorization"] = f"Bearer {key}"
        self.plane = clew.connect(url, home=home)
        self.source = texts(seed)
        self.ours = [self._our_append() for _ in range(WRITERS)]
        self.httpx = [self._httpx_append() for _ in range(WRITERS)]
        self.standard = [self._standard_append() for _ in range(WRITERS)]
        self.depth = events
        self.long = self.plane.session("long")
        for _ in range(0, events, BATCH):
            self.long.append(*(message(text) for text in islice(self.source, BATCH)))
        self.pages = self._httpx_client()

    def _httpx_client(self) -> Any:
        import httpx2

        return httpx2.Client(base_url=self.url, trust_env=False, headers=self.headers)

    def _drafts(self) -> Iterator[dict[str, Any]]:
        return cycle([message(text[:HTTP_TEXT]) for text in islice(self.source, 100)])

    def _bodies(self) -> tuple[str, Iterator[bytes]]:
        path = f"/v1/sessions/{self.plane.session('written').id}/events"
        drafts = islice(self._drafts(), 100)
        return path, cycle([json.dumps({"drafts": [draft]}).encode() for draft in drafts])

    def _our_append(self) -> Callable[[], object]:
        """A client of its own for each caller, as each would have one in a process of its own."""
        session = clew.connect(self.url, home=self.home).session("written")
        drafts = self._drafts()
        return lambda: session.append(next(drafts))

    def _httpx_append(self) -> Callable[[], object]:
        path, bodies = self._bodies()
        client = self._httpx_client()

        def append() -> None:
            answer = client.post(path, content=next(bodies))
            assert answer.status_code == 200, answer.text
            answer.json()

        return append

    def _standard_append(self) -> Callable[[], object]:
        from http.client import HTTPConnection
        from urllib.parse import urlsplit

        path, bodies = self._bodies()
        connection = HTTPConnection(urlsplit(self.url).netloc)

        def append() -> None:
            connection.request("POST", path, next(bodies), self.headers)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
            json.loads(text)

        return append

    def append(self) -> dict[str, Any]:
        """The three clients in turn, append by append."""
        clients = {"our client": self.ours[0], "httpx2": self.httpx[0], "http.client": self.standard[0]}
        taken: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(20):
            for name, run in clients.items():
                taken[name].append(seconds(run))
        return self._beside("append, 1 caller", {name: undisturbed(times) for name, times in taken.items()})

    def callers(self) -> dict[str, Any]:
        """Eight callers at once: our client, then the bare ones."""
        clients = {"our client": self.ours, "httpx2": self.httpx, "http.client": self.standard}
        return self._beside(
            "append, 8 callers",
            {name: together(each, self.window) for name, each in clients.items()},
        )

    def read(self) -> dict[str, Any]:
        def bare() -> None:
            answer = self.pages.get(f"/v1/sessions/{self.long.id}/events")
            assert answer.status_code == 200, answer.text
            answer.json()

        ours = timed(3, lambda: read_all(self.long, self.depth))
        return self._beside("read a session", {"our client": ours, "httpx2": timed(3, bare)})

    def _beside(self, what: str, figures: dict[str, float]) -> dict[str, Any]:
        """The figures, and how many times as long as a bare client ours takes."""
        ours = figures["our client"]
        ratios = {f"{what}, ours : {name}": ours / value for name, value in figures.items() if name != "our client"}
        return {f"{what}, {name}": value for name, value in figures.items()} | ratios


def main() -> None:
    name, options = sys.argv[1], json.loads(sys.argv[2])
    kinds: dict[str, type[Any]] = {"filling": Filling, "log": Log, "find": Find, "first": First, "http": Http}
    subject = kinds[name](**options)
    # What was made until now is no garbage of any step.
    gc.collect()
    gc.freeze()
    answer({"clew": clew.__file__})
    for line in sys.stdin:
        request = json.loads(line)
        answer(getattr(subject, request.pop("step"))(**request))


def answer(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
