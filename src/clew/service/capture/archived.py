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
from clew.store.native_files.lookup import find_file, session_of
from clew.store.native_files.native_file import FileUpdate, NativeFile, fork_copy_id
from clew.store.native_files.stored_bytes import load_bytes
from clew.store.native_files.updates import apply_updates, move_file, set_fingerprint


def copy_in_use(store: Store, stored: NativeFile) -> tuple[NativeFile, Session | None]:
    """The copy of a stored file that grows now; with its session if that is archived and has no fork yet."""
    while not stored.erased:
        session = session_of(store, stored)
        if store.head(session).state != State.ARCHIVED:
            break
        fork_copy = find_file(store, _id_of_fork_copy(stored))
        if fork_copy is None:
            return stored, session
        stored = fork_copy
    return stored, None


def fork_archived(context: Context, stored: NativeFile, archived: Session) -> NativeFile:
    """Open the fork that continues an archived session, with a copy of the stored file."""
    permit(context, Right.APPEND, archived)
    store = context.store
    data = load_bytes(store, stored)
    update = FileUpdate(
        file_id=_id_of_fork_copy(stored), machine=stored.machine, runtime=stored.runtime, format=stored.format,
        path=stored.path, native_id=stored.native_id, fingerprint=stored.fingerprint, before=None,
        into=Forking(parent=archived, at=store.head(archived).head, metadata=archived.metadata or "{}"),
        drafts=[Draft(body=_attached(store, stored, archived), source=f"clew:{stored.native_id}")],
        data=data, start=stored.stored_bytes - len(data), generation=stored.generation, read_bytes=stored.read_bytes,
        ends_digest=stored.ends_digest, state=stored.state, translated=stored.translated, opaque=stored.opaque,
        quarantined=stored.quarantined, root=stored.root, written=stored.written,
    )  # fmt: skip
    [outcome] = apply_updates(store, [update], actor=context.principal)
    # A conflict means that another process opened the fork first.
    if isinstance(outcome, ClewError) and type(outcome) is not Conflict:
        raise outcome
    fork_copy = find_file(store, update.file_id)
    if fork_copy is None:
        raise AssertionError("the fork's copy was stored just now")
    return fork_copy


def save_fingerprint(store: Store, stored: NativeFile, fingerprint: str, *, file_id: bytes) -> None:
    """Store how an unchanged file looks now, for its copy in use and for `file_id`, where it is looked up first."""
    set_fingerprint(store, stored, fingerprint)
    first = find_file(store, file_id) if file_id != stored.file_id else None
    if first is not None:
        set_fingerprint(store, first, fingerprint)


def move_fork_copies(store: Store, moved: NativeFile, path: str) -> None:
    """Record the new path of a moved file in the copies of its forks, too."""
    stored: NativeFile | None = moved
    while stored is not None and (stored := find_file(store, _id_of_fork_copy(stored))):
        move_file(
            store, stored, machine=stored.machine, path=path, fingerprint=stored.fingerprint, file_id=stored.file_id
        )


def _id_of_fork_copy(stored: NativeFile) -> bytes:
    return fork_copy_id(stored.machine, stored.runtime, stored.key)


def _attached(store: Store, stored: NativeFile, archived: Session) -> RuntimeAttached:
    """The event that says where the program continues: in the directory it was in."""
    bodies = [event.body for event in store.read(archived, kinds=[RuntimeAttached.kind])]
    last = next((body for body in reversed(bodies) if isinstance(body, RuntimeAttached)), None)
    cwd = last.cwd if last else ""
    return RuntimeAttached(runtime=stored.runtime, native=stored.native_id, cwd=cwd, machine=stored.machine)
