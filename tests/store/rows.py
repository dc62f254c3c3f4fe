"""The rows of a database behind its log's back: what the disk holds, and what only a vandal or a clock would change."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clew.model.session import Session
from clew.store import Store

DAY_US = 24 * 60 * 60 * 1_000_000
TABLES = ("project", "session", "head", "event", "blob", "cursor", "policy")


def query(store: Store, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement in plain SQL."""
    with store.database.read() as tx:
        return [tuple(row) for row in tx.connection.execute(sql)]  # type: ignore[attr-defined]


def change(store: Store, *statements: str) -> None:
    """Run statements in plain SQL, in one transaction."""
    with store.database.write() as tx:
        for sql in statements:
            tx.connection.execute(sql)  # type: ignore[attr-defined]


def one(session: Session, seq: int) -> str:
    """The condition that names one event."""
    return f"project = {session.project_key} AND session = {session.key} AND seq = {seq}"


def literal(store: Store, data: bytes) -> str:
    """Bytes as SQL."""
    return f"x'{data.hex()}'" if store.database.dialect == "lite" else rf"'\x{data.hex()}'::bytea"


def content(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    return {table: sorted(query(store, f"SELECT * FROM {table}"), key=repr) for table in TABLES}


def counts(store: Store) -> dict[str, int]:
    """How many rows each table has."""
    return {table: query(store, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


@contextmanager
def unchanged(store: Store) -> Iterator[None]:
    """Check that the block writes nothing at all."""
    before = content(store)
    yield
    assert content(store) == before


def expire_lease(store: Store, session: Session) -> None:
    """Let the time of a lease be over."""
    head = store.head(session)
    with store.database.write() as tx:
        tx.run(
            "lease_set", project=session.project_key, session=session.key, epoch=head.epoch, holder=head.holder,
            until=1, from_epoch=head.epoch,
        )  # fmt: skip


def age(store: Store, session: Session, *, days: int) -> None:
    """Let the last event of a session be some days older. Its head's time is in no digest."""
    change(store, f"UPDATE head SET at = at - {days * DAY_US} WHERE session = {session.key}")
