"""The operation `audit_proof`: prove that a session is in the audit tree, and that the tree has only grown."""

from base64 import b64encode
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import HeadLeaf, leaf_from
from clew.model.errors import InvalidInput, NotFound
from clew.model.session import Session
from clew.service.audit.checkpoints import AUDIT
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store import audit_tree as checkpoints

Number = Annotated[int, msgspec.Meta(ge=1, description="The number of a checkpoint.")]


class SessionProof(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That a checkpoint holds where a session stood: a leaf, its index, and the hashes from it to the root, in base64.

    `since` is an older checkpoint, and `consistency` shows that the newer tree begins with that one's.
    """

    session: str
    seq: int
    digest: str
    statement: str
    index: int
    hashes: list[str]
    checkpoint: str
    since: str = ""
    consistency: list[str] = []


@operation(right=Right.AUDIT, route="GET /sessions/{session}/proof", group=AUDIT, proves=True)
def audit_proof(
    context: Context, session: Session, *, checkpoint: Number | None = None, since: Number | None = None
) -> SessionProof:
    """Prove that a checkpoint holds where a session stood, and with --since that an older one is its beginning."""
    store = context.store
    newest = checkpoints.newest(store) if checkpoint is None else checkpoints.checkpoint(store, checkpoint)
    if newest is None:
        raise NotFound("there is no checkpoint yet; make one: clew audit checkpoint")
    included = checkpoints.inclusion(store, session.id, newest.size)
    if included is None:
        raise NotFound(
            f"session {session.id} is not in checkpoint {newest.number}, because it was opened later; make a new one: "
            "clew audit checkpoint",
            session=session.id,
        )
    leaf = leaf_from(included.statement)
    if not isinstance(leaf, HeadLeaf):
        raise InvalidInput(f"leaf {included.number} is not about a session; run `clew audit verify`")
    older = None if since is None else checkpoints.checkpoint(store, since)
    if older is not None and older.size > newest.size:
        raise InvalidInput(f"checkpoint {since} is newer than checkpoint {newest.number}; --since names an older one")
    return SessionProof(
        session=session.id, seq=leaf.seq, digest=leaf.digest, statement=included.statement, index=included.number,
        hashes=_base64(included.hashes), checkpoint=newest.note, since=older.note if older else "",
        consistency=_base64(checkpoints.consistency(store, older.size, newest.size)) if older else [],
    )  # fmt: skip


def _base64(hashes: list[bytes]) -> list[str]:
    return [b64encode(hash).decode() for hash in hashes]
