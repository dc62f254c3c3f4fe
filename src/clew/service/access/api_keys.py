"""API keys: create, show once, narrow, rotate and revoke them."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import Denied, InvalidInput, NotFound
from clew.model.ids import check_name
from clew.model.retention import DAY_US
from clew.service.access.key_text import new_token
from clew.service.access.principals import Who, may_everything, principal_named
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.access.api_keys import ApiKey, add_api_key, expire_api_key, find_api_key, list_api_keys, scopes_of
from clew.store.access.principals import Principal, find_principal, set_principal

# How long the old key stays valid after a rotation, while programs change over to the new one.
OVERLAP_HOURS = 24
MOST_VALID = 2

Days = Annotated[int, msgspec.Meta(ge=1, le=3650, description="Days until it ends.")]


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of an API key. Its text is in `key`, once, when it is made."""

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


def _info(key: ApiKey, text: str = "") -> KeyInfo:
    return KeyInfo(
        id=key.id, principal=key.principal, label=key.label, scopes=key.scopes.split(), project=key.project, at=key.at,
        until=key.until, used_at=key.used_at, given_by=key.given_by, key=text,
    )  # fmt: skip


def _is_own(context: Context, principal: str) -> bool:
    return principal == context.principal


def _permit_keys_of(context: Context, principal: str) -> None:
    """Refuse the keys of others to anybody but an owner."""
    if not _is_own(context, principal) and not may_everything(context):
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
    """Make an API key, for yourself or another; its text is shown this once."""
    name = principal_named(principal) if principal else context.principal
    _permit_keys_of(context, name)
    _permit_scopes(context, frozenset(scopes) if scopes else None, project)
    check_name(label, "the label")
    check_name(project, "the project")
    return _make(context, name, scopes=" ".join(sorted(scopes or ())), project=project, label=label, days=days)


def _permit_scopes(context: Context, scopes: frozenset[Right] | None, project: str) -> None:
    """Refuse a key that allows more than the key the caller holds."""
    if context.scopes is not None and (scopes is None or not scopes <= context.scopes):
        raise Denied("a key cannot make a key that allows more than itself; name fewer scopes", right="administer")
    if context.key_project and project != context.key_project:
        raise Denied("a key that is bound to a project makes only keys that are bound to it", right="administer")


def _make(context: Context, principal: str, *, scopes: str, project: str, label: str, days: int) -> KeyInfo:
    kind = principal.partition(":")[0]
    if kind not in ("person", "agent", "service"):
        raise InvalidInput(f"{principal} cannot have a key; a person, an agent or a service can")
    token = new_token(kind)
    if find_principal(context.store, principal) is None:
        set_principal(context.store, Principal(name=principal))
    key = ApiKey(
        id=token.id, principal=principal, hash=token.hash, scopes=scopes, project=project, label=label, at=0,
        until=context.store.now() + days * DAY_US, used_at=0, given_by=context.principal, disabled=False,
    )  # fmt: skip
    at = add_api_key(context.store, key)
    return _info(msgspec.structs.replace(key, at=at), token.text)


@operation(
    right=Right.SEE, route="POST /keys/{key}/rotate", filters_by_reach=True, audited=True, group=KEYS, shows_secret=True
)
def key_rotate(context: Context, key: str, *, days: Days = 90) -> KeyInfo:
    """Make a successor of a key; the old one stays good for a day, so that programs can change over."""
    old = _find(context, key)
    _permit_scopes(context, scopes_of(old), old.project)
    now = context.store.now()
    valid = [
        key.id
        for key in list_api_keys(context.store, old.principal)
        if key.label == old.label and not 0 < key.until <= now and key.scopes == old.scopes
    ]
    if len(valid) >= MOST_VALID:
        raise InvalidInput(
            f"two keys of {old.principal} with these rights are valid already ({', '.join(valid)}); revoke one first"
        )
    made = _make(
        context, old.principal, scopes=old.scopes, project=old.project, label=old.label, days=days
    )  # fmt: skip
    expire_api_key(context.store, old.id, now + OVERLAP_HOURS * 3_600_000_000)
    return made


@operation(right=Right.SEE, route="DELETE /keys/{key}", filters_by_reach=True, audited=True, group=KEYS)
def key_revoke(context: Context, key: str) -> KeyInfo:
    """End a key now; it is refused everywhere within a second."""
    revoked = _find(context, key)
    expire_api_key(context.store, revoked.id, context.store.now())
    return _info(find_api_key(context.store, revoked.id) or revoked)


@operation(right=Right.SEE, route="GET /keys", filters_by_reach=True, group=KEYS)
def key_list(context: Context, *, principal: Who = "") -> list[KeyInfo]:
    """List your keys, or those of another; never their text."""
    name = principal_named(principal) if principal else context.principal
    _permit_keys_of(context, name)
    return [_info(key) for key in list_api_keys(context.store, name)]


def _find(context: Context, id: str) -> ApiKey:
    key = find_api_key(context.store, check_name(id, "a key's id"))
    if key is None or not (_is_own(context, key.principal) or may_everything(context)):
        raise NotFound(f"no key {id[:40]!r} of yours", missing="key")
    return key
