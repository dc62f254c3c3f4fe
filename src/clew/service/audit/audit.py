"""Audit: what was asked for and by whom, and proof that nothing of the log was changed since."""

import enum
from base64 import b64encode
from pathlib import Path
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import HeadLeaf, PublicKey, checkpoint_from, leaf_from, note_from, public_key
from clew.model.errors import ClewError, Conflict, InvalidInput, NotFound
from clew.model.ids import new_id
from clew.model.session import Session
from clew.service.audit import bundle, entries, signing
from clew.service.audit.entries import Entries, Wanted
from clew.service.audit.examination import Audited, Examination
from clew.service.find.filters import Project, Since, Until, principal, times
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store import Store, audit_records
from clew.store import audit_tree as checkpoints
from clew.store.audit_records import SessionRecord
from clew.store.audit_tree import LeafRow, Signed
from clew.store.log.rows import EVERYTHING

# What a row whose values were swapped for others of a wrong type can make of a check.
ODD = (ClewError, TypeError, ValueError, LookupError, AttributeError, OverflowError)


class Verdict(enum.StrEnum):
    ALLOWED = "allowed"
    REFUSED = "refused"


class Form(enum.StrEnum):
    BUNDLE = "bundle"
    JSONL = "jsonl"
    CSV = "csv"
    OTEL = "otel"


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint: its note is what to keep elsewhere. `made` tells whether this call made it."""

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


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A portion of a file. `next` goes on with the next one; all of them, one after the other, are the file."""

    text: str
    next: str


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The public key that checks the signatures of this log's checkpoints: to be written down elsewhere."""

    key: str
    file: str


Number = Annotated[int, msgspec.Meta(ge=1, description="The number of a checkpoint.")]


# Checkpoints ----------------------------------------------------------------------------------------------------------

AUDIT = Group("audit", "Checkpoints, proofs and the log of who did what.")


@operation(right=Right.AUDIT, route="POST /audit/checkpoints", group=AUDIT, proves=True)
def audit_checkpoint(context: Context) -> CheckpointInfo:
    """Make a signed checkpoint of the log as it is now, if anything is new since the last one.

    Keep what it prints where nobody can change it together with the log.
    """
    # Not audited: the record of one checkpoint would be what is new for the next, for ever.
    signing.need_cryptography()
    made = checkpoints.make(context.store, lambda last: _signer(context, last))
    found = made or checkpoints.newest(context.store)
    if found is None:
        raise NotFound("there is nothing in the log yet, so there is nothing to make a checkpoint of")
    return _info(context.store, found, made=made is not None)


@operation(right=Right.AUDIT, route="GET /audit/checkpoints", group=AUDIT, proves=True)
def audit_checkpoints(
    context: Context,
    *,
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many at the most.")] = 20,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
) -> Checkpoints:
    """List the checkpoints, newest first."""
    found = checkpoints.checkpoints(context.store, before=entries.start(after), limit=limit + 1)
    listed = [
        CheckpointInfo(
            number=one.number, size=one.size, position=leaf.position, at=leaf.at, note=one.note, signer=one.signer
        )
        for one, leaf in found[:limit]
    ]
    return Checkpoints(checkpoints=listed, next=str(listed[-1].number) if len(found) > limit else "")


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
    """The key of this log: the one that signed last, or a new one for the first checkpoint."""
    path = signing.key_file(context.home)
    key = signing.read_key(path)
    if last is None:
        return key or _first_key(path)
    if key is None or key.key != last.signer:
        found = f"{path} has {key.key}" if key else f"{path} is not there"
        raise Conflict(
            f"the last checkpoint was signed by {last.signer}, and {found}; every process that makes checkpoints needs "
            f"the same key: name its file with {signing.VARIABLE}, or, if it is lost, begin a new one: clew audit key "
            "--new",
            signer=last.signer,
        )
    return key


def _first_key(path: Path) -> signing.SigningKey:
    key = signing.new_key(f"clew/{new_id()}")
    try:
        signing.write_key(path, key)
    except Conflict:
        # Another process made it a moment ago.
        return signing.read_key(path) or key
    return key


def _origin(last: Signed) -> str:
    return checkpoint_from(note_from(last.note).text).origin


def _info(store: Store, found: Signed, *, made: bool) -> CheckpointInfo:
    leaf = checkpoints.leaf_of(store, found)
    return CheckpointInfo(
        number=found.number, size=found.size, position=leaf.position, at=leaf.at, note=found.note, signer=found.signer,
        made=made,
    )  # fmt: skip


# Proofs ---------------------------------------------------------------------------------------------------------------


@operation(right=Right.AUDIT, route="GET /sessions/{session}/proof", group=AUDIT, proves=True)
def audit_proof(
    context: Context, session: Session, *, checkpoint: Number | None = None, since: Number | None = None
) -> SessionProof:
    """Prove that a checkpoint holds where a session stood, and with --since that an older one is its beginning."""
    store = context.store
    newest = checkpoints.newest(store) if checkpoint is None else checkpoints.checkpoint(store, checkpoint)
    if newest is None:
        raise NotFound("there is no checkpoint yet; make one: clew audit checkpoint")
    found = checkpoints.inclusion(store, session.id, newest.size)
    if found is None:
        raise NotFound(
            f"session {session.id} is not in checkpoint {newest.number}, because it was opened later; make a new one: "
            "clew audit checkpoint",
            session=session.id,
        )
    leaf = leaf_from(found.statement)
    if not isinstance(leaf, HeadLeaf):
        raise InvalidInput(f"leaf {found.number} is not about a session; run `clew audit verify`")
    older = None if since is None else checkpoints.checkpoint(store, since)
    if older is not None and older.size > newest.size:
        raise InvalidInput(f"checkpoint {since} is newer than checkpoint {newest.number}; --since names an older one")
    return SessionProof(
        session=session.id, seq=leaf.seq, digest=leaf.digest, statement=found.statement, index=found.number,
        hashes=_base64(found.hashes), checkpoint=newest.note, since=older.note if older else "",
        consistency=_base64(checkpoints.consistency(store, older.size, newest.size)) if older else [],
    )  # fmt: skip


def _base64(hashes: list[bytes]) -> list[str]:
    return [b64encode(one).decode() for one in hashes]


# What was asked for ---------------------------------------------------------------------------------------------------


@operation(right=Right.AUDIT, route="GET /audit/log", group=AUDIT)
def audit_log(
    context: Context,
    *,
    project: Project = "",
    principal: Annotated[str, msgspec.Meta(description="Only what this one asked for: ada, or agent:fred.")] = "",
    operation: Annotated[str, msgspec.Meta(description="Only this operation.")] = "",
    ruling: Annotated[Verdict, msgspec.Meta(description="Only with this ruling.")] | None = None,
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many at the most.")] = 50,
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the page before.")] = "",
) -> Entries:
    """List what was asked for, newest first: who, what, on what, the ruling and why."""
    wanted = _wanted(project, principal, operation, ruling, since, until)
    return entries.page(context.store, wanted, before=entries.start(after), limit=limit)


@operation(right=Right.AUDIT, route="GET /audit/export", audited=True, group=AUDIT, proves=True)
def audit_export(
    context: Context,
    *,
    form: Annotated[
        Form, msgspec.Meta(description="A bundle to verify elsewhere, or the entries alone.")
    ] = Form.BUNDLE,
    with_content: Annotated[bool, msgspec.Meta(description="Bodies in the bundle, not only their hashes.")] = False,
    project: Project = "",
    principal: Annotated[str, msgspec.Meta(description="Only what this one asked for.")] = "",
    operation: Annotated[str, msgspec.Meta(description="Only this operation.")] = "",
    ruling: Annotated[Verdict, msgspec.Meta(description="Only with this ruling.")] | None = None,
    since: Since = "",
    until: Until = "",
    after: Annotated[str, msgspec.Meta(description="Go on from the `next` of the portion before.")] = "",
) -> Exported:
    """Export the log for an audit elsewhere, a portion at a time: all of it to verify, or the entries alone."""
    if form is Form.BUNDLE:
        if project or principal or operation or ruling or since or until:
            raise InvalidInput("a bundle is of the whole log and takes no filters; they belong to jsonl, csv and otel")
        if with_content:
            permit(context, Right.READ, "")
        if with_content and context.answers_leave_machine:
            raise InvalidInput(
                "a bundle with content is made where the store is: secrets are masked on the way out, and what was "
                "masked does not have its hash any more"
            )
        text, following = bundle.portion(context.store, after, content=with_content)
        return Exported(text=text, next=following)
    if with_content:
        raise InvalidInput("content belongs to a bundle; the entries of the audit log hold none")
    wanted = _wanted(project, principal, operation, ruling, since, until)
    found = entries.page(context.store, wanted, before=entries.start(after), limit=1000)
    match form:
        case Form.JSONL:
            text = entries.as_jsonl(found.entries)
        case Form.CSV:
            text = entries.as_csv(found.entries, titles=not after)
        case Form.OTEL:
            text = entries.as_otel(found.entries)
    return Exported(text=text, next=found.next)


def _wanted(project: str, who: str, operation: str, ruling: Verdict | None, since: str, until: str) -> Wanted:
    return Wanted(
        project=project, principal=principal(who) if who else "", operation=operation,
        allowed=None if ruling is None else ruling is Verdict.ALLOWED, period=times("", since, until),
    )  # fmt: skip


# Verification ---------------------------------------------------------------------------------------------------------


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
