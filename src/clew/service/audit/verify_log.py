"""Verifying the whole log: its audit tree, its checkpoints, and every chain."""

from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import PublicKey, public_key
from clew.model.errors import ClewError
from clew.service.audit import signing
from clew.service.audit.checkpoints import AUDIT
from clew.service.audit.examination import Audited, Examination
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store import Store, audit_records
from clew.store import audit_tree as checkpoints
from clew.store.audit_records import SessionRecord
from clew.store.audit_tree import LeafRow
from clew.store.log.rows import EVERYTHING

# What a row whose values were swapped for others of a wrong type can make of a check.
ODD = (ClewError, TypeError, ValueError, LookupError, AttributeError, OverflowError)


@operation(right=Right.AUDIT, route="POST /audit/verify", group=AUDIT, proves=True)
def audit_verify(
    context: Context,
    *,
    checkpoints: Annotated[list[str], msgspec.Meta(description="Notes of checkpoints kept elsewhere.")] | None = None,
    keys: Annotated[list[str], msgspec.Meta(description="Public keys to trust instead of this home's.")] | None = None,
) -> Audited:
    """Check every chain, every leaf and every checkpoint of this log, and report what does not hold."""
    signing.need_cryptography()
    trusted = [public_key(text) for text in keys or ()] or signing.known_keys(signing.key_file(context.home))
    return examine(context.store, trusted, checkpoints or [])


def examine(store: Store, keys: list[PublicKey], kept: list[str]) -> Audited:
    """Examine the tree of a store, and every chain."""
    looking = Examination(keys)
    extent = checkpoints.extent(store)
    leaves, size = ((value or 0) if isinstance(value, int | None) else EVERYTHING for value in extent)
    try:
        for signed in checkpoints.all_checkpoints(store):
            looking.checkpoint(signed.number, signed.size, signed.note, signed.signer)
        for note in kept:
            looking.kept_elsewhere(note)
        for page in checkpoints.leaf_pages(store, size=size):
            _leaves(store, looking, page)
    except ODD as error:
        looking.report("the audit tree", f"its rows cannot be read: {error!r}")
    if leaves > size:
        looking.report(f"leaf {size}", "it is beyond the newest checkpoint: it was inserted, or its checkpoint removed")
    counts = [_session(store, looking, record) for record in audit_records.all_session_records(store)]
    for stray in audit_records.strays(store, limit=20):
        looking.report(
            f"event {stray.seq} of session key {stray.session_key}",
            f"there is no such session in project key {stray.project_key}",
        )
    notes = looking.finish()
    return Audited(
        sessions=len(counts), events=sum(events for events, _ in counts), removed=sum(gone for _, gone in counts),
        leaves=looking.leaves, checkpoints=looking.checkpoints, kept=looking.kept, beyond=looking.beyond,
        problems=looking.flaws, notes=notes,
    )  # fmt: skip


def _leaves(store: Store, looking: Examination, page: list[LeafRow]) -> None:
    stated = [(row.number, leaf) for row in page if (leaf := looking.leaf(*row)) is not None]
    digests = checkpoints.digests_of(store, [leaf for _, leaf in stated])
    for (number, leaf), digest in zip(stated, digests, strict=True):
        looking.stood(number, leaf, digest)


def _session(store: Store, looking: Examination, record: SessionRecord) -> tuple[int, int]:
    """Check one session; returns how many events it has and how many of them lost their body on record."""
    if record.project is None or record.head is None:
        looking.report(f"session {record.id}", f"its {'project' if record.project is None else 'head'} is gone")
    try:
        covered = max(looking.covered(record.id), record.upto)
        is_longer = record.head is not None and record.head > covered
        position = audit_records.first_position(store, record, after=covered) if is_longer else None
        session = audit_records.find_session(store, record.key)
        looking.session(
            record.id, project=record.project, opened_at=record.opened_at, control=record.control,
            head=record.head or 0, own=record.upto, position=position,
        )  # fmt: skip
        if session is None or record.head is None:
            return 0, 0
        verified = store.verify(session)
    except ODD as error:
        looking.report(f"session {record.id}", f"it cannot be checked: {error!r}")
        return 0, 0
    for problem in verified.problems:
        looking.report(f"session {problem.session} seq {problem.seq}", problem.what)
    return verified.events, verified.removed
