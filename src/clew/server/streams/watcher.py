"""The consumer that wakes the listeners of this process whose topic has new events.

It asks once for the sessions and projects that have changed, so listeners to other ones are not woken.
"""

import asyncio
import threading

from clew.model.errors import ClewError
from clew.store import Store
from clew.store.log.feed import changed_sessions

# After more new positions than this, all listeners are woken instead.
MOST_POSITIONS = 20_000
EVERYWHERE = ""


class Watcher:
    """The asyncio events of listeners, by topic: `session <id>`, `project <name>`, or everything."""

    name = "streams"
    rest_seconds = 0.0

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, set[asyncio.Event]] = {}
        # The cursor: up to where listeners were woken. Below 0 all of them are woken next.
        self._seen = -1

    def listen(self, topic: str) -> asyncio.Event:
        """An event that is set whenever the topic may have something new; call this on the loop."""
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        return event

    def leave(self, topic: str, event: asyncio.Event) -> None:
        listeners = self._waiting.get(topic, set())
        listeners.discard(event)
        if not listeners:
            self._waiting.pop(topic, None)

    def wake(self, topics: set[str] | None = None) -> None:
        """Wake the listeners to these topics, or all; call this on the loop."""
        for topic in self._waiting.keys() if topics is None else topics & self._waiting.keys():
            for event in self._waiting[topic]:
                event.set()

    def run(self, stopping: threading.Event) -> float | None:
        if not self._waiting:
            self._seen = -1
            return None
        try:
            now = self._store.last_position()
            if now != self._seen:
                self._wake_soon(None if self._seen < 0 else self._changed(self._seen, now))
            self._seen = now
        except ClewError:
            # The database comes back; then all listeners are woken, because events may have been missed.
            self._seen = -1
            raise
        return None

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
