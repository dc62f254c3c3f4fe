"""Which call changed lines of a file: what is certain is said, and what several calls can have done is said as that.

A call that ran between two snapshots can have changed everything that differs. One that names the file and has the
lines in its input has written them. A shell command names nothing, so it is the cause when it alone ran. What changed
while no call ran was changed by a person or a program outside of all sessions.
"""

from collections.abc import Sequence
from typing import NamedTuple

from clew.model.events import WorkspaceSnapshotted
from clew.model.file_tree import shown
from clew.service.kernel.context import Context
from clew.service.workspaces.file_history import FileHistory, Step, absolute
from clew.service.workspaces.ran_calls import RanCall, RanCalls
from clew.store.log.feed import events_at

# Clocks of programs and of filesystems differ by less.
TOLERANCE_US = 1_000_000

INPUT, NAMED, ONLY, SEVERAL = "input", "named", "only", "several"
UNCLEAR, OUTSIDE, HIDDEN, BEFORE = "unclear", "outside", "hidden", "before"


class Cause(NamedTuple):
    """Why lines are as they are: one call, or several that can have done it, or none."""

    why: str
    call: RanCall | None = None
    others: tuple[RanCall, ...] = ()


class Causes:
    """Finds the causes of the changes of files."""

    def __init__(self, context: Context, history: FileHistory, *, live_changed_at: int = 0) -> None:
        """`live_changed_at` is when the file on the disk was changed last."""
        self._context = context
        self._history = history
        self._live_changed_at = live_changed_at
        self._ran = RanCalls(context)
        self._known: dict[tuple[int, int, bytes], tuple[list[RanCall], list[RanCall], int]] = {}

    def of_file(self, step: Step) -> Cause:
        """The cause of a change of a file as a whole."""
        if step.older is None:
            return Cause(BEFORE)
        naming, others, changed_at = self._possible(step)
        if naming:
            last = naming[-1]
            return Cause(HIDDEN) if last.is_hidden else Cause(NAMED, last, _shown(naming))
        return _among(others, changed_at)

    def of_lines(self, step: Step, lines: Sequence[bytes]) -> list[Cause]:
        """The cause of each of some lines that are one after the other."""
        if step.older is None:
            return self._before_first(step, lines)
        naming, others, changed_at = self._possible(step)
        naming_first, running_first = _newest(naming), _newest(others)
        telling = [line for line in lines if line.strip()]
        for call in naming_first:
            if all(call.has_line(line) for line in telling):
                return [Cause(INPUT, call)] * len(lines)
        unnamed = self._unnamed(naming, others, changed_at, step)
        causes: list[Cause] = []
        for line in lines:
            if line.strip() or not causes:
                writers = [call for call in naming_first if call.has_line(line)]
                writers += [call for call in running_first if call.quotes(line)]
                causes.append(Cause(INPUT, writers[0]) if writers else unnamed)
            else:
                causes.append(causes[-1])  # An empty line says nothing of its own.
        return causes

    def _before_first(self, step: Step, lines: Sequence[bytes]) -> list[Cause]:
        """The cause of lines that the first snapshot has: an edit before it, of which they were the new ones."""
        point = step.newer.point
        if not point.session:
            return [Cause(BEFORE)] * len(lines)
        path, below = absolute(point, step.newer.path), shown(step.newer.path)
        project = self._history.session_of(point).project
        calls = self._ran.between(0, point, point.folder, project)
        edits = [call for call in reversed(calls) if not call.is_hidden and call.writes(path, point.folder, below)]
        causes = []
        for line in lines:
            adding = next((call for call in edits if line.strip() and call.adds_line(line)), None)
            causes.append(Cause(BEFORE) if adding is None else Cause(INPUT, adding))
        return causes

    def _unnamed(self, naming: list[RanCall], others: list[RanCall], changed_at: int, step: Step) -> Cause:
        """The cause of lines that no input has."""
        if any(call.is_hidden for call in naming):
            return Cause(HIDDEN)
        if not naming:
            name = shown(step.newer.path).rpartition("/")[2]
            mentioning = [call for call in others if not call.is_hidden and call.mentions(name)]
            if len(others) > 1 and len(mentioning) == 1 and len(others) == len(_shown(others)):
                return Cause(NAMED, mentioning[0], _shown(others))
            return _among(others, changed_at)
        # The calls that name the file did not write these lines.
        if others:
            found = _among(others, changed_at)
            return found if found.why in (ONLY, HIDDEN) else Cause(SEVERAL, None, _shown([*others, *naming]))
        return Cause(UNCLEAR, None, _shown(naming))

    def _possible(self, step: Step) -> tuple[list[RanCall], list[RanCall], int]:
        """The calls that name the file, the others that ran, and when the file was changed last, if that is known."""
        newer, older = step.newer, step.older
        if older is None:
            raise AssertionError("what is before the first snapshot has no calls")
        key = (newer.point.position, older.point.position, newer.path)
        if key in self._known:
            return self._known[key]
        root = older.point.folder if newer.point.session == 0 else newer.point.folder
        path = absolute(newer.point, newer.path)
        session = self._history.session_of(newer.point if newer.point.session else older.point)
        changed_at = self._changed_at(step)
        calls = self._ran.between(older.point.began_at, newer.point, root, session.project)
        if changed_at:
            # What began after the last change has no part in it.
            calls = [call for call in calls if not call.is_timed or call.began_at <= changed_at + TOLERANCE_US]
        below = path.removeprefix(root.rstrip("/") + "/")
        naming = [call for call in calls if call.writes(path, root, below)]
        found = (naming, [call for call in calls if call not in naming and not call.is_edit], changed_at)
        self._known[key] = found
        return found

    def _changed_at(self, step: Step) -> int:
        """When the file was changed last, as its filesystem said at the snapshot; 0 if that is not known."""
        newer, older = step.newer, step.older
        if not newer.point.session:
            return self._live_changed_at
        if older is None:
            return 0
        session = self._history.session_of(newer.point)
        events = events_at(self._context.store, session, [newer.point.seq])
        path = shown(newer.path)
        for event in events.values():
            if isinstance(event.body, WorkspaceSnapshotted):
                at = next((change.changed_at for change in event.body.changes if change.path == path), 0)
                # A clock that was set, or a filesystem with another one, says nothing.
                return at if older.point.began_at - TOLERANCE_US <= at <= newer.point.at + TOLERANCE_US else 0
        return 0


def _among(calls: list[RanCall], changed_at: int) -> Cause:
    """The cause, when all that is known is which calls ran."""
    if not calls:
        return Cause(OUTSIDE)
    if all(call.is_hidden for call in calls):
        return Cause(HIDDEN)
    if len(calls) > 1:
        return Cause(SEVERAL, None, _shown(calls))
    [call] = calls
    if changed_at and call.is_timed and changed_at > call.ended_at + TOLERANCE_US:
        return Cause(UNCLEAR, None, (call,))
    return Cause(ONLY, call)


def _newest(calls: Sequence[RanCall]) -> list[RanCall]:
    """The calls that the caller may see, the newest first."""
    return [call for call in reversed(calls) if not call.is_hidden]


def _shown(calls: Sequence[RanCall]) -> tuple[RanCall, ...]:
    """The calls that the caller may see."""
    return tuple(call for call in calls if not call.is_hidden)
