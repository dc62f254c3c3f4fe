"""Saved views: the filters and the order of lists that a principal saved under a name."""

from typing import NamedTuple

from clew.store.store import Store


class StoredView(NamedTuple):
    """A saved view as its row has it."""

    name: str
    filters: str
    at: int


def set_view(store: Store, principal: str, name: str, filters: str, *, most: int) -> bool:
    """Save a view, or replace the one of this name; False if the principal has `most` others already."""
    with store.database.write() as tx:
        return bool(tx.run("saved_view_set", principal=principal, name=name, filters=filters, most=most))


def remove_view(store: Store, principal: str, name: str) -> bool:
    """Remove a view; False if the principal has none of this name."""
    with store.database.write() as tx:
        return bool(tx.run("saved_view_remove", principal=principal, name=name))


def list_views(store: Store, principal: str) -> list[StoredView]:
    """The views of a principal, the first that was saved first."""
    with store.unrestricted.database.read() as tx:
        return [StoredView(*row) for row in tx.run("saved_views", principal=principal)]
