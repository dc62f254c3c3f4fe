"""The operation `audit_session`: verify one session, and how far a signed checkpoint proves where it stood."""

import msgspec

from clew.model import merkle
from clew.model.access import Right
from clew.model.checkpoint import HeadLeaf, checkpoint_from, leaf_from, note_from, public_key
from clew.model.errors import InvalidInput
from clew.model.session import Session
from clew.service.audit import signing
from clew.service.audit.checkpoints import AUDIT
from clew.service.audit.verification import UNPINNED
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store import audit_tree
from clew.store.audit_tree import Signed
from clew.store.log import verify as chains


class AuditedSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the verification of a session found.

    `events` is how many events the chain has. The newest `checkpoint` that holds the session proves its events up to
    `seq`; both are 0 without one. `problems` is empty when everything holds.
    """

    session: str
    events: int
    removed: int = 0
    checkpoint: int = 0
    checkpoint_at: int = 0
    seq: int = 0
    problems: list[str] = []
    notes: list[str] = []


@operation(
    right=Right.AUDIT, route="GET /sessions/{session}/audit", group=AUDIT, proves=True,
    finds_damage=lambda found: bool(found.problems),
)  # fmt: skip
def audit_session(context: Context, session: Session) -> AuditedSession:
    """Verify the chain of one session, and that the newest checkpoint still agrees with it."""
    chain = chains.verify(context.store, session)
    found = AuditedSession(
        session=session.id, events=chain.events, removed=chain.removed,
        problems=[f"event {problem.seq}: {problem.what}" for problem in chain.problems],
    )  # fmt: skip
    newest = audit_tree.newest(context.store)
    included = None if newest is None else audit_tree.inclusion(context.store, session.id, newest.size)
    if newest is None or included is None:
        why = "there is no checkpoint yet" if newest is None else "the session was opened after the newest checkpoint"
        return msgspec.structs.replace(found, notes=[f"{why}, so only the chain was checked"])
    leaf = leaf_from(included.statement)
    if not isinstance(leaf, HeadLeaf):
        raise InvalidInput(f"leaf {included.number} is not about a session; run `clew audit verify`")
    [digest] = audit_tree.digests_of(context.store, [leaf])
    problems = [*found.problems, *_signature(newest), *_root(newest, included)]
    if digest is None or digest.hex() != leaf.digest:
        problems.append(f"event {leaf.seq}: its digest is not the one in checkpoint {newest.number}")
    made_at = audit_tree.leaf_of(context.store, newest).at
    return msgspec.structs.replace(
        found, checkpoint=newest.number, checkpoint_at=made_at, seq=leaf.seq, problems=problems, notes=[UNPINNED]
    )


def _signature(signed: Signed) -> list[str]:
    signing.need_cryptography()
    try:
        signing.check(signed.note, [public_key(signed.signer)])
    except InvalidInput as error:
        return [f"checkpoint {signed.number}: {error}"]
    return []


def _root(signed: Signed, included: audit_tree.Proof) -> list[str]:
    """Whether the tree that was signed has the leaf."""
    leaf = merkle.leaf_hash(included.statement.encode())
    checkpoint = checkpoint_from(note_from(signed.note).text)
    if merkle.root_of(leaf, included.number, signed.size, included.hashes) == checkpoint.root:
        return []
    return [f"checkpoint {signed.number}: its root does not hold leaf {included.number}"]
