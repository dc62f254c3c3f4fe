"""The consumer that keeps the files of sessions after their turns, in projects whose setting `workspaces` is `on`.

It follows the log from where it is when it starts. A session is due as soon as its turn has ended, or when nothing has
happened in it for a while; a burst of calls is one snapshot.
"""

import threading
import time
from collections.abc import Callable

import msgspec

from clew.model.events import CallReturned, MessageAdded, TurnEnded
from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.service.workspaces.automatic import SETTING

WORK = (CallReturned.kind, MessageAdded.kind, TurnEnded.kind)
# Nothing happened in a session for so long: its agent answers, or waits for a person.
QUIET_SECONDS = 5.0


class Workspaces:
    """Takes the snapshots that are due."""

    name = "workspaces"
    rest_seconds = 0.5

    def __init__(
        self, context: Context, report: Callable[[str], None], *, quiet_seconds: float = QUIET_SECONDS
    ) -> None:  # fmt: skip
        self._context = context
        self._report = report
        self._quiet_seconds = quiet_seconds
        self._position = context.store.last_position()
        self._due: dict[str, float] = {}
        self._failing: dict[str, str] = {}

    def run(self, stopping: threading.Event) -> float | None:
        """Keep the sessions that are due; returns when the next one is."""
        context = msgspec.structs.replace(self._context, _cache={})  # Settings change.
        if not context.has_setting(SETTING, "on"):
            self._position = context.store.last_position()
            self._due.clear()
            return None
        now = time.monotonic()
        for event in context.store.tail(after=self._position):
            self._position = event.position
            if event.kind in WORK:
                has_ended = event.kind == TurnEnded.kind
                self._due[event.session] = now + (0 if has_ended else self._quiet_seconds)
        due = [session for session, at in self._due.items() if at <= now]
        for session in due:
            if stopping.is_set():
                return None
            del self._due[session]
            self._keep(context, session)
        return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None

    def _keep(self, context: Context, session: str) -> None:
        for kept in call(context, "workspace_keep", {"sessions": [session]}):
            if kept.error and self._failing.get(session) != kept.error:
                self._report(f"the files of session {session} are not kept: {kept.error}")
            self._failing[session] = kept.error
