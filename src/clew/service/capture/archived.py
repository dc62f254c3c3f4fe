"""What is said after a session was archived: it goes into a fork, and the session stays as it was put away.

The fork has a copy of the native file, which grows from then on; the archived session's own ends where it was archived.
So each can be exported, pruned and erased by itself.
"""

from clew.model.access import Right
from clew.model.errors import ClewError, Conflict
from clew.model.events import Draft, RuntimeAttached
from clew.model.session import Session, State
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.store import Store
from clew.store.log.opening import Forking
from clew.store.native_files import native_files
from clew.store.native_files.native_files import Known, Original, Take, place_of


def original_in_use(store: Store, before: Original) -> tuple[Original, Session | None]:
    """The original that takes what comes; with its session, if that is archived and not gone on with yet."""
    while not before.erased:
        session = native_files.session_of(store, before)
        if store.head(session).state != State.ARCHIVED:
            break
        after = native_files.original(store, _place_after(before))
        if after is None:
            return before, session
        before = after
    return before, None


def fork_archived(context: Context, before: Original, archived: Session) -> Original:
    """Open the fork in which an archived session goes on, with a copy of its file as far as that was captured."""
    permit(context, Right.APPEND, archived)
    store = context.store
    data = native_files.load(store, before)
    take = Take(
        place=_place_after(before), machine=before.machine, runtime=before.runtime, format=before.format,
        path=before.path, native=before.native, stamp=before.stamp, before=None,
        into=Forking(parent=archived, at=store.head(archived).head, metadata=archived.metadata or "{}"),
        drafts=[Draft(body=_attached(store, before, archived), source=f"clew:{before.native}")],
        data=data, start=before.kept - len(data), generation=before.generation, taken=before.taken, edges=before.edges,
        state=before.state, told=before.told, opaque=before.opaque, quarantined=before.quarantined, root=before.root,
        written=before.written,
    )  # fmt: skip
    [outcome] = native_files.keep(store, [take], actor=context.principal)
    # Another process may have been quicker.
    if isinstance(outcome, ClewError) and type(outcome) is not Conflict:
        raise outcome
    after = native_files.original(store, take.place)
    if after is None:
        raise AssertionError("it was kept just now")
    return after


def restamp(store: Store, before: Original, stamp: str, *, place: bytes) -> None:
    """Remember how a file was seen that holds nothing new, also at the place where it is looked up first."""
    native_files.restamp(store, before, stamp)
    first = native_files.original(store, place) if place != before.place else None
    if first is not None:
        native_files.restamp(store, first, stamp)


def follow(store: Store, moved: Original, path: str) -> None:
    """Remember of every copy, too, that the file now lies elsewhere."""
    after: Original | None = moved
    while after is not None and (after := native_files.original(store, _place_after(after))):
        native_files.move(store, after, machine=after.machine, path=path, stamp=after.stamp, place=after.place)


def latest(known: dict[bytes, Known], there: Known, machine: str, runtime: str) -> Known:
    """What is remembered of the copy that takes what comes, or of the file itself."""
    while after := known.get(place_of(machine, runtime, f"#{there.key}")):
        there = after
    return there


def _place_after(before: Original) -> bytes:
    """The name of the copy; by the key, because the file itself may move."""
    return place_of(before.machine, before.runtime, f"#{before.key}")


def _attached(store: Store, before: Original, archived: Session) -> RuntimeAttached:
    """That it goes on where it was."""
    noted = [one.body for one in store.read_kinds(archived, [RuntimeAttached.kind])]
    last = next((one for one in reversed(noted) if isinstance(one, RuntimeAttached)), None)
    cwd = last.cwd if last else ""
    return RuntimeAttached(runtime=before.runtime, native=before.native, cwd=cwd, machine=before.machine)
