"""Drafts made ready outside any transaction: encoded once, hashed, checked, their large bytes put in place."""

from typing import TYPE_CHECKING

import msgspec

from clew.model import chain, codec
from clew.model.depth import DEEPEST_BODY, refuse_depth
from clew.model.errors import InvalidInput, TooLarge
from clew.model.events import Body, Draft, Opaque
from clew.model.ids import check_name
from clew.model.object_names import objects_of
from clew.store.objects.pack_store import PackStores

if TYPE_CHECKING:
    from clew.store.objects.objects import Stored

# A body up to here is stored in its row; a larger one is an object.
INLINE_BYTES = 32 * 1024
LARGEST_BYTES = 64 * 1024 * 1024

LARGEST_INTEGER = 2**63 - 1

# Sources that the store itself gives begin so; they are not the identity of a record and are not shown.
OWN_MARK = "~"


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A draft with its text encoded and hashed, ready to be planned."""

    body: Body | Opaque
    text: str | None
    hash: bytes
    source: str | None
    said_at: int | None
    blob: bytes | None = None
    stored: "Stored | None" = None
    names: tuple[bytes, ...] = ()


def check_source(source: str) -> None:
    check_name(source, "a source")
    if not source or source.startswith(OWN_MARK):
        raise InvalidInput(
            f"{source!r} cannot be a source: leave it out for none, and do not begin it with {OWN_MARK!r}, the mark of "
            "the store's own"
        )


def check_draft(draft: Draft) -> bytes:
    """The JSON text of the body of a draft; refused when no event can be like that."""
    encoded = codec.encode(draft.body)
    if draft.source is not None:
        check_source(draft.source)
    if isinstance(draft.body, Opaque) and "." not in draft.body.kind:
        raise InvalidInput(f"{draft.body.kind!r} is not a foreign kind: one of your own needs a dot, like 'myapp.note'")
    if draft.said_at is not None and not -LARGEST_INTEGER <= draft.said_at <= LARGEST_INTEGER:
        raise InvalidInput(
            f"said_at {draft.said_at} is not a valid time in microseconds since 1970; it has to fit 64 bits"
        )
    try:
        refuse_depth(encoded, DEEPEST_BODY)
    except RecursionError as error:
        raise InvalidInput(f"a {draft.body.kind} cannot be kept: {error}; flatten it") from error
    if len(encoded) > LARGEST_BYTES:
        raise TooLarge(
            f"a {draft.body.kind} of {len(encoded):,} bytes is beyond the limit of {LARGEST_BYTES:,}; "
            "split it into several events",
            size=len(encoded),
            limit=LARGEST_BYTES,
        )
    return encoded


def prepare(draft: Draft, pack_stores: PackStores) -> Prepared:
    """Encode and hash a draft; the bytes of a large body are durable before any event names them."""
    encoded = check_draft(draft)
    hash = chain.body_hash(encoded)
    named = objects_of(draft.body)
    names = _digests_of(named) if named else ()
    if len(encoded) <= INLINE_BYTES:
        return Prepared(draft.body, encoded.decode(), hash, draft.source, draft.said_at, names=names)
    from clew.store.objects.objects import store_bytes  # Loads BLAKE3 and zstandard, which few events need.

    stored = store_bytes(pack_stores, encoded)
    return Prepared(
        draft.body, None, hash, draft.source, draft.said_at, blob=stored.digest, stored=stored, names=names
    )  # fmt: skip


def _digests_of(names: list[str]) -> tuple[bytes, ...]:
    from clew.store.objects.objects import digest_of  # As above.

    return tuple(map(digest_of, names))
