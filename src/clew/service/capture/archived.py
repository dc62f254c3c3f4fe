"""What a file says after its session was archived goes into a fork; the archived session stays as it is.

The fork has a copy of the stored file, which grows from then on. The archived session's own copy ends where it was
archived. So each of them can be exported, pruned and erased by itself.
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


def copy_in_use(store: Store, stored: Original) -> tuple[Original, Session | None]:
    """The copy of a stored file that grows now; with its session if that is archived and has no fork yet."""
    while not stored.erased:
        session = native_files.session_of(store, stored)
        if store.head(session).state != State.ARCHIVED:
            break
        fork_copy = native_files.original(store, _place_of_fork_copy(stored))
        if fork_copy is None:
            return stored, session
        stored = fork_copy
    return stored, None


def last_known_copy(known: dict[bytes, Known], stored: Known, machine: str, runtime: str) -> Known:
    """The copy of a stored file that grows now, from what the store knows of all files."""
    while fork_copy := known.get(place_of(machine, runtime, f"#{stored.key}")):
        stored = fork_copy
    return stored


def fork_archived(context: Context, stored: Original, archived: Session) -> Original:
    """Open the fork that continues an archived session, with a copy of the stored file."""
    permit(context, Right.APPEND, archived)
    store = context.store
    data = native_files.load(store, stored)
    take = Take(
        place=_place_of_fork_copy(stored), machine=stored.machine, runtime=stored.runtime, format=stored.format,
        path=stored.path, native=stored.native, stamp=stored.stamp, before=None,
        into=Forking(parent=archived, at=store.head(archived).head, metadata=archived.metadata or "{}"),
        drafts=[Draft(body=_attached(store, stored, archived), source=f"clew:{stored.native}")],
        data=data, start=stored.kept - len(data), generation=stored.generation, taken=stored.taken,
        edges=stored.edges, state=stored.state, told=stored.told, opaque=stored.opaque,
        quarantined=stored.quarantined, root=stored.root, written=stored.written,
    )  # fmt: skip
    [outcome] = native_files.keep(store, [take], actor=context.principal)
    # A conflict means that another process opened the fork first.
    if isinstance(outcome, ClewError) and type(outcome) is not Conflict:
        raise outcome
    fork_copy = native_files.original(store, take.place)
    if fork_copy is None:
        raise AssertionError("the fork's copy was stored just now")
    return fork_copy


def save_stamp(store: Store, stored: Original, stamp: str, *, place: bytes) -> None:
    """Store how an unchanged file looks now, for its copy in use and for `place`, where it is looked up first."""
    native_files.restamp(store, stored, stamp)
    first = native_files.original(store, place) if place != stored.place else None
    if first is not None:
        native_files.restamp(store, first, stamp)


def move_fork_copies(store: Store, moved: Original, path: str) -> None:
    """Record the new path of a moved file in the copies of its forks, too."""
    stored: Original | None = moved
    while stored is not None and (stored := native_files.original(store, _place_of_fork_copy(stored))):
        native_files.move(store, stored, machine=stored.machine, path=path, stamp=stored.stamp, place=stored.place)


def _place_of_fork_copy(stored: Original) -> bytes:
    """The store's key of the fork's copy. It follows from the row's key, because the file itself may move."""
    return place_of(stored.machine, stored.runtime, f"#{stored.key}")


def _attached(store: Store, stored: Original, archived: Session) -> RuntimeAttached:
    """The event that says where the program continues: in the directory it was in."""
    bodies = [event.body for event in store.read(archived, kinds=[RuntimeAttached.kind])]
    last = next((body for body in reversed(bodies) if isinstance(body, RuntimeAttached)), None)
    cwd = last.cwd if last else ""
    return RuntimeAttached(runtime=stored.runtime, native=stored.native, cwd=cwd, machine=stored.machine)
