"""A client on a log that this process opened itself."""

from collections.abc import Iterator
from typing import Any

from clew.model.events import Event
from clew.service import Context, call

PAGE = 1000
# How long one wait lasts; it ends at once when the log grows.
WAIT_SECONDS = 30.0


class Local:
    """Operations on a log that this process opened itself."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @property
    def principal(self) -> str:
        return self.context.principal

    def call(self, name: str, /, **arguments: Any) -> Any:
        return call(self.context, name, arguments)

    def wait(self, *, after: int, timeout: float) -> bool:
        return self.context.store.wait(after=after, timeout=timeout)

    def last_position(self) -> int:
        return self.context.store.last_position()

    def follow(self, *, after: int, session: str = "", project: str = "") -> Iterator[Event]:
        seen = self.last_position()
        while True:
            events: list[Event] = (
                self.call("events", session=session, after=after, limit=PAGE)
                if session
                else self.call("tail", after=after, project=project, limit=PAGE)
            )
            yield from events
            if events:
                after = events[-1].seq if session else events[-1].position
                continue
            # Read again whenever the log as a whole has grown, by any writer.
            while not self.wait(after=seen, timeout=WAIT_SECONDS):
                pass
            seen = self.last_position()

    def close(self) -> None:
        self.context.close()
