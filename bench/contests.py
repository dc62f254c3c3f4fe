"""What is measured on a database, and the bar for each. One method of `Contests` per group of bars."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice

from corpus import texts
from measure import Figures, Runner, race, seconds, seconds_per_operation
from peer_process import Operation, PeerProcess
from places import Place
from raw import RawLog
from subject import Session, Subject
from verdicts import Verdict, at_least, at_most

DEPTH = 1_000
SHALLOW, DEEP = 10, 10_000
WRITERS = (8, 32)
BURST = 40
NEIGHBOUR_PAUSE_S = 0.005

Append = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often each thing is measured."""

    appends: int
    bursts: int
    reads: int
    depths: int
    pool: int  # sessions of each depth, taken in turn, so that ten events deep stays about ten events deep
    windows: int
    window_s: float
    disk_events: int


FULL = Effort(appends=1_000, bursts=100, reads=100, depths=400, pool=8, windows=7, window_s=1.0, disk_events=5_000)
QUICK = Effort(appends=120, bursts=15, reads=15, depths=60, pool=2, windows=3, window_s=0.4, disk_events=1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contests:
    """Everything measured on one kind of database."""

    place: Place
    peers: PeerProcess | None
    effort: Effort
    note: Callable[[str], None]

    def run(self) -> list[Verdict]:
        """Run every contest, and return the verdicts in the order of the table."""
        with closing(Subject(self.place.clew_url("clew"))) as subject, closing(self.place.raw("raw")) as raw:
            self._prepare_peers()
            return [
                *self.appends(subject, raw),
                *self.shared_writer(subject, raw),
                *self.reads(subject, raw),
                *self.depths(subject),
                *self.concurrent_writers(subject),
                *self.disk(),
            ]

    def appends(self, subject: Subject, raw: RawLog) -> list[Verdict]:
        """One event at a time, each on disk when the call returns, at the end of a session of 1,000."""
        session = self._session(subject, seed=10, depth=DEPTH)
        raw.fill(1, islice(texts(11), DEPTH))
        clew = Runner(name="clew", run=_appending(partial(subject.append, session), seed=13))
        times = self._race(
            "append",
            clew,
            Runner(name="raw", run=_appending(partial(raw.append, 1), seed=12)),
            rounds=self.effort.appends,
        )
        return [
            at_most(self._kind, "append: raw insert", 1.3, clew=times["clew"], other=times["raw"]),
            *self._against_peers(
                "append",
                clew,
                operation="append",
                bars={"openai": 1.0, "langgraph": 50.0, "adk": None},
                # An append of LangGraph writes megabytes, and in every round the others would pay for flushing them.
                every={"langgraph": 20, "adk": 4},
                rounds=self.effort.appends,
            ),
        ]

    def shared_writer(self, subject: Subject, raw: RawLog) -> list[Verdict]:
        """The same, while another thread of the process appends to the same store every 5 ms.

        A burst is timed as a whole, not event by event: the few appends that meet the other thread's commit are the
        ones that sharing makes slower, and a median over single appends would leave out exactly these. The raw log
        has no second writer, so the ratio is the full price of sharing.
        """
        session, neighbour = self._session(subject, seed=20, depth=DEPTH), subject.session()
        raw.fill(2, islice(texts(21), DEPTH))
        neighbour_texts = texts(24)
        raw_burst = _bursting(partial(raw.append, 2), seed=22)
        clew_burst = _bursting(partial(subject.append, session), seed=23)

        def beside_a_neighbour() -> float:
            with _repeating(lambda: subject.append(neighbour, next(neighbour_texts)), pause_s=NEIGHBOUR_PAUSE_S):
                return clew_burst()

        times = self._race(
            "append through a shared writer",
            Runner(name="raw", run=raw_burst),
            Runner(name="clew", run=beside_a_neighbour),
            rounds=self.effort.bursts,
        )
        return [at_most(self._kind, "append, writer shared: raw insert", 1.7, clew=times["clew"], other=times["raw"])]

    def reads(self, subject: Subject, raw: RawLog) -> list[Verdict]:
        """A whole session of 1,000 events, from warm pages to decoded values."""
        session = self._session(subject, seed=30, depth=DEPTH)
        raw.fill(3, islice(texts(31), DEPTH))
        clew = Runner(name="clew", run=lambda: seconds(lambda: subject.read(session)))
        times = self._race(
            "read",
            clew,
            Runner(name="raw", run=lambda: seconds(lambda: raw.read(3))),
            rounds=self.effort.reads,
        )
        return [
            at_most(self._kind, "read 1,000: raw rows + msgspec", 1.4, clew=times["clew"], other=times["raw"]),
            *self._against_peers(
                "read 1,000",
                clew,
                operation="load",
                bars={"openai": 1.5, "langgraph": 1.5, "adk": 8.0},
                every={"adk": 3},
                rounds=self.effort.reads,
            ),
        ]

    def depths(self, subject: Subject) -> list[Verdict]:
        """Appends to and forks of long sessions, against the same on short ones."""
        self.note(f"filling {self.effort.pool} sessions of {DEEP:,} events")
        deep = [self._session(subject, seed=400 + number, depth=DEEP) for number in range(self.effort.pool)]
        shallow = [self._session(subject, seed=500 + number, depth=SHALLOW) for number in range(self.effort.pool)]

        def append_to(sessions: list[Session], *, seed: int) -> Callable[[], float]:
            turn = cycle(sessions)
            return _appending(lambda text: subject.append(next(turn), text), seed=seed)

        def fork_from(sessions: list[Session], *, at: int) -> Callable[[], float]:
            turn = cycle(sessions)
            return lambda: seconds(lambda: subject.fork(next(turn), at=at))

        appends = self._race(
            "append at two depths",
            Runner(name="deep", run=append_to(deep, seed=40)),
            Runner(name="shallow", run=append_to(shallow, seed=41)),
            rounds=self.effort.depths,
        )
        forks = self._race(
            "fork at two depths",
            Runner(name="deep", run=fork_from(deep, at=DEEP)),
            Runner(name="shallow", run=fork_from(shallow, at=SHALLOW)),
            rounds=self.effort.depths,
        )
        return [
            at_most(self._kind, "append at 10,000: at 10", 1.2, clew=appends["deep"], other=appends["shallow"]),
            at_most(self._kind, "fork at 10,000: at 10", 1.2, clew=forks["deep"], other=forks["shallow"]),
        ]

    def concurrent_writers(self, subject: Subject) -> list[Verdict]:
        """Writers that share one store, as threads and as callers of a server, against threads that commit each on a
        connection of its own."""
        return [verdict for count in WRITERS for verdict in self._writers(subject, count)]

    def _writers(self, subject: Subject, count: int) -> list[Verdict]:
        with ExitStack() as opened:
            logs = [opened.enter_context(closing(self.place.raw(f"raw{count}"))) for _ in range(count)]
            own = [_writer(partial(log.append_locked, number), seed=number) for number, log in enumerate(logs)]
            shared = [_writer(partial(subject.append, subject.session()), seed=100 + number) for number in range(count)]
            sessions = [subject.session() for _ in range(count)]
            sources = [_again(seed=200 + number) for number in range(count)]
            times = self._race(
                f"{count} writers",
                Runner(name="raw", run=lambda: seconds_per_operation(own, window_s=self.effort.window_s)),
                Runner(name="threads", run=lambda: seconds_per_operation(shared, window_s=self.effort.window_s)),
                Runner(name="served", run=lambda: subject.served(sessions, sources, window_s=self.effort.window_s)),
                rounds=self.effort.windows,
            )
        claims = {"threads": f"{count} threads: own commits", "served": f"{count} served: own commits"}
        return [
            at_least(self._kind, claim, 4.0, clew=times[name], other=times["raw"], unit="events/s")
            for name, claim in claims.items()
        ]

    def disk(self) -> list[Verdict]:
        """What an event adds to a database, appended one at a time; measured closed, with no journal left over."""
        self.note("filling for the disk")
        clew, raw = Figures([self._clew_bytes()]), Figures([self._raw_bytes()])
        return [at_most(self._kind, "disk per event: raw log", 1.3, clew=clew, other=raw, unit="bytes")]

    def _clew_bytes(self) -> float:
        with closing(Subject(self.place.clew_url("clew_disk"))) as subject:
            session = subject.session()
        empty = self.place.bytes_used("clew_disk")
        with closing(Subject(self.place.clew_url("clew_disk"))) as subject:
            for text in islice(texts(50), self.effort.disk_events):
                subject.append(session, text)
        return (self.place.bytes_used("clew_disk") - empty) / self.effort.disk_events

    def _raw_bytes(self) -> float:
        self.place.raw("raw_disk").close()
        empty = self.place.bytes_used("raw_disk")
        with closing(self.place.raw("raw_disk")) as raw:
            for text in islice(texts(50), self.effort.disk_events):
                raw.append(1, text)
        return (self.place.bytes_used("raw_disk") - empty) / self.effort.disk_events

    @property
    def _kind(self) -> str:
        return self.place.kind

    def _session(self, subject: Subject, *, seed: int, depth: int) -> Session:
        """Open a session of that many messages, and make sure that they can be read."""
        session = subject.session()
        said = list(islice(texts(seed), depth))
        subject.fill(session, said)
        found = subject.messages(session)
        assert found == said, f"of {depth} messages appended, {len(found)} were read"
        return session

    def _prepare_peers(self) -> None:
        if not self.peers:
            return
        for peer, title in self.place.peers.items():
            self.note(f"filling {title}")
            self.peers.setup(f"{peer}_{self._kind}", where=self.place.where(peer), depth=DEPTH)

    def _against_peers(
        self,
        what: str,
        clew: Runner,
        *,
        operation: Operation,
        bars: dict[str, float | None],
        every: dict[str, int],
        rounds: int,
    ) -> list[Verdict]:
        """Race clew against its peers alone: beside them the raw log would be measured on caches that they emptied."""
        if not self.peers:
            return []
        runners = [
            Runner(
                name=peer,
                run=partial(self.peers.timed, f"{peer}_{self._kind}", operation, DEPTH),
                every=every.get(peer, 1),
            )
            for peer in bars
        ]
        times = self._race(what, clew, *runners, rounds=rounds)
        return [
            at_least(self._kind, f"{what}: {self.place.peers[peer]}", bar, clew=times["clew"], other=times[peer])
            for peer, bar in bars.items()
        ]

    def _race(self, what: str, *runners: Runner, rounds: int) -> dict[str, Figures]:
        self.note(f"{what}: {', '.join(runner.name for runner in runners)}")
        # Filling leaves dirty pages and objects behind, which must not slow the race.
        os.sync()
        gc.collect()
        gc.freeze()
        return race(runners, rounds=rounds)


def _appending(append: Append, *, seed: int) -> Callable[[], float]:
    """Time one append of a new text, made before the clock starts."""
    source = texts(seed)

    def run() -> float:
        text = next(source)
        return seconds(lambda: append(text))

    return run


def _bursting(append: Append, *, seed: int) -> Callable[[], float]:
    """Time many appends in a row; one of them counts for its share."""
    source = texts(seed)

    def append_all(burst: list[str]) -> None:
        for text in burst:
            append(text)

    def run() -> float:
        burst = list(islice(source, BURST))
        return seconds(lambda: append_all(burst)) / BURST

    return run


@contextmanager
def _repeating(operation: Callable[[], object], *, pause_s: float) -> Iterator[None]:
    """Repeat an operation in another thread for as long as the block runs."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause_s):
            operation()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _writer(append: Append, *, seed: int) -> Callable[[], object]:
    """An append to repeat in a thread. Its texts come round again: making new ones would hold up the other threads."""
    source = _again(seed)
    return lambda: append(next(source))


def _again(seed: int) -> Iterator[str]:
    return cycle(list(islice(texts(seed), 200)))
