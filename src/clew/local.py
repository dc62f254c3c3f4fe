"""A client on a log that this process opened itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clew.model.events import Event
from clew.service import Context, call

if TYPE_CHECKING:
    from clew.service.sessions.objects import ObjectInfo, OpenedObject
    from clew.service.workspaces.opening import OpenedTar
    from clew.store.objects.objects import Source

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

    def put_object(
        self,
        session: str,
        name: str,
        source: Source,
        *,
        media_type: str = "",
        progress: bool = False,
        lease: int | None = None,
    ) -> ObjectInfo:
        put: ObjectInfo = self.call(
            "object_put",
            session=session,
            name=name,
            source=source,
            media_type=media_type,
            progress=progress,
            lease=lease,
        )
        return put

    def open_object(self, session: str, object: str) -> OpenedObject:
        opened: OpenedObject = self.call("object_open", session=session, object=object)
        return opened

    def open_file(self, session: str, path: str, *, at: int | None = None) -> OpenedObject:
        opened: OpenedObject = self.call("workspace_open", session=session, path=path, at=at)
        return opened

    def open_tar(self, session: str, path: str = "", *, at: int | None = None) -> OpenedTar:
        opened: OpenedTar = self.call("workspace_tar", session=session, path=path, at=at)
        return opened

    def close(self) -> None:
        self.context.close()
