"""API keys, links and login keys. Only the hash of a secret is stored."""

import msgspec

from clew.model.access import Right
from clew.store.access.grants import parse_rights
from clew.store.database.contract import Row
from clew.store.store import Store


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret. Empty `scopes` are all rights, an empty `project` is every project."""

    id: str
    principal: str
    hash: bytes
    scopes: str
    project: str
    label: str
    at: int
    until: int
    used_at: int
    given_by: str
    disabled: bool


def add_api_key(store: Store, key: ApiKey) -> int:
    """Store a key; returns when, by the database's clock."""
    with store.database.write() as tx:
        [(at,)] = tx.run(
            "key_add", id=key.id, principal=key.principal, hash=key.hash, scopes=key.scopes, project=key.project,
            label=key.label, until=key.until, given_by=key.given_by,
        )  # fmt: skip
    return int(at)


def find_api_key(store: Store, id: str) -> ApiKey | None:
    with store.database.read() as tx:
        rows = tx.run("key_read", id=id)
        return _key_from(rows[0]) if rows else None


def list_api_keys(store: Store, principal: str = "") -> list[ApiKey]:
    """The keys of one principal, or of all."""
    filters = {"principal": principal} if principal else {}
    with store.database.read() as tx:
        return [_key_from(row) for row in tx.run("keys_of", **filters)]


def record_key_use(store: Store, id: str, at: int) -> None:
    """Remember when a key was last used."""
    with store.database.write() as tx:
        tx.run("key_used", id=id, at=at)


def redeem_login_key(store: Store, id: str) -> bool:
    """Use up a key that is good for one login; True only for the first caller."""
    with store.database.write() as tx:
        return bool(tx.run("key_redeem", id=id))


def expire_api_key(store: Store, id: str, until: int) -> bool:
    """Let a key expire at a time, unless it expires before."""
    with store.database.write() as tx:
        return bool(tx.run("key_end", id=id, until=until))


def scopes_of(key: ApiKey) -> frozenset[Right] | None:
    """The rights a key is limited to; None if it is not limited."""
    return parse_rights(key.scopes) if key.scopes else None


def _key_from(row: Row) -> ApiKey:
    id, principal, hash, scopes, project, label, at, until, used_at, given_by, disabled = row
    return ApiKey(
        id=id, principal=principal, hash=bytes(hash), scopes=scopes, project=project, label=label, at=at, until=until,
        used_at=used_at, given_by=given_by, disabled=bool(disabled),
    )  # fmt: skip
