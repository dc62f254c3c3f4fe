"""Cursors: how far a reader of this name has come."""

from clew.model.ids import check_name
from clew.store.store import Store


def read_cursor(store: Store, name: str) -> int:
    """The position that was kept under a name; 0 when there is none."""
    with store.unrestricted.database.read() as tx:
        rows = tx.run("cursor_read", name=name)
        return int(rows[0][0]) if rows else 0


def move_cursor(store: Store, name: str, position: int) -> None:
    """Keep a position under a name."""
    check_name(name, "the name of a cursor")
    with store.database.write() as tx:
        tx.run("cursor_move", name=name, position=position)
