"""One thread watches the log for every listener of the process, and wakes those whose sessions have something new.

The thread runs while somebody listens. What has changed since it last looked is asked for once, as names of sessions
and projects, so that a listener who is not concerned sleeps on.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from clew.model.errors import ClewError
from clew.store import Store

LOOK_SECONDS = 1.0
TROUBLE_SECONDS = 0.5
# Beyond this many positions at once everybody looks for themselves.
MANY = 20_000
EVERYWHERE = ""


class Watcher:
    """Events of asyncio by what they wait for: `session <id>`, `project <name>`, or everything."""

    def __init__(self, store: Store, failed: Callable[[Exception], None]) -> None:
        self._store = store
        self._failed = failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def listen(self, topic: str) -> asyncio.Event:
        """An event that is set whenever something new may be at the topic; call on the loop."""
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        if self._thread is None:
            self._stopped = threading.Event()
            self._thread = threading.Thread(target=self._watch, args=(self._stopped,), name="clew-watch", daemon=True)
            self._thread.start()
        return event

    def leave(self, topic: str, event: asyncio.Event) -> None:
        there = self._waiting.get(topic, set())
        there.discard(event)
        if not there:
            self._waiting.pop(topic, None)
        if not self._waiting:
            self._stopped.set()
            self._thread = None

    def wake(self, topics: set[str] | None = None) -> None:
        """Wake who waits at these topics, or everybody."""
        for topic in self._waiting.keys() if topics is None else topics & self._waiting.keys():
            for event in self._waiting[topic]:
                event.set()

    async def stop(self) -> None:
        """Wake everybody for the last time, and wait for the thread."""
        self._stopped.set()
        thread, self._thread = self._thread, None
        self.wake()
        if thread is not None:
            await asyncio.to_thread(thread.join)

    def _watch(self, stopped: threading.Event) -> None:
        seen = -1
        while not stopped.is_set():
            try:
                if seen < 0:
                    seen = self._store.last_position()
                    self._tell(None)  # What came before this first look.
                if self._store.wait(after=seen, timeout=LOOK_SECONDS):
                    now = self._store.last_position()
                    self._tell(self._changed(seen, now))
                    seen = now
            except ClewError as error:
                # A database that went away comes back; listeners then look for themselves.
                self._failed(error)
                seen = -1
                time.sleep(TROUBLE_SECONDS)

    def _changed(self, after: int, upto: int) -> set[str] | None:
        if upto - after > MANY:
            return None
        with self._store.database.read() as tx:
            rows = tx.run("heads_between", after=after, upto=upto)
        return {EVERYWHERE, *(f"session {row[0]}" for row in rows), *(f"project {row[1]}" for row in rows)}

    def _tell(self, topics: set[str] | None) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.wake, topics)
