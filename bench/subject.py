"""clew, as the benchmark uses it. The only file of the benchmark that imports clew."""

from collections.abc import Sequence

from clew.model.events import Draft, Event, MessageAdded
from clew.model.session import Session
from clew.store import open_store

__all__ = ["Session", "Subject"]

ACTOR = "person:bench"
_FILL_BATCH = 500


class Subject:
    """A clew store. Any number of threads may share one."""

    def __init__(self, url: str) -> None:
        self._store = open_store(url)

    def session(self) -> Session:
        """Open a session."""
        return self._store.open_session(project="bench", agent="bench", title="t", actor=ACTOR).session

    def append(self, session: Session, text: str) -> None:
        """Append one message, durable when the call returns."""
        self._store.append(session, [_draft(text)])

    def fill(self, session: Session, texts: Sequence[str]) -> None:
        """Append many messages in few commits."""
        for start in range(0, len(texts), _FILL_BATCH):
            self._store.append(session, [_draft(text) for text in texts[start : start + _FILL_BATCH]])

    def read(self, session: Session) -> Sequence[Event]:
        """Read a whole session with its bodies decoded."""
        return self._store.read(session)

    def messages(self, session: Session) -> list[str]:
        """Read the texts of a session, to prove that what is measured is also done."""
        return [event.body.text for event in self.read(session) if isinstance(event.body, MessageAdded)]

    def fork(self, session: Session, *, at: int) -> None:
        """Fork a session."""
        self._store.fork(session, at=at, actor=ACTOR)

    def close(self) -> None:
        self._store.close()


def _draft(text: str) -> Draft:
    return Draft(body=MessageAdded(role="user", text=text))
