"""Grants: which rights a principal or a team has, on what, until when, and who granted them."""

from collections.abc import Iterable

import msgspec

from clew.model.access import Grant, Right
from clew.store.database.contract import Row
from clew.store.log.opening import project_in
from clew.store.store import Store


class GrantRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A grant, and who gave it when."""

    grant: Grant
    given_by: str
    at: int


def add_grant(store: Store, grant: Grant, *, given_by: str) -> Grant:
    """Grant rights; a grant to the same principal on the same target replaces the one before.

    The project is created if it does not exist, so that its key is known from the first session on.
    """
    with store.database.write() as tx:
        if grant.project:
            grant = msgspec.structs.replace(grant, project=project_in(tx, grant.project)[1])
        [(id,)] = tx.run(
            "grant_set", who=grant.principal, rights=join_rights(grant.rights), project=grant.project,
            agent=grant.agent, session=grant.session, until=grant.until, given_by=given_by,
        )  # fmt: skip
    return msgspec.structs.replace(grant, id=id)


def remove_grant(store: Store, id: int) -> bool:
    """Remove a grant; False if there is none with this id."""
    with store.database.write() as tx:
        return bool(tx.run("grant_remove", id=id))


def find_grant(store: Store, id: int) -> GrantRecord | None:
    with store.database.read() as tx:
        rows = tx.run("grant_read", id=id)
        return _record_from(rows[0]) if rows else None


def list_grants(store: Store, *, who: str = "", project: str = "", session: str = "") -> list[GrantRecord]:
    """The grants that match every filter that is given."""
    filters = {name: value for name, value in (("who", who), ("project", project), ("session", session)) if value}
    with store.database.read() as tx:
        return [_record_from(row) for row in tx.run("grants", **filters)]


def list_grants_for(store: Store, principal: str) -> list[Grant]:
    """The grants to a principal and to its teams."""
    with store.unrestricted.database.read() as tx:
        return [_record_from(row).grant for row in tx.run("grants_of", principal=principal)]


def project_keys_of_accessible_sessions(store: Store, principal: str) -> list[int]:
    """The keys of the projects with a session that the principal opened or was granted by itself."""
    with store.unrestricted.database.read() as tx:
        return [row[0] for row in tx.run("projects_of_accessible_sessions", me=principal)]


def join_rights(rights: Iterable[Right]) -> str:
    """Rights as they are stored: words separated by blanks."""
    return " ".join(sorted(map(str, rights)))


def parse_rights(words: str) -> frozenset[Right]:
    # A newer program may have stored a right that this one cannot rule on; it is ignored.
    return frozenset(right for right in Right if right in words.split())


def _record_from(row: Row) -> GrantRecord:
    id, who, rights, project, agent, session, until, given_by, at = row
    grant = Grant(
        id=id, principal=who, rights=parse_rights(rights), project=project, agent=agent, session=session, until=until
    )
    return GrantRecord(grant=grant, given_by=given_by, at=at)
