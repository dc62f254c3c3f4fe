"""The operations on checkpoints: sign the log's state, list the checkpoints, show or replace the signing key."""

from pathlib import Path
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import checkpoint_from, note_from
from clew.model.errors import Conflict, NotFound
from clew.model.ids import new_id
from clew.service.audit import entries, signing
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store import Store
from clew.store import audit_tree as checkpoints
from clew.store.audit_tree import Signed


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint: keep its note elsewhere. `made` says whether this call made it."""

    number: int
    size: int
    position: int
    at: int
    note: str
    signer: str
    made: bool = False


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """A page of checkpoints, newest first."""

    checkpoints: list[CheckpointInfo]
    next: str


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The public key that verifies this log's checkpoints: write it down elsewhere."""

    key: str
    file: str


AUDIT = Group("audit", "Checkpoints, proofs and the log of who did what.")


@operation(right=Right.AUDIT, route="POST /audit/checkpoints", group=AUDIT, proves=True)
def audit_checkpoint(context: Context) -> CheckpointInfo:
    """Make a signed checkpoint of the log as it is now, if anything is new since the last one.

    Keep the output where a person who can change the log cannot change it.
    """
    # Not audited: the record of a checkpoint would be a new event, and every call would make a checkpoint.
    signing.need_cryptography()
    made = checkpoints.make(context.store, lambda last: _signer(context, last))
    signed = made or checkpoints.newest(context.store)
    if signed is None:
        raise NotFound("the log is empty, so there is nothing to make a checkpoint of")
    return _info(context.store, signed, made=made is not None)


@operation(right=Right.AUDIT, route="GET /audit/checkpoints", group=AUDIT, proves=True)
def audit_checkpoints(
    context: Context,
    *,
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many at the most.")] = 20,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
) -> Checkpoints:
    """List the checkpoints, newest first."""
    page = checkpoints.checkpoints(context.store, before=entries.start(after), limit=limit + 1)
    listed = [
        CheckpointInfo(
            number=signed.number, size=signed.size, position=leaf.position, at=leaf.at, note=signed.note,
            signer=signed.signer,
        )
        for signed, leaf in page[:limit]
    ]  # fmt: skip
    return Checkpoints(checkpoints=listed, next=str(listed[-1].number) if len(page) > limit else "")


@operation(right=Right.AUDIT, route="GET /audit/key", group=AUDIT, proves=True)
def audit_key(context: Context) -> Keys:
    """Show the public key of this log's checkpoints."""
    signing.need_cryptography()
    path = signing.key_file(context.home)
    key, last = signing.read_key(path), checkpoints.newest(context.store)
    if key is None and last is None:
        raise NotFound("there is no key yet; it is made with the first checkpoint: clew audit checkpoint")
    return Keys(key=key.key if key else last.signer if last else "", file=str(path) if key else "")


@operation(right=Right.ADMINISTER, audited=True, group=AUDIT)
def audit_new_key(context: Context) -> Keys:
    """Begin a new key for checkpoints, of the same log, and sign a checkpoint with it; the old one stays beside it."""
    signing.need_cryptography()
    path = signing.key_file(context.home)
    last = checkpoints.newest(context.store)
    key = signing.new_key(_origin(last) if last else f"clew/{new_id()}")
    signing.replace_key(path, key)
    checkpoints.make(context.store, lambda _: key, even_if_nothing_is_new=True)
    return Keys(key=key.key, file=str(path))


def _signer(context: Context, last: Signed | None) -> signing.SigningKey:
    """The key that signed the last checkpoint; a new one for the first checkpoint."""
    path = signing.key_file(context.home)
    key = signing.read_key(path)
    if last is None:
        return key or _first_key(path)
    if key is None or key.key != last.signer:
        local_key = f"{path} has {key.key}" if key else f"{path} is not there"
        raise Conflict(
            f"the last checkpoint was signed by {last.signer}, and {local_key}; every process that makes checkpoints "
            f"needs the same key: name its file with {signing.VARIABLE}, or, if it is lost, begin a new one: "
            "clew audit key --new",
            signer=last.signer,
        )
    return key


def _first_key(path: Path) -> signing.SigningKey:
    key = signing.new_key(f"clew/{new_id()}")
    try:
        signing.write_key(path, key)
    except Conflict:
        # Another process made the key at the same time; use that one.
        return signing.read_key(path) or key
    return key


def _origin(last: Signed) -> str:
    return checkpoint_from(note_from(last.note).text).origin


def _info(store: Store, signed: Signed, *, made: bool) -> CheckpointInfo:
    leaf = checkpoints.leaf_of(store, signed)
    return CheckpointInfo(
        number=signed.number, size=signed.size, position=leaf.position, at=leaf.at, note=signed.note,
        signer=signed.signer, made=made,
    )  # fmt: skip
