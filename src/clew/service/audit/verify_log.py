"""The operation `audit_verify`: check the audit tree, its checkpoints, and every chain."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import COSIGNATURE, PublicKey, public_key
from clew.model.errors import ClewError, Damaged, InvalidInput
from clew.service.audit import reconcile, signing
from clew.service.audit.checkpoints import AUDIT
from clew.service.audit.verification import Audited, Flaw, Verification
from clew.service.audit.witnesses import WitnessSetting, all_witnesses, newest_countersigned, signer
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store import Store, audit_records
from clew.store import audit_tree as checkpoints
from clew.store.audit_records import SessionRecord
from clew.store.audit_tree import LeafRow
from clew.store.log.rows import EVERYTHING

# The errors that a check can raise on rows whose values were replaced by others of a wrong type.
ODD = (ClewError, TypeError, ValueError, LookupError, AttributeError, OverflowError)


@operation(right=Right.AUDIT, route="POST /audit/verify", group=AUDIT, proves=True)
def audit_verify(
    context: Context,
    *,
    checkpoints: Annotated[list[str], msgspec.Meta(description="Notes of checkpoints kept elsewhere.")] | None = None,
    keys: Annotated[list[str], msgspec.Meta(description="Public keys to trust instead of this home's.")] | None = None,
    witnesses: Annotated[list[str], msgspec.Meta(description="Public keys of further witnesses.")] | None = None,
) -> Audited:
    """Check every chain, every leaf and every checkpoint of this log, and report what does not hold.

    The witnesses of this log are asked for the newest checkpoint that they countersigned.
    """
    signing.need_cryptography()
    trusted = [public_key(text) for text in keys or ()] or signing.known_keys(signing.key_file(context.home))
    settings = all_witnesses(context.home)
    answers = [_seen(context, setting) for setting in settings]
    countersigners = {setting.public for setting in settings} | {_witness_key(text) for text in witnesses or ()}
    audited = examine(
        context.store, trusted, checkpoints or [], witnesses=sorted(countersigners, key=str),
        seen={answer.where: answer.note for answer in answers if answer.note},
    )  # fmt: skip
    return msgspec.structs.replace(
        audited, problems=audited.problems + [flaw for answer in answers for flaw in answer.problems],
        notes=audited.notes + [note for answer in answers for note in answer.notes],
    )  # fmt: skip


def _witness_key(text: str) -> PublicKey:
    return public_key(text, COSIGNATURE)


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a witness answered: its newest checkpoint of this log, or why there is none to compare with."""

    where: str
    note: str = ""
    notes: list[str] = []
    problems: list[Flaw] = []


def _seen(context: Context, setting: WitnessSetting) -> _Seen:
    where = f"witness {setting.address}"
    try:
        return _Seen(where=where, note=newest_countersigned(context, setting, signer(context).name))
    except (InvalidInput, Damaged) as error:
        return _Seen(where=where, problems=[Flaw(where=where, what=str(error))])
    except ClewError as error:
        return _Seen(where=where, notes=[f"the {where} was not compared with: {error}"])


def examine(
    store: Store, keys: list[PublicKey], kept: list[str], *, witnesses: Sequence[PublicKey] = (),
    seen: Mapping[str, str] | None = None,
) -> Audited:  # fmt: skip
    """Verify the audit tree of a store, and every chain. `seen` has what witnesses countersigned last."""
    verification = Verification(keys, witnesses)
    extent = checkpoints.extent(store)
    leaves, size = ((value or 0) if isinstance(value, int | None) else EVERYTHING for value in extent)
    try:
        for signed in checkpoints.all_checkpoints(store):
            verification.checkpoint(signed.number, signed.size, signed.note, signed.signer)
        for note in kept:
            verification.kept_elsewhere(note)
        for where, note in (seen or {}).items():
            verification.kept_elsewhere(note, where)
        for page in checkpoints.leaf_pages(store, size=size):
            _leaves(store, verification, page)
    except ODD as error:
        verification.report("the audit tree", f"its rows cannot be read: {error!r}")
    if leaves > size:
        verification.report(
            f"leaf {size}", "it is beyond the newest checkpoint: it was inserted, or its checkpoint was removed"
        )
    counts = [_session(store, verification, record) for record in audit_records.all_session_records(store)]
    for stray in audit_records.strays(store, limit=20):
        verification.report(
            f"event {stray.seq} of session key {stray.session_key}",
            f"there is no such session in project key {stray.project_key}",
        )
    notes = _reconcile(store, verification) + verification.finish()
    return Audited(
        sessions=len(counts), events=sum(events for events, _ in counts), removed=sum(removed for _, removed in counts),
        leaves=verification.leaves, checkpoints=verification.checkpoints, kept=verification.kept,
        beyond=verification.beyond, problems=verification.flaws, notes=notes,
        countersigned=verification.countersigned,
    )  # fmt: skip


def _reconcile(store: Store, verification: Verification) -> list[str]:
    """Compare grants and credentials with the audit log; returns notes on what could not be compared."""
    try:
        rows, was_compared = reconcile.unexplained(store)
    except ODD as error:
        verification.report("grants and credentials", f"they cannot be compared with the audit log: {error!r}")
        return []
    for row in rows:
        verification.report(row.row, row.what)
    return [] if was_compared else [reconcile.NO_BASELINE]


def _leaves(store: Store, verification: Verification, page: list[LeafRow]) -> None:
    stated = [(row.number, leaf) for row in page if (leaf := verification.leaf(*row)) is not None]
    digests = checkpoints.digests_of(store, [leaf for _, leaf in stated])
    for (number, leaf), digest in zip(stated, digests, strict=True):
        verification.compare_digest(number, leaf, digest)


def _session(store: Store, verification: Verification, record: SessionRecord) -> tuple[int, int]:
    """Check one session; returns the numbers of its events and of those whose body was pruned or erased."""
    if record.project is None or record.head is None:
        verification.report(f"session {record.id}", f"its {'project' if record.project is None else 'head'} is gone")
    try:
        covered = max(verification.covered(record.id), record.upto)
        is_longer = record.head is not None and record.head > covered
        position = audit_records.first_position(store, record, after=covered) if is_longer else None
        session = audit_records.find_session(store, record.key)
        verification.session(
            record.id, project=record.project, opened_at=record.opened_at, control=record.control,
            head=record.head or 0, own=record.upto, position=position,
        )  # fmt: skip
        if session is None or record.head is None:
            return 0, 0
        verified = store.verify(session)
    except ODD as error:
        verification.report(f"session {record.id}", f"it cannot be checked: {error!r}")
        return 0, 0
    for problem in verified.problems:
        verification.report(f"session {problem.session} seq {problem.seq}", problem.what)
    return verified.events, verified.removed
