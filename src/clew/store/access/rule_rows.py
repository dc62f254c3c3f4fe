"""Credentials and grants as the audit log states them: a name for each row, and a digest of what it allowed.

A name is `credential ID` or `grant ID`. The digest leaves out what may change by the rules: when a credential was last
used, what it descends from, and its end, which may only move closer and is stated beside the digest.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from clew.model.credential import Kind
from clew.store.access.credentials import find_credential, list_credentials
from clew.store.access.grants import find_grant, join_rights, list_grants
from clew.store.store import Store

CREDENTIAL, GRANT = "credential", "grant"


def describe_all(store: Store) -> Iterator[str]:
    """The names of all credentials and grants, access tokens apart, which a provider vouches for."""
    for credential in list_credentials(store):
        if credential.kind != Kind.ACCESS_TOKEN:
            yield f"{CREDENTIAL} {credential.id}"
    for record in list_grants(store):
        yield f"{GRANT} {record.grant.id}"


def digests_of(store: Store, names: Iterable[str]) -> tuple[str, ...]:
    """What these rows allow now, each as `DIGEST UNTIL`; empty for a row that is gone."""
    return tuple(_statement(store, name) for name in names)


def _statement(store: Store, name: str) -> str:
    kind, _, id = name.partition(" ")
    if kind == CREDENTIAL:
        credential = find_credential(store, id)
        if credential is None:
            return ""
        held = credential
        return _digest(held.until, held.kind, held.principal, held.hash.hex(), held.scopes, held.project, held.given_by)
    record = find_grant(store, int(id))
    if record is None:
        return ""
    grant = record.grant
    return _digest(
        grant.until, grant.principal, join_rights(grant.rights), grant.project, grant.agent, grant.session,
        record.given_by,
    )  # fmt: skip


def _digest(until: int, *values: str) -> str:
    return f"{sha256(msgspec.json.encode(values)).hexdigest()[:32]} {until}"


def end_of(statement: str) -> int:
    """When the row that a digest states ends; 0 is never."""
    return int(statement.partition(" ")[2])


def is_explained(now: str, stated: str) -> bool:
    """Whether a row still allows no more than an entry states: the same, and for no longer."""
    digest, _, until = now.partition(" ")
    stated_digest, _, stated_until = stated.partition(" ")
    ends, ended = int(until), int(stated_until or 0)
    return digest == stated_digest and (ended == 0 or 0 < ends <= ended)
