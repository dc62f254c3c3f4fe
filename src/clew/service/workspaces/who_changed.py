"""Which calls changed the files that differ between two points: each change on the way, with its digests."""

from collections.abc import Iterator, Sequence

import msgspec

from clew.model.session import Session
from clew.service.kernel.context import Context
from clew.service.workspaces.causes import Causes
from clew.service.workspaces.comparing import Difference
from clew.service.workspaces.file_history import FileHistory, Version
from clew.service.workspaces.ran_calls import RanCall, RanCalls
from clew.views.points import FolderPoint

# Of so many files the calls are looked for; a comparison of more files says so by `causes` being None.
MOST_FILES = 500


class ChangingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that changed a file, or that can have changed it."""

    session: str
    seq: int
    call: str
    tool: str
    runtime: str
    at: int


class FileCause(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a file between two snapshots that are one after the other."""

    why: str
    """As in a blame: named, only, several, unclear, outside, hidden or before."""
    calls: tuple[ChangingCall, ...]
    seq: int
    """The snapshot that first has the change."""
    before: str
    """The digest of the file before, and after; empty where there was no file."""
    after: str


def changing_call(call: RanCall) -> ChangingCall:
    return ChangingCall(
        session=call.session.id, seq=call.seq, call=call.made.call, tool=call.made.tool, runtime=call.runtime,
        at=call.began_at,
    )  # fmt: skip


def causes_of(
    context: Context, session: Session, old: int, new: int, differences: Sequence[Difference]
) -> list[tuple[FileCause, ...] | None]:
    """The changes on the way from one event of a session to a later one, for each file, newest first.

    None for a file of which they are not known: the first event is not before the second, or there are too many files.
    """
    history = FileHistory(context, session)
    points = {point.seq: point for point in history.points_of(session)}
    if old not in points or new not in points or old >= new:
        return [None] * len(differences)
    causes = Causes(context, history)
    return [
        tuple(_causes(history, causes, points[old], points[new], difference)) if number < MOST_FILES else None
        for number, difference in enumerate(differences)
    ]


def _causes(
    history: FileHistory, causes: Causes, old: FolderPoint, new: FolderPoint, difference: Difference
) -> Iterator[FileCause]:
    version = Version(new, difference.path, difference.after)
    for step in history.steps(version):
        if step.newer.point.position <= old.position:
            return
        cause = causes.of_file(step)
        calls = [cause.call] if cause.call is not None else cause.others
        before = step.older.entry if step.older is not None else None
        yield FileCause(
            why=cause.why, calls=tuple(changing_call(call) for call in calls), seq=step.newer.point.seq,
            before=before.digest.hex() if before is not None else "",
            after=step.newer.entry.digest.hex() if step.newer.entry is not None else "",
        )  # fmt: skip


def calls_before(context: Context, session: Session) -> dict[int, tuple[ChangingCall, ...]]:
    """For each point of a session, by its seq, its own calls that can have changed files since the point before."""
    history = FileHistory(context, session)
    ran = RanCalls(context)
    own = frozenset(part.key for part in context.store.lineage(session))
    found = {}
    for point in history.points_of(session):
        older = history.newest(point.machine, f"{point.folder.rstrip('/')}/.", before=point.position)
        if older is not None and not point.is_restore:
            calls = ran.between(older.began_at, point, point.folder, session.project, of=own)
            found[point.seq] = tuple(changing_call(call) for call in calls if not call.is_hidden)
    return found
