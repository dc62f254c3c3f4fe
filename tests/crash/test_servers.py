"""Three servers on one PostgreSQL, killed at random under load, with PostgreSQL restarted in between: every event that
was acknowledged is there once, and every stream tells all of them once and in order."""

import itertools
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import msgspec

from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.store import Store, open_store
from clew.store.log.verify import verify_all
from support.postgres import Server, free_port

SERVERS = 3
WRITERS = 4
LISTENERS = 2
KILLS = int(os.environ.get("CLEW_SERVER_KILLS", "4"))
OWNER = "person:owner"
# What a client meets while servers die: it tries again elsewhere.
LOST = (httpx2.TransportError, httpx2.StreamError)


class Fleet:
    """Servers that are started again when they were killed, each on its own port."""

    def __init__(self, url: str, home: Path) -> None:
        self._environment = {**os.environ, "CLEW_STORE": url, "CLEW_HOME": str(home)}
        self.ports = [free_port() for _ in range(SERVERS)]
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Fleet":
        for port in self.ports:
            self._start(port)
        for port in self.ports:
            self._await(port)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def kill_one(self, chance: random.Random) -> None:
        port = chance.choice(self.ports)
        self._running[port].kill()
        self._running[port].wait()
        self._start(port)
        self._await(port)

    def address(self, number: int) -> str:
        return f"http://127.0.0.1:{self.ports[number % SERVERS]}"

    def _start(self, port: int) -> None:
        command = [sys.executable, "-m", "clew", "serve", "--port", str(port), "--rate", "100000"]
        self._running[port] = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _await(self, port: int) -> None:
        """Return once the server answers; a server that ended instead is a failure."""
        while True:
            assert self._running[port].poll() is None, f"the server on port {port} ended by itself"
            try:
                httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=5)
                return
            except LOST:
                continue


class Writer(threading.Thread):
    """Appends numbered drafts to a session of its own, each until a server has acknowledged it."""

    def __init__(self, fleet: Fleet, key: str, session: str, number: int, done: threading.Event) -> None:
        super().__init__(name=f"writer {number}")
        self.session = session
        self.acknowledged: list[str] = []
        self.retried = 0
        self.failed: BaseException | None = None
        self._fleet, self._key, self._number, self._done = fleet, key, number, done

    def run(self) -> None:
        try:
            for count in itertools.count():
                if self._done.is_set():
                    return
                self._append(f"w{self._number}-{count}")
        except BaseException as error:  # noqa: BLE001 - told by the test itself
            self.failed = error

    def _append(self, name: str) -> None:
        draft = {"kind": "message_added", "role": "user", "text": name, "source": name}
        for attempt in itertools.count(self._number):
            try:
                answer = httpx2.post(
                    f"{self._fleet.address(attempt)}/v1/sessions/{self.session}/events", json={"drafts": [draft]},
                    headers={"Authorization": f"Bearer {self._key}"}, timeout=20,
                )  # fmt: skip
            except LOST:
                self.retried += 1
                continue
            if answer.status_code < 300:
                self.acknowledged.append(name)
                return
            assert answer.status_code in (500, 503, 429), answer.text
            self.retried += 1


class Listener(threading.Thread):
    """Follows the project from the first event on, coming back to another server whenever one is gone."""

    def __init__(self, fleet: Fleet, key: str, number: int) -> None:
        super().__init__(name=f"listener {number}", daemon=True)
        self.positions: list[int] = []
        self.names: list[str] = []
        self.reconnected = 0
        self.failed: BaseException | None = None
        self._fleet, self._key, self._number = fleet, key, number
        self._wanted: set[str] | None = None
        self._changed = threading.Condition()

    def run(self) -> None:
        last = "0"
        try:
            for attempt in itertools.count(self._number):
                try:
                    for id, text in self._events(self._fleet.address(attempt), last):
                        last = id
                        self._hear(int(last), text)
                except LOST:
                    self.reconnected += 1
        except BaseException as error:  # noqa: BLE001 - told by the test itself
            self.failed = error

    def _events(self, address: str, last: str) -> Iterator[tuple[str, str]]:
        headers = {"Authorization": f"Bearer {self._key}", "Last-Event-ID": last}
        with httpx2.stream("GET", f"{address}/v1/stream?project=p", headers=headers, timeout=20) as answer:
            if answer.status_code != 200:
                return
            id, data = last, ""
            for line in answer.iter_lines():
                if line.startswith("event: problem"):
                    return  # The database is away; come back later, or elsewhere.
                if line.startswith("id:"):
                    id = line[3:].strip()
                elif line.startswith("data:"):
                    data = line[5:].strip()
                elif not line and data:
                    yield id, data
                    data = ""

    def _hear(self, position: int, text: str) -> None:
        event = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        with self._changed:
            self.positions.append(position)
            if "text" in event:
                self.names.append(msgspec.json.decode(event["text"], type=str))
            self._changed.notify_all()

    def await_all(self, names: set[str]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: names <= set(self.names), timeout=60)


def test_nothing_is_lost_or_doubled_while_servers_die(chance: random.Random, tmp_path: Path) -> None:
    with Server() as postgres, ExitStack() as stack:
        url = postgres.walled_database()
        store = stack.enter_context(open_store(url))
        key, sessions = prepared(store)
        fleet = stack.enter_context(Fleet(url, tmp_path / "home"))
        done = threading.Event()
        listeners = [Listener(fleet, key, number) for number in range(LISTENERS)]
        writers = [Writer(fleet, key, session, number, done) for number, session in enumerate(sessions)]
        for thread in (*listeners, *writers):
            thread.start()
        for kill in range(KILLS):
            await_more(writers, 20)
            if kill == KILLS // 2:
                postgres.crash()
                postgres.restart_after_crash()
            else:
                fleet.kill_one(chance)
        await_more(writers, 20)
        done.set()
        for writer in writers:
            writer.join()
            assert writer.failed is None, writer.failed
        acknowledged = {name for writer in writers for name in writer.acknowledged}
        with open_store(url) as after:
            for writer in writers:
                stored = [event.body.text for event in list(after.read(after.session(writer.session)))[1:]]  # type: ignore[union-attr]
                assert stored == writer.acknowledged, "in order, each once, and none that was not acknowledged"
            assert not [problem for verified in verify_all(after) for problem in verified.problems]
            visible = [event.position for event in after.tail(project="p", limit=10_000)]
        for listener in listeners:
            listener.await_all(acknowledged)
            assert listener.failed is None, listener.failed
            assert listener.positions == visible, "every event once, in the order they became visible"
        retries, reconnects = sum(writer.retried for writer in writers), [each.reconnected for each in listeners]
        print(f"{KILLS} kills, {len(acknowledged)} events acknowledged, {retries} retries, {reconnects} reconnects")


def prepared(store: Store) -> tuple[str, list[str]]:
    owner = Context(store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),))
    call(owner, "principal_add", {"principal": "bot"})
    call(owner, "access_grant", {"who": "bot", "role": "writer", "project": "p"})
    sessions = [call(owner, "open", {"project": "p", "title": f"s{n}"}).id for n in range(WRITERS)]
    return call(owner, "key_create", {"principal": "bot"}).key, sessions


def await_more(writers: list[Writer], count: int) -> None:
    """Wait until every writer has so many more acknowledged; one that failed says why."""
    ends = {writer: len(writer.acknowledged) + count for writer in writers}
    for writer, end in ends.items():
        while len(writer.acknowledged) < end:
            assert writer.failed is None, writer.failed
            assert writer.is_alive()
            writer.join(0.02)
