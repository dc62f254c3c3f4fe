"""clew, as the benchmark uses it. The only file of the benchmark that imports clew."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial

from clew.model.events import Draft, Event, MessageAdded
from clew.model.session import Session
from clew.server.http.append_queue import AppendQueue, Pending
from clew.store import open_store
from clew.store.log.opening import Forking, Opening
from clew.store.log.plan import Appended

__all__ = ["Session", "Subject"]

ACTOR = "person:bench"
_FILL_BATCH = 500


class Subject:
    """A clew store. Any number of threads may share one."""

    def __init__(self, url: str) -> None:
        self._store = open_store(url)

    def session(self) -> Session:
        """Open a session."""
        return self._store.open(Opening(project="bench", agent="bench", title="t"), actor=ACTOR)

    def append(self, session: Session, text: str) -> None:
        """Append one message, durable when the call returns."""
        self._store.append(session, [_draft(text)])

    def fill(self, session: Session, texts: Sequence[str]) -> None:
        """Append many messages in few commits."""
        for start in range(0, len(texts), _FILL_BATCH):
            self._store.append(session, [_draft(text) for text in texts[start : start + _FILL_BATCH]])

    def read(self, session: Session) -> Sequence[Event]:
        """Read a whole session with its bodies decoded."""
        return list(self._store.read(session))

    def messages(self, session: Session) -> list[str]:
        """Read the texts of a session, to prove that what is measured is also done."""
        return [event.body.text for event in self.read(session) if isinstance(event.body, MessageAdded)]

    def fork(self, session: Session, *, at: int) -> None:
        """Fork a session."""
        self._store.open(Forking(parent=session, at=at), actor=ACTOR)

    def served(self, sessions: Sequence[Session], texts: Sequence[Iterator[str]], *, window_s: float) -> float:
        """Append as a server does for its callers, each waiting for its own answer: the seconds that one event took."""
        return asyncio.run(self._served(sessions, texts, window_s))

    async def _served(self, sessions: Sequence[Session], texts: Sequence[Iterator[str]], window_s: float) -> float:
        queue: AppendQueue[Appended] = AppendQueue(self._store)
        end = time.perf_counter() + window_s

        async def write(session: Session, source: Iterator[str]) -> int:
            done = 0
            while True:
                await queue.run(partial(self._pending, session, next(source)))
                if time.perf_counter() > end:
                    return done
                done += 1

        try:
            return window_s / sum(await asyncio.gather(*map(write, sessions, texts)))
        finally:
            queue.close()

    def _pending(self, session: Session, text: str) -> Pending[Appended]:
        """One caller's append, as a server prepares it for a shared commit."""
        request = self._store.prepare(session, [_draft(text)])
        return Pending(request, request.outcome)

    def close(self) -> None:
        self._store.close()


def _draft(text: str) -> Draft:
    return Draft(body=MessageAdded(role="user", text=text))
