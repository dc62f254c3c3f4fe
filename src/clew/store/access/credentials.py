"""Credentials: browsers, API keys, access tokens, links and logins. Only the hash of a secret is stored."""

from clew.model.credential import MOST_LIVE, MOST_LIVE_TOKENS, Credential, Kind
from clew.model.errors import Conflict
from clew.model.retention import DAY_US
from clew.store.database.contract import Row, Transaction
from clew.store.store import Store

# How long an ended access token is remembered, so that it cannot be used again.
FORGET_AFTER_US = 90 * DAY_US


def add_credential(store: Store, credential: Credential) -> int:
    """Store a credential; returns when, by the database's clock. A principal holds only so many at once."""
    holder = credential.given_by if credential.kind == Kind.LINK else credential.principal
    with store.database.write() as tx:
        tx.run("principal_lock", name=holder)  # So that two requests do not pass the limit together.
        tokens = int(credential.kind == Kind.ACCESS_TOKEN)
        if tokens:
            tx.run("credentials_forget", age=FORGET_AFTER_US)
        [(live,)] = tx.run("credentials_live", holder=holder, tokens=tokens)
        most = MOST_LIVE_TOKENS if tokens else MOST_LIVE
        if live >= most and not (credential.kind == Kind.BROWSER and _end_oldest_browser(tx, holder)):
            raise Conflict(f"{holder} holds {live} live credentials, and {most} is the most; end one first")
        rows = tx.run(
            "credential_add", id=credential.id, kind=credential.kind, parent=credential.parent,
            principal=credential.principal, hash=credential.hash, scopes=credential.scopes,
            project=credential.project, label=credential.label, until=credential.until, given_by=credential.given_by,
        )  # fmt: skip
    return int(rows[0][0]) if rows else 0


def _end_oldest_browser(tx: Transaction, holder: str) -> bool:
    """End the browser login that was not used for longest, so that nobody is kept out by logins of their own."""
    return bool(tx.run("credential_end_browser", principal=holder))


def find_credential(store: Store, id: str) -> Credential | None:
    chain = credential_chain(store, id)
    return chain[0] if chain else None


def credential_chain(store: Store, id: str) -> list[Credential]:
    """A credential and the ones it descends from, itself first."""
    with store.unrestricted.database.read() as tx:
        return [_credential_from(row) for row in tx.run("credential_chain", id=id)]


def list_credentials(store: Store, principal: str = "") -> list[Credential]:
    """The credentials of one principal and the links it made, or those of all."""
    filters = {"principal": principal} if principal else {}
    with store.unrestricted.database.read() as tx:
        return [_credential_from(row) for row in tx.run("credentials_of", **filters)]


def record_use(store: Store, id: str, at: int) -> None:
    """Remember when a credential was last used."""
    with store.database.write() as tx:
        tx.run("credential_used", id=id, at=at)


def redeem_login(store: Store, id: str) -> bool:
    """Use up a credential that is good for one login; True only for the first caller."""
    with store.database.write() as tx:
        return bool(tx.run("credential_redeem", id=id))


def end_credential(store: Store, id: str, until: int) -> list[str]:
    """Let a credential and all that descend from it end at a time, unless they end before; returns which changed."""
    with store.database.write() as tx:
        return [str(row[0]) for row in tx.run("credential_end", id=id, until=until)]


def end_credentials_of(store: Store, principal: str, until: int) -> list[str]:
    """End every credential of a principal, the links it made, and all that descend from them."""
    with store.database.write() as tx:
        return [str(row[0]) for row in tx.run("credentials_end", principal=principal, until=until)]


def replace_parent(store: Store, old: str, new: str) -> None:
    """Make what one credential made descend from another, its successor."""
    with store.database.write() as tx:
        tx.run("credential_reparent", old=old, new=new)


def _credential_from(row: Row) -> Credential:
    id, kind, parent, principal, hash, scopes, project, label, at, until, used_at, given_by, disabled = row
    return Credential(
        id=id, kind=kind, parent=parent, principal=principal, hash=bytes(hash), scopes=scopes, project=project,
        label=label, at=at, until=until, used_at=used_at, given_by=given_by, disabled=bool(disabled),
    )  # fmt: skip
