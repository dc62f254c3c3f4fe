"""What two stores tell each other of a session: where it stands, its events, its blobs and its native files.

Whoever sends decides what leaves: secrets are masked there. Whoever receives decides who said it: on a server that is
the caller, whatever the events say. Everything can be sent again, and is there once.
"""

from typing import Annotated, Any

import msgspec
import zstandard

from clew.model import codec
from clew.model.access import Right
from clew.model.errors import Conflict, Denied, InvalidInput, NotFound, TooLarge
from clew.model.events import (
    KINDS,
    ArtifactSaved,
    Body,
    BudgetSet,
    CallReturned,
    Draft,
    Event,
    MessageAdded,
    Opaque,
    PrivacySet,
    Removed,
    SessionArchived,
    SessionClosed,
    SessionForked,
    SessionOpened,
    SessionPaused,
    SessionResumed,
    WorkspaceSnapshotted,
    blobs_of,
)
from clew.model.ids import LENGTH, check_name, check_prefix
from clew.model.session import Session
from clew.service.capture.packed_files import files_to_export
from clew.service.kernel.call import permit, target_of
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.mask_on_write import masked_if_required, text_masked_if_required
from clew.store.log import receiving
from clew.store.log.opening import Forking, Opening
from clew.store.log.receiving import Arrival, Arrived
from clew.store.native_files import native_files as files
from clew.store.native_files import remote_copies
from clew.store.native_files.remote_copies import Copy, Stretch
from clew.store.objects import blobs as blob_names
from clew.store.objects import objects

# How much one answer holds, and one piece of a blob.
PAGE_BYTES = 4 * 1024 * 1024
PAGE_EVENTS = 2_000
MOST_ASKED = 100
# What the parts of one blob, body or stretch come to at the most.
MOST_ASSEMBLED = 128 * 1024 * 1024
WINDOW = 50
# Steps of a session's life that another store may report; what else has an operation of its own is only mentioned.
LIFE = (SessionPaused, SessionResumed, SessionClosed, SessionArchived, PrivacySet, BudgetSet)
# The first events of a session: they are made where it arrives.
FIRST = (SessionOpened, SessionForked)
NAMING = (MessageAdded.kind, CallReturned.kind, ArtifactSaved.kind, WorkspaceSnapshotted.kind)
PART = b"clew part\n"

Source = Annotated[str, msgspec.Meta(max_length=1000)]
Digest = Annotated[str, msgspec.Meta(max_length=64, description="64 hexadecimal digits.")]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a store, how far its log goes, and the heads of the sessions that were asked for and are in reach."""

    store: str
    position: int
    sessions: dict[str, int]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session stands here."""

    id: str
    head: int
    parent: str | None = None


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event between two stores. `body` is its JSON text; in `parts` are the names of what is too large for that."""

    kind: str
    source: str
    body: str = ""
    parts: list[str] = []
    version: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 1
    said_at: int | None = None
    actor: str = ""
    seq: int = 0


class Parcel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as it is sent: who it is, and events of it. `next` goes on from there."""

    id: str
    project: str
    agent: str
    title: str
    metadata: str
    owner: str
    private: bool
    head: int
    state: str
    parent: str = ""
    parent_source: str = ""
    events: list[Sent] = []
    next: int | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a part that was kept for what comes next."""

    part: str


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a blob, packed with zstd and in hexadecimal, so that nothing in them is taken for a secret again."""

    packed: str
    size: int
    next: int | None = None
    masked: dict[str, int] = {}


class NativeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A native file of a session, and its bytes as blobs."""

    runtime: str
    format: str
    path: str
    native: str
    machine: str
    told: int
    opaque: int
    quarantined: int
    generation: int
    segments: list[str]
    standing: remote_copies.Standing


class SentStretch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stretch of a native file: its bytes, or the names of its parts."""

    upto: remote_copies.Count
    data: bytes = b""
    parts: list[str] = []
    settled: bool = False


# Receiving ------------------------------------------------------------------------------------------------------------


@operation(right=Right.SEE, route="GET /sync", filters_by_reach=True, hidden=True)
def sync_standing(
    context: Context,
    *,
    sessions: Annotated[list[str], msgspec.Meta(max_length=MOST_ASKED, description="Ids in full.")] | None = None,
) -> Standing:
    """Say which of these sessions are here and may be seen, and where they stand."""
    found = {}
    for id in sessions or ():
        session = _there(context, id)
        if session is not None:
            found[session.id] = context.store.head(session).head
    position = context.store.last_position()
    return Standing(store=receiving.store_id(context.unrestricted), position=position, sessions=found)


@operation(right=Right.APPEND, route="PUT /sync/sessions/{session}", repeatable=True, hidden=True)
def sync_open(
    context: Context,
    *,
    session: Annotated[str, msgspec.Meta(description="Its id, the same in every store.")],
    project: Annotated[str, msgspec.Meta(description="What it belongs to.")],
    agent: str = "",
    title: str = "",
    metadata: Annotated[str, msgspec.Meta(description="A JSON object, as text.")] = "{}",
    parent: Annotated[str, msgspec.Meta(description="The session it was forked from.")] = "",
    parent_source: Annotated[Source, msgspec.Meta(description="The last event it shares with that.")] = "",
    private: bool = False,
) -> Place:
    """Open a session under the id it has in another store; one that is here already stays as it is."""
    id = check_prefix(session)
    if len(id) != LENGTH:
        raise InvalidInput(f"{session!r} is the beginning of an id; a session that comes has all {LENGTH} characters")
    check_name(parent_source, "a source")
    there = _there(context, id)
    if there is None:
        there = _opened(
            context, id, project=project, agent=agent, title=text_masked_if_required(context, project, title),
            metadata=text_masked_if_required(context, project, metadata), private=private, parent=parent,
            parent_source=parent_source,
        )  # fmt: skip
    return Place(id=there.id, head=context.store.head(there).head, parent=there.parent)


def _opened(context: Context, id: str, *, parent: str, parent_source: str, **about: Any) -> Session:
    store, me = context.store, context.principal
    try:
        if not parent:
            return store.open(Opening(id=id, **about), actor=me)
        found = store.session(parent, context.reach(Right.FORK))
        permit(context, Right.READ, found)
        # Without a source they share the opening of the session and no more.
        at = (
            receiving.find(store, found, parent_source, receiving.store_id(context.unrestricted))
            if parent_source
            else 1
        )
        if at is None or len(parent) != LENGTH or found.project != about["project"]:
            raise NotFound(f"no session {parent!r} with that event in this store", session=parent)
        child = Forking(
            parent=found, id=id, at=at, title=about["title"], metadata=about["metadata"], private=about["private"]
        )
        return store.open(child, actor=me)
    except Conflict:
        if (there := _there(context, id)) is not None:
            return there  # Somebody was quicker.
        # One that the caller may not even see: they are told what they would be told of any that is not theirs.
        raise Denied(
            f"sync_open was refused: no grant gives {me} the right to append on {id}; ask an owner for a grant",
            right=str(Right.APPEND),
        ) from None


def _there(context: Context, id: str) -> Session | None:
    """The session with this id, if it is in reach."""
    if len(id) != LENGTH:
        return None
    try:
        return context.store.session(id, context.reach(None))
    except (NotFound, InvalidInput):
        return None


@operation(right=Right.APPEND, route="PUT /sync/sessions/{session}/events", repeatable=True, hidden=True)
def sync_append(
    context: Context,
    session: Session,
    *,
    events: Annotated[list[Sent], msgspec.Meta(description="In their order.")] | None = None,
    blobs: Annotated[dict[str, bytes], msgspec.Meta(description="The blobs they name, by digest.")] | None = None,
    large: Annotated[dict[str, list[str]], msgspec.Meta(description="The parts of large blobs.")] | None = None,
) -> Arrived:
    """Add events of another store to a session, those that are new here; you are who added them."""
    found = events or []
    given = {**(blobs or {}), **{digest: _assembled(context, parts) for digest, parts in (large or {}).items()}}
    drafts = masked_if_required(context, session.project, [_draft(context, one) for one in found])
    _save(context, drafts, given)
    store = context.store
    is_theirs = context.caller.rule(Right.ADMINISTER, target_of(session)).allowed
    return receiving.receive(
        store,
        session,
        [
            Arrival(body=draft.body, source=one.source, actor=context.principal, said_at=one.said_at)
            for one, draft in zip(found, drafts, strict=True)
        ],
        own=receiving.store_id(context.unrestricted),
        may_administer=is_theirs,
    )


def _draft(context: Context, one: Sent) -> Draft:
    text = _assembled(context, one.parts).decode("utf-8", "replace") if one.parts else one.body
    return Draft(body=received(one, text), source=one.source, said_at=one.said_at)


def received(one: Sent, text: str) -> Body | Opaque:
    """The body of an event that was sent; what only its own store may say of it is mentioned and nothing else."""
    known = KINDS.get(one.kind)
    body = codec.understood(one.kind, text, one.version)
    is_unknown = isinstance(body, Opaque) and "." not in body.kind
    if is_unknown or (known is not None and known.reserved and not isinstance(body, LIFE)):
        return Opaque(kind=f"clew.{one.kind}", raw=text)
    return body


def _save(context: Context, drafts: list[Draft], given: dict[str, bytes]) -> None:
    """Store the blobs that the events name. Who names one has to bring it: a digest alone opens nothing."""
    for digest, data in given.items():
        if blob_names.address(data).hex() != digest:
            raise InvalidInput(f"the bytes of blob {digest[:80]} are not what its name says; send them again")
    for draft in drafts:
        missing = [name for name in blobs_of(draft.body) if name not in given]
        if missing:
            raise InvalidInput(f"a {draft.body.kind} names the blob {missing[0][:80]}, which was not sent along")
    for data in given.values():
        objects.save(context.store, data)


@operation(right=Right.APPEND, route="PUT /sync/sessions/{session}/parts", repeatable=True, hidden=True)
def sync_part(context: Context, session: Session, *, data: bytes = b"") -> Part:
    """Keep a part of something that is too large for one request, for an hour."""
    return Part(part=objects.save(context.store, _marked(context) + data))


def _marked(context: Context) -> bytes:
    """What a part begins with: it is good for nobody else, and nothing else is a part."""
    return PART + context.principal.encode() + b"\n"


def _assembled(context: Context, parts: list[str]) -> bytes:
    mark = _marked(context)
    found: list[bytes] = []
    size = 0
    for name in parts:
        try:
            data = objects.load(context.store, name)
        except NotFound:
            data = b""
        if not data.startswith(mark):
            raise NotFound(f"no part {name[:80]!r} of yours; parts are kept for an hour: send it again", part=name)
        found.append(data[len(mark) :])
        size += len(found[-1])
        if size > MOST_ASSEMBLED:
            raise TooLarge(
                f"parts of more than {MOST_ASSEMBLED:,} bytes together; send less at once", limit=MOST_ASSEMBLED
            )
    return b"".join(found)


@operation(right=Right.APPEND, route="PUT /sync/sessions/{session}/originals", repeatable=True, hidden=True)
def sync_original(
    context: Context,
    session: Session,
    *,
    file: Annotated[Copy, msgspec.Meta(description="Which file it is.")] | None = None,
    stretches: list[SentStretch] | None = None,
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="What is settled of it here already.")] = 0,
) -> remote_copies.Standing:
    """Keep a copy of a native file, or of what is new in it; without stretches, say how far the copy goes."""
    if file is None:
        raise InvalidInput("sync_original: which file is it? `file` says so")
    for text, what in ((file.path, "a path"), (file.native, "a native id"), (file.machine, "a machine"),
                       (file.runtime, "a runtime"), (file.format, "a format")):  # fmt: skip
        check_name(text, what, longest=4000)
    if not stretches:
        there = files.original(context.store, remote_copies.place_of_copy(session, file))
        return remote_copies.standing(there) if there else remote_copies.Standing()
    found = [
        Stretch(data=_assembled(context, one.parts) if one.parts else one.data, upto=one.upto, settled=one.settled)
        for one in stretches
    ]
    return remote_copies.keep(context.store, session, file, found, after=after)


# Sending --------------------------------------------------------------------------------------------------------------


@operation(right=Right.READ, route="GET /sync/sessions/{session}", hidden=True)
def sync_send(
    context: Context,
    session: Session,
    *,
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="Only events after this one.")] = 0,
    flat: Annotated[bool, msgspec.Meta(description="With the events it shares with its ancestors.")] = False,
) -> Parcel:
    """Send a session to another store: who it is, and its events as every store knows them."""
    first = after if flat else max(after, session.upto)
    own = receiving.store_id(context.unrestricted)
    head = context.store.head(session).head
    found: list[Sent] = []
    size, last = 0, first
    for event in context.store.read(session, after=first, limit=PAGE_EVENTS):
        found += sent(_masked(context, event), own)
        size += len(found[-1].body) if found else 0
        last = event.seq
        if size >= PAGE_BYTES:
            break
    goes_on = last < head and last > first
    return msgspec.structs.replace(parcel(context, session), events=found, next=last if goes_on else None)


def _masked(context: Context, event: Event) -> Event:
    if not context.answers_leave_machine:
        return event
    from clew.service.privacy.masking import mask_events, masker_of

    return mask_events(masker_of(context), [event])[0][0]


def sent(event: Event, own: str) -> list[Sent]:
    """An event as it is sent: nothing for the first of a session, which is made anew where it arrives.

    What only this store can say of it, and what was pruned, is mentioned, so that the seqs stay the same in both.
    """
    body = event.body
    if isinstance(body, SessionOpened) and body.budget is not None:
        body = BudgetSet(budget=body.budget)
    elif isinstance(body, FIRST):
        return []
    if isinstance(body, Removed):
        kind, text = "clew.pruned", codec.to_json({"kind": body.kind})
    else:
        is_mentioned = body.reserved and not isinstance(body, LIFE)
        kind, text = f"clew.{body.kind}" if is_mentioned else body.kind, codec.encode(body).decode()
    said_at = event.at if event.said_at is None else event.said_at
    source = receiving.source_of(event, own)
    return [
        Sent(
            kind=kind, source=source, body=text, version=body.version, said_at=said_at, actor=event.actor,
            seq=event.seq,
        )
    ]  # fmt: skip


def parcel(context: Context, session: Session) -> Parcel:
    """Who a session is, without events."""
    head = context.store.head(session)
    return Parcel(
        id=session.id, project=session.project, agent=session.agent, title=session.title,
        metadata=session.metadata or "{}", owner=session.owner, private=session.private, head=head.head,
        state=head.state, parent=session.parent or "", parent_source=_shared(context, session),
    )  # fmt: skip


def _shared(context: Context, session: Session) -> str:
    """What the last event goes by that a fork shares with its parent and that is sent at all."""
    own = receiving.store_id(context.unrestricted)
    upto = session.upto
    while upto > 0:
        before = max(0, upto - WINDOW)
        for event in reversed(list(context.store.read(session, after=before, upto=upto))):
            if found := sent(event, own):
                return found[0].source
        upto = before
    return ""


@operation(right=Right.READ, route="GET /sessions/{session}/originals", hidden=True)
def originals(context: Context, session: Session) -> list[NativeFile]:
    """List the native files of a session; their bytes are blobs of it."""
    return [
        NativeFile(
            runtime=one.runtime, format=one.format, path=one.path, native=one.native,
            machine=remote_copies.machine_of(one), told=one.told, opaque=one.opaque, quarantined=one.quarantined,
            generation=one.generation,
            segments=[digest.hex() for _, _, digest in files.digests(context.store, one)],
            standing=remote_copies.standing(one),
        )
        for one in files_to_export(files.originals(context.store, session), exact=False)
        if not one.erased
    ]  # fmt: skip


@operation(right=Right.READ, route="GET /sessions/{session}/blobs/{digest}", hidden=True)
def blob(
    context: Context,
    session: Session,
    digest: Digest,
    *,
    at: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="The event that names it, if you know.")] = 0,
    start: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="From this byte on.")] = 0,
) -> Piece:
    """Read a blob that an event or a native file of a session names, piece by piece; secrets in a text are masked."""
    if digest not in _names(context, session, at):
        raise NotFound(f"session {session.id} names no blob {digest[:80]!r}", session=session.id)
    data, masked = files.stretch(context.store, session, digest), dict[str, int]()
    if data is None:
        data = objects.load(context.store, digest)
    if context.answers_leave_machine:
        data, masked = _without_secrets(context, digest, data)
    end = start + PAGE_BYTES
    return Piece(
        packed=zstandard.compress(data[start:end]).hex(), size=len(data), next=end if end < len(data) else None,
        masked=masked,
    )  # fmt: skip


def _names(context: Context, session: Session, at: int) -> set[str]:
    store = context.store
    if at:
        return {name for event in store.read(session, after=at - 1, upto=at) for name in blobs_of(event.body)}
    named = {name for event in store.read(session, kinds=NAMING) for name in blobs_of(event.body)}
    there = files_to_export(files.originals(store, session), exact=False)
    digests = (digest for one in there for _, _, digest in files.digests(store, one))
    return named | {digest.hex() for digest in digests}


def _without_secrets(context: Context, digest: str, data: bytes) -> tuple[bytes, dict[str, int]]:
    from clew.service.handover.export import File, masked_file
    from clew.service.privacy.masking import masker_of

    file = masked_file(File(name=f"blob {digest}", data=data), masker_of(context))
    return file.data, file.masked
