"""One thread polls the log for all listeners of the process, and wakes those whose topic has new events.

The thread runs while there are listeners. It asks once for the sessions and projects that have changed, so listeners to
other ones are not woken.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from clew.model.errors import ClewError
from clew.store import Store
from clew.store.log.feed import changed_sessions

POLL_SECONDS = 1.0
RETRY_SECONDS = 0.5
# After more new positions than this, all listeners are woken instead.
MOST_POSITIONS = 20_000
EVERYWHERE = ""


class Watcher:
    """The asyncio events of listeners, by topic: `session <id>`, `project <name>`, or everything."""

    def __init__(self, store: Store, failed: Callable[[Exception], None]) -> None:
        self._store = store
        self._failed = failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def listen(self, topic: str) -> asyncio.Event:
        """An event that is set whenever the topic may have something new; call this on the loop."""
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        if self._thread is None:
            self._stopped = threading.Event()
            self._thread = threading.Thread(target=self._watch, args=(self._stopped,), name="clew-watch", daemon=True)
            self._thread.start()
        return event

    def leave(self, topic: str, event: asyncio.Event) -> None:
        listeners = self._waiting.get(topic, set())
        listeners.discard(event)
        if not listeners:
            self._waiting.pop(topic, None)
        if not self._waiting:
            self._stopped.set()
            self._thread = None

    def wake(self, topics: set[str] | None = None) -> None:
        """Wake the listeners to these topics, or all."""
        for topic in self._waiting.keys() if topics is None else topics & self._waiting.keys():
            for event in self._waiting[topic]:
                event.set()

    async def stop(self) -> None:
        """Wake all listeners a last time, and wait for the thread."""
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
                    self._wake_soon(None)  # Events may have come before this first poll.
                if self._store.wait(after=seen, timeout=POLL_SECONDS):
                    now = self._store.last_position()
                    self._wake_soon(self._changed(seen, now))
                    seen = now
            except ClewError as error:
                # The database comes back; then all listeners are woken, because events may have been missed.
                self._failed(error)
                seen = -1
                time.sleep(RETRY_SECONDS)

    def _changed(self, after: int, upto: int) -> set[str] | None:
        if upto - after > MOST_POSITIONS:
            return None
        topics = {EVERYWHERE}
        for session in changed_sessions(self._store, after=after, upto=upto):
            topics |= {f"session {session.id}", f"project {session.project}"}
        return topics

    def _wake_soon(self, topics: set[str] | None) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.wake, topics)
