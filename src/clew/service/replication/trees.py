"""The files of snapshots between two stores: what travels, and which objects need not.

A snapshot names its files through trees, and only its topmost object stands in the event. All of them travel, each
checked on arrival, files before the folders that name them. An object need not travel again when the receiver may read
it already: this session or one of the `bases` names it, or it came before and is claimed (store/objects/claims.py).
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import zstandard

from clew.model.access import Right
from clew.model.errors import ClewError, InvalidInput, TooLarge
from clew.model.events import Event, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import TREE, decode_pieces, decode_tree
from clew.model.git_record import decode_git_record
from clew.model.session import Session
from clew.service.kernel.call import permit, target_of
from clew.service.kernel.context import Context
from clew.service.privacy.mask_on_write import masks_secrets
from clew.service.workspaces.points import events_of
from clew.store.objects import claims
from clew.store.objects.pack import Encoder, address
from clew.store.objects.together import Together
from clew.store.objects.walking import reached

FILE_DATA, TREE_DATA, PIECES_DATA, GIT_DATA = "file", "tree", "pieces", "git"
# Objects that travel together are at most so many, and about so many bytes unpacked.
MOST_OBJECTS = 2_000
TOGETHER_BYTES = 8 * 1024 * 1024
UNPACKED_BYTES = 64 * 1024 * 1024
# So many snapshots of a session, and so many other sessions, are looked at for what is known.
ROOTS, BASES = 50, 5

Item = tuple[str, bytes]
"""What an object is, and its bytes."""

_items = msgspec.msgpack.Decoder(list[Item])


def tree_of(event: Event | Any) -> str:
    """The snapshot that an event names; empty for any other."""
    body = getattr(event, "body", event)
    return body.blob if isinstance(body, WorkspaceSnapshotted | WorkspaceRestored) else ""


def git_of(event: Event | Any) -> str:
    """The record of git beside a snapshot; empty where there is none."""
    body = getattr(event, "body", event)
    return body.git if isinstance(body, WorkspaceSnapshotted | WorkspaceRestored) else ""


def with_tree(body: Any, name: str, git: str) -> Any:
    """The body of a snapshot with another tree and record of git, or with none."""
    return msgspec.structs.replace(body, blob=name, snapshot=name or body.snapshot, git=git)


def packed(items: Sequence[Item]) -> bytes:
    return zstandard.compress(msgspec.msgpack.encode(items), 3)


def unpacked(data: bytes) -> list[Item]:
    """The objects in a request; refused when they are not what `packed` makes."""
    return _items.decode(decompressed(data))


def decompressed(data: bytes) -> bytes:
    """What was packed, up to the most that is ever packed."""
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            whole = reader.read(UNPACKED_BYTES + 1)
    except zstandard.ZstdError as error:
        raise InvalidInput(f"these objects cannot be unpacked ({error}); send them again") from error
    if len(whole) > UNPACKED_BYTES:
        raise TooLarge(f"more than {UNPACKED_BYTES:,} bytes of objects together; send less at once")
    return whole


def names_in(kind: str, data: bytes) -> set[bytes]:
    """The objects that a tree, the pieces of a file or a record of git name, checked."""
    if kind == GIT_DATA:
        return {staged.digest for staged in decode_git_record(data).staged if staged.digest}
    if kind == TREE_DATA:
        return {entry.digest for entry in decode_tree(data) if entry.digest}
    return {digest for digest, _ in decode_pieces(data)} if kind == PIECES_DATA else set()


def known(context: Context, session: Session, digests: Iterable[bytes], bases: Sequence[str]) -> set[bytes]:
    """Those of these objects that the caller need not send; each is claimed, and so kept until an event names it."""
    asked = {*digests}
    found = claims.claimed(context.store, context.principal, session.id, asked)
    rest = asked - found
    if rest and (roots := _roots(context, session, bases)):
        found |= reached(context.store.unrestricted, roots, rest)
    claims.add(context.store, context.principal, session.id, found)
    return found


def _roots(context: Context, session: Session, bases: Sequence[str]) -> list[str]:
    """The newest snapshots of the session and of its bases that the caller may read."""
    roots: dict[str, None] = {}
    readable = [session] if context.caller.rule(Right.READ, target_of(session)).allowed else []
    for id in bases[:BASES]:
        with suppress(ClewError):  # It was erased, or is not the caller's any more: then its objects travel again.
            base = context.store.session(id, context.reach(Right.READ))
            permit(context, Right.READ, base)
            readable.append(base)
    for source in readable:
        newest = [
            name for event in reversed(events_of(context, source)) for name in (tree_of(event), git_of(event)) if name
        ]
        roots |= dict.fromkeys(newest[:ROOTS])
    return [*roots]


def keep(context: Context, session: Session, items: Sequence[Item]) -> int:
    """Store objects that came for a session and claim them; what a tree names has to be among them, or claimed."""
    digests = [address(data) for _, data in items]
    named = [names_in(kind, data) for kind, data in items]
    needed, so_far = set[bytes](), set[bytes]()
    for digest, names in zip(digests, named, strict=True):
        needed |= names - so_far
        so_far.add(digest)
    missing = needed - claims.claimed(context.store, context.principal, session.id, needed)
    if missing:
        raise InvalidInput(f"a tree names the object {min(missing).hex()}, which was not sent before it")
    _refuse_secrets(context, session, items)
    together, encoder = Together(context.store), Encoder()
    try:
        for (kind, data), digest, names in zip(items, digests, named, strict=True):
            if kind != FILE_DATA:
                together.add_manifest(data, names)
            elif together.unknown([digest]):
                together.add(encoder.encode(data, digest))
        together.finish()
    except BaseException:
        together.discard()
        raise
    claims.add(context.store, context.principal, session.id, digests)
    return len(items)


def _refuse_secrets(context: Context, session: Session, items: Sequence[Item]) -> None:
    if not masks_secrets(context, session.project):
        return
    from clew.secrets.blobs import without_secrets
    from clew.service.privacy.masking import masker_of

    mask = masker_of(context)
    for kind, data in items:
        if kind == FILE_DATA and without_secrets(mask, data)[1]:
            raise InvalidInput(f"the object {address(data).hex()} holds a secret, which this project masks")


def kind_of(data: bytes) -> str:
    """What an object is that a snapshot names, by its bytes: a tree, or the content of a file."""
    if data.startswith(TREE):
        with suppress(ClewError):
            decode_tree(data)
            return TREE_DATA
    return FILE_DATA
