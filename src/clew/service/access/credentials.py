"""Making and ending credentials. A child is narrowed to its parent when it is made, and again whenever it is used."""

import msgspec

from clew.model.access import Right
from clew.model.credential import MAKERS, MOST_DEEP, Credential, Kind, earliest
from clew.model.errors import Denied, InvalidInput
from clew.service.access.key_text import Token
from clew.service.kernel.context import Context
from clew.store.access.credentials import add_credential, credential_chain
from clew.store.access.principals import Principal, find_principal, set_principal


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a credential. Its text is in `key`, once, when it is made."""

    id: str
    principal: str
    label: str
    scopes: list[str]
    project: str
    at: int
    until: int
    used_at: int
    given_by: str
    key: str = ""
    kind: str = "api_key"
    parent: str = ""
    """The credential it was made with, with which it ends."""


def describe(credential: Credential, text: str = "") -> KeyInfo:
    return KeyInfo(
        id=credential.id, principal=credential.principal, label=credential.label, scopes=credential.scopes.split(),
        project=credential.project, at=credential.at, until=credential.until, used_at=credential.used_at,
        given_by=credential.given_by, key=text, kind=credential.kind, parent=credential.parent,
    )  # fmt: skip


def is_narrowed(context: Context) -> bool:
    """Whether the caller's credential is good for less than its principal."""
    used = context.credential
    return context.scopes is not None or bool(context.key_project) or used.kind not in MAKERS


def permit_making(context: Context, what: str = "make or end credentials") -> None:
    """Refuse callers whose credential is narrowed, or is a link or an access token: these make and end no others."""
    if is_narrowed(context):
        raise Denied(
            f"a narrowed key, a link or an access token cannot {what}; use a key with all rights, or log in",
            right=str(Right.ADMINISTER),
        )


def make(
    context: Context,
    token: Token,
    kind: Kind,
    *,
    principal: str,
    label: str,
    until: int,
    scopes: str = "",
    project: str = "",
    parent: str | None = None,
) -> KeyInfo:
    """Store a new credential, the child of the caller's own unless another parent is named; it lives no longer."""
    used = context.credential
    parent = used.id if parent is None else parent
    ancestors = credential_chain(context.store, parent) if parent else []
    if len(ancestors) >= MOST_DEEP:
        raise InvalidInput(f"this would be the {MOST_DEEP + 1}th credential made one with the other; use an older one")
    if kind == Kind.API_KEY and find_principal(context.store, principal) is None:
        set_principal(context.store, Principal(name=principal))
    credential = Credential(
        id=token.id, kind=kind, parent=parent, principal=principal, hash=token.hash, scopes=scopes, project=project,
        label=label, at=0, until=earliest(until, *(ancestor.until for ancestor in ancestors)), used_at=0,
        given_by=context.principal,
    )  # fmt: skip
    at = add_credential(context.store, credential)
    context.touched.made.append(f"credential {credential.id}")
    return describe(msgspec.structs.replace(credential, at=at), token.text)
