"""API keys: create, show once, narrow, rotate and revoke them."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.credential import Credential, Kind, limits_of
from clew.model.errors import Denied, InvalidInput, NotFound
from clew.model.ids import check_name
from clew.model.retention import DAY_US
from clew.service.access.credentials import KeyInfo, describe, is_narrowed, make, permit_making
from clew.service.access.key_text import new_token
from clew.service.access.principals import Who, may_everything, principal_named
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.access.credentials import (
    credential_chain,
    end_credential,
    find_credential,
    list_credentials,
    replace_parent,
)

# How long the old key stays valid after a rotation, while programs change over to the new one.
OVERLAP_HOURS = 24
MOST_VALID = 2

Days = Annotated[int, msgspec.Meta(ge=1, le=3650, description="Days until it ends.")]


def _permit_keys_of(context: Context, principal: str) -> None:
    """Refuse the keys of others to anybody but an owner."""
    if principal != context.principal and not may_everything(context):
        raise Denied(f"{context.principal} may not make or end keys of others; ask an owner", right="administer")


KEYS = Group("key", "API keys.")


@operation(right=Right.SEE, route="POST /keys", filters_by_reach=True, audited=True, group=KEYS, shows_secret=True)
def key_create(
    context: Context,
    *,
    principal: Who = "",
    label: Annotated[str, msgspec.Meta(max_length=100, description="What it is for.")] = "",
    scopes: Annotated[list[Right], msgspec.Meta(min_length=1, description="Only good for these rights.")] | None = None,
    project: Annotated[str, msgspec.Meta(description="Only good for this project.")] = "",
    days: Days = 90,
) -> KeyInfo:
    """Make an API key, for yourself or another; its text is shown this once. It ends with the key you make it with."""
    name = principal_named(principal) if principal else context.principal
    permit_making(context)
    _permit_keys_of(context, name)
    check_name(label, "the label")
    check_name(project, "the project")
    until = context.store.now() + days * DAY_US
    token = new_token(_kind_of_text(name))
    words = " ".join(sorted(scopes or ()))
    return make(context, token, Kind.API_KEY, principal=name, label=label, until=until, scopes=words, project=project)


def _kind_of_text(principal: str) -> str:
    kind = principal.partition(":")[0]
    if kind not in ("person", "agent", "service"):
        raise InvalidInput(f"{principal} cannot have a key; a person, an agent or a service can")
    return kind


@operation(
    right=Right.SEE, route="POST /keys/{key}/rotate", filters_by_reach=True, audited=True, group=KEYS, shows_secret=True
)
def key_rotate(context: Context, key: str, *, days: Days = 90) -> KeyInfo:
    """Make a successor of a key; the old one stays good for a day, so that programs can change over."""
    old = _find(context, key)
    permit_making(context)
    if old.kind != Kind.API_KEY:
        raise InvalidInput(f"{old.id} is a credential of the kind {old.kind}; only API keys are rotated")
    now = context.store.now()
    if limits_of(credential_chain(context.store, old.id), now) is None:
        raise InvalidInput(f"key {old.id} has ended; make a new one")
    valid = [
        other.id
        for other in list_credentials(context.store, old.principal)
        if other.kind == Kind.API_KEY and not 0 < other.until <= now
        and (other.label, other.scopes, other.project) == (old.label, old.scopes, old.project)
    ]  # fmt: skip
    if len(valid) >= MOST_VALID:
        raise InvalidInput(
            f"two keys of {old.principal} with these rights are valid already ({', '.join(valid)}); revoke one first"
        )
    # The successor takes the place of the old key: it has the same parent, and what the old key made is its own.
    made = make(
        context, new_token(_kind_of_text(old.principal)), Kind.API_KEY, principal=old.principal, label=old.label,
        until=now + days * DAY_US, scopes=old.scopes, project=old.project, parent=old.parent,
    )  # fmt: skip
    replace_parent(context.store, old.id, made.id)
    end_credential(context.store, old.id, now + OVERLAP_HOURS * 3_600_000_000)
    return made


@operation(right=Right.SEE, route="DELETE /keys/{key}", filters_by_reach=True, audited=True, group=KEYS,
           warning="This ends the key {key} for good: every program that uses it is refused")  # fmt: skip
def key_revoke(context: Context, key: str) -> KeyInfo:
    """End a key, a link or a login now, and all that were made with it; they are refused everywhere within a second."""
    revoked = _find(context, key)
    permit_making(context)
    ended = end_credential(context.store, revoked.id, context.store.now())
    context.touched.ended.extend(f"credential {id}" for id in ended)
    return describe(find_credential(context.store, revoked.id) or revoked)


@operation(right=Right.SEE, route="GET /keys", filters_by_reach=True, group=KEYS)
def key_list(context: Context, *, principal: Who = "") -> list[KeyInfo]:
    """List your keys, links and logins, or those of another; never their text."""
    name = principal_named(principal) if principal else context.principal
    _permit_keys_of(context, name)
    if is_narrowed(context):
        own = find_credential(context.store, context.credential.id)
        return [describe(own)] if own is not None else []
    return [describe(credential) for credential in list_credentials(context.store, name)]


def _find(context: Context, id: str) -> Credential:
    credential = find_credential(context.store, check_name(id, "a key's id"))
    if credential is None or not (_is_own(context, credential) or may_everything(context)):
        raise NotFound(f"no key {id[:40]!r} of yours", missing="key")
    return credential


def _is_own(context: Context, credential: Credential) -> bool:
    """Whether a credential stands for the caller, or is a link that the caller made."""
    holder = credential.given_by if credential.kind == Kind.LINK else credential.principal
    return holder == context.principal
