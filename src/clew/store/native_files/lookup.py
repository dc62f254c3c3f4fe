"""Find native files, by what is known of them. Their bytes are read by `stored_bytes.py`."""

from clew.model.session import Session
from clew.store.database.contract import Transaction
from clew.store.log.rows import session_from
from clew.store.native_files.native_file import KnownFile, NativeFile, file_from, short_source
from clew.store.store import Store


def known_files(store: Store, machine: str) -> dict[bytes, KnownFile]:
    """Every file of this machine that was ever captured, by its file id."""
    with store.database.read() as tx:
        return {bytes(row[0]): KnownFile(*row[1:]) for row in tx.run("originals_known", machine=machine)}


def find_file(store: Store, file_id: bytes) -> NativeFile | None:
    with store.database.read() as tx:
        return find_file_in(tx, file_id)


def find_file_in(tx: Transaction, file_id: bytes) -> NativeFile | None:
    rows = tx.run("original_at", place=file_id)
    return file_from(rows[0]) if rows else None


def files_of(store: Store, session: Session) -> list[NativeFile]:
    """The native files of a session."""
    with store.database.read() as tx:
        rows = tx.run("originals_of", project=session.project_key, session=session.key)
        return [file_from(row) for row in rows]


def files_with_root(store: Store, runtime: str, root: str) -> list[NativeFile]:
    """The files whose first record is this one: a program's own fork copies the beginning of the session."""
    with store.database.read() as tx:
        rows = tx.run("originals_root", runtime=runtime, root=short_source(root) or "")
        return [file_from(row) for row in rows]


def files_with_native_id(store: Store, runtime: str, native_id: str) -> list[NativeFile]:
    """The files that claim to be this native session."""
    with store.database.read() as tx:
        return [file_from(row) for row in tx.run("originals_native", runtime=runtime, native=native_id)]


def session_of(store: Store, file: NativeFile) -> Session:
    """The session that a file belongs to."""
    with store.database.read() as tx:
        return session_from(tx.run("session_by_key", key=file.session_key)[0])
