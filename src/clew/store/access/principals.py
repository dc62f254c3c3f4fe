"""Principals and the teams they belong to."""

from collections.abc import Iterable

import msgspec

from clew.model.session import Session
from clew.store.database.contract import Row, Transaction
from clew.store.store import Store


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A person, an agent or a service. `login` is the issuer and the subject of an OpenID provider."""

    name: str
    title: str = ""
    login: str = ""
    disabled: bool = False
    at: int = 0


def set_principal(store: Store, principal: Principal) -> None:
    """Add a principal, or change its title or its login; an empty field leaves the stored value unchanged."""
    with store.database.write() as tx:
        tx.run("principal_set", name=principal.name, title=principal.title, login=principal.login)


def disable_principal(store: Store, name: str) -> bool:
    """Refuse the principal's keys and logins from now on; False if there is no such principal."""
    return _set_disabled(store, name, disabled=True)


def enable_principal(store: Store, name: str) -> bool:
    """Accept the principal's keys and logins again; False if there is no such principal."""
    return _set_disabled(store, name, disabled=False)


def _set_disabled(store: Store, name: str, *, disabled: bool) -> bool:
    with store.database.write() as tx:
        return bool(tx.run("principal_disable", name=name, disabled=int(disabled)))


def list_principals(store: Store) -> list[Principal]:
    with store.unrestricted.database.read() as tx:
        return [_principal_from(row) for row in tx.run("principals")]


def find_principal(store: Store, name: str) -> Principal | None:
    with store.unrestricted.database.read() as tx:
        rows = tx.run("principal_named", name=name)
        return _principal_from(rows[0]) if rows else None


def find_principal_by_login(store: Store, login: str) -> Principal | None:
    with store.unrestricted.database.read() as tx:
        rows = tx.run("principal_of_login", login=login)
        return _principal_from(rows[0]) if rows else None


def add_principal_of_login(store: Store, lock: Session, login: str, *, names: Iterable[str], title: str) -> str:
    """The name of the principal with a login, added under the first free name if there is none.

    `lock` is a session whose row is locked meanwhile, so that no two new principals get the same name.
    """
    with store.database.write() as tx:
        tx.run("head_lock", project=lock.project_key, session=lock.key)
        known = tx.run("principal_of_login", login=login)
        if known:
            return _principal_from(known[0]).name
        name = next(name for name in names if not _is_taken(tx, name))
        tx.run("principal_set", name=name, title=title, login=login)
    return name


def _is_taken(tx: Transaction, name: str) -> bool:
    """Whether a name is in use: a principal, a grant, a key, a team or a session may have it."""
    return bool(
        tx.run("principal_named", name=name)
        or tx.run("grants", who=name)
        or tx.run("credentials_of", principal=name)
        or tx.run("teams_of", principal=name)
        or tx.run("projects_of_accessible_sessions", me=name)
    )


def set_teams_of(store: Store, principal: str, teams: Iterable[str]) -> None:
    """Make a principal a member of these teams, and of no other."""
    wanted = set(teams)
    with store.database.write() as tx:
        current = {str(row[0]) for row in tx.run("teams_of", principal=principal)}
        for team in sorted(wanted - current):
            tx.run("member_add", team=team, principal=principal)
        for team in sorted(current - wanted):
            tx.run("member_remove", team=team, principal=principal)


def add_member(store: Store, team: str, principal: str) -> None:
    with store.database.write() as tx:
        tx.run("member_add", team=team, principal=principal)


def remove_member(store: Store, team: str, principal: str) -> bool:
    """Remove a principal from a team; False if it was not a member."""
    with store.database.write() as tx:
        return bool(tx.run("member_remove", team=team, principal=principal))


def list_members(store: Store) -> dict[str, list[str]]:
    """Every team with its members."""
    members: dict[str, list[str]] = {}
    with store.unrestricted.database.read() as tx:
        for team, principal in tx.run("members"):
            members.setdefault(team, []).append(principal)
    return members


def list_teams_of(store: Store, principal: str) -> list[str]:
    with store.unrestricted.database.read() as tx:
        return [row[0] for row in tx.run("teams_of", principal=principal)]


def _principal_from(row: Row) -> Principal:
    name, title, login, disabled, at = row
    return Principal(name=name, title=title, login=login, disabled=bool(disabled), at=at)
