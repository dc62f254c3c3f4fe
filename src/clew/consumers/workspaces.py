"""The consumer that keeps the files of sessions, in projects whose setting `workspaces` is `on`.

It follows the log from where it is when it starts. A session is due when a prompt came, so that what changed before it
is not taken for the work of the agent, when its turn has ended, and shortly after a call that can have changed files. A
burst of calls is one snapshot. Within a turn there are fewer of a folder that takes long.
"""

import threading
import time
from collections.abc import Callable

import msgspec

from clew.model.events import CallMade, CallReturned, Event, MessageAdded, TurnEnded, TurnStarted
from clew.model.working_set import only_looks, touches
from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.service.workspaces.automatic import SETTING

# Nothing happened in a session for so long: its agent answers, or waits for a person.
QUIET_SECONDS = 5.0
# So long after a call its files are kept; a call that follows puts it off, up to the last of these.
CALL_SECONDS = 1.0
BURST_SECONDS = 5.0
# After a snapshot, calls cause none for this many times as long as it took.
REST = 10.0
# So many calls of a session are known while they run.
MOST_CALLS = 1_000


class Due:
    """When the files of a session are to be kept next, and why."""

    def __init__(self) -> None:
        self.turn: float | None = None
        """A turn began or ended."""
        self.call: float | None = None
        self.last_call: float | None = None
        """A burst of calls puts the snapshot off no longer than this."""
        self.quiet: float | None = None
        self.not_before = 0.0
        self.looking: dict[str, None] = {}
        """The calls under way that change no file."""

    @property
    def at(self) -> float | None:
        """When the files are due; None when nothing happened since they were kept."""
        if self.turn is not None:
            return self.turn
        times = [time for time in (self.call, self.quiet) if time is not None]
        return max(min(times), self.not_before) if times else None

    def clear(self) -> None:
        self.turn = self.call = self.last_call = self.quiet = None


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
        self._sessions: dict[str, Due] = {}
        self._failing: dict[str, str] = {}

    def run(self, stopping: threading.Event) -> float | None:
        """Keep the sessions that are due; returns when the next one is."""
        context = msgspec.structs.replace(self._context, _cache={})  # Settings change.
        if not context.has_setting(SETTING, "on"):
            self._position = context.store.last_position()
            self._sessions.clear()
            return None
        now = time.monotonic()
        for event in context.store.tail(after=self._position):
            self._position = event.position
            self._take(event, now)
        for session, due in list(self._sessions.items()):
            if due.at is None and not due.looking and due.not_before < now:
                del self._sessions[session]
            if due.at is None or due.at > now:
                continue
            if stopping.is_set():
                return None
            due.clear()
            began = time.monotonic()
            self._keep(context, session)
            due.not_before = time.monotonic() + REST * (time.monotonic() - began)
        waiting = [due.at for due in self._sessions.values() if due.at is not None]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def _take(self, event: Event, now: float) -> None:
        """Note when the files of a session are due after an event."""
        due = self._sessions.setdefault(event.session, Due())
        match event.body:
            case TurnEnded() | TurnStarted() | MessageAdded(role="user", side=""):
                due.turn = now
            case MessageAdded():
                due.quiet = now + self._quiet_seconds
            case CallMade(call=id):
                if only_looks(event.body, touches(event.body)) and len(due.looking) < MOST_CALLS:
                    due.looking[id] = None
            case CallReturned(call=id):
                if id in due.looking:
                    del due.looking[id]
                else:
                    due.last_call = due.last_call or now + BURST_SECONDS
                    due.call = min(now + CALL_SECONDS, due.last_call)

    def _keep(self, context: Context, session: str) -> None:
        for kept in call(context, "workspace_keep", {"sessions": [session]}):
            if kept.error and self._failing.get(session) != kept.error:
                self._report(f"the files of session {session} are not kept: {kept.error}")
            self._failing[session] = kept.error
