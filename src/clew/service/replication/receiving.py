"""The operations that receive a session of another store: open it under its id, add events, blobs and native files.

The receiver sets the actor: on a server it is the caller, not the actor that the events name. Every operation here is
idempotent.
"""

from typing import Annotated, Any

import msgspec

from clew.model import codec
from clew.model.access import Right, Ruling
from clew.model.errors import Conflict, Denied, InvalidInput, NotFound, TooLarge
from clew.model.events import (
    KINDS,
    Body,
    Draft,
    Opaque,
)
from clew.model.ids import LENGTH, check_name, check_prefix, plain_kind
from clew.model.object_names import objects_of
from clew.model.session import Session
from clew.service.kernel.audit_record import record
from clew.service.kernel.call import permit, target_of
from clew.service.kernel.context import Context
from clew.service.kernel.effects import effects_filter
from clew.service.kernel.registry import operation, operation_named
from clew.service.privacy.mask_on_write import masked_if_required, text_masked_if_required
from clew.service.replication.trees import MOST_OBJECTS, git_of, keep, known, tree_of, unpacked
from clew.service.replication.values import (
    LIFE,
    Digest,
    Kept,
    Part,
    Sent,
    SentStretch,
    SessionCopy,
    Source,
    StoreStatus,
)
from clew.store.log import receiving
from clew.store.log.opening import Forking, Opening
from clew.store.log.receiving import Arrived, ReceivedEvent
from clew.store.native_files import remote_copies
from clew.store.native_files.lookup import find_file
from clew.store.native_files.remote_copies import Copy, Stretch
from clew.store.objects import claims, objects
from clew.store.objects.pack import address
from clew.store.projects import current_name

MOST_ASKED = 100
# The largest total size of the parts of one blob, body or stretch.
MOST_ASSEMBLED = 128 * 1024 * 1024
PART = b"clew part\n"


@operation(right=Right.SEE, route="GET /sync", filters_by_reach=True, hidden=True)
def sync_standing(
    context: Context,
    *,
    sessions: Annotated[list[str], msgspec.Meta(max_length=MOST_ASKED, description="Ids in full.")] | None = None,
) -> StoreStatus:
    """Return the heads of those of these sessions that exist here and that the caller may see."""
    heads = {}
    for id in sessions or ():
        session = _session_here(context, id)
        if session is not None:
            heads[session.id] = context.store.head(session).head
    position = context.store.last_position()
    return StoreStatus(store=receiving.store_id(context.unrestricted), position=position, sessions=heads)


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
) -> SessionCopy:
    """Open a session under the id it has in another store; one that is here already stays as it is."""
    id = check_prefix(session)
    if len(id) != LENGTH:
        raise InvalidInput(f"{session!r} is only a prefix of an id; a received session needs all {LENGTH} characters")
    check_name(parent_source, "a source")
    copy = _session_here(context, id)
    if copy is None:
        copy = _open(
            context, id, project=project, agent=agent, title=text_masked_if_required(context, project, title),
            metadata=text_masked_if_required(context, project, metadata), private=private, parent=parent,
            parent_source=parent_source,
        )  # fmt: skip
    return SessionCopy(id=copy.id, head=context.store.head(copy).head, parent=copy.parent)


def _open(context: Context, id: str, *, parent: str, parent_source: str, **about: Any) -> Session:
    from clew.service.sessions.budget import unmetered  # Only a fork needs it, and it needs views.

    store, me = context.store, context.principal
    try:
        if not parent:
            return store.open(Opening(id=id, **about), actor=me)
        parent_session = store.session(parent, context.reach(Right.FORK))
        permit(context, Right.READ, parent_session)
        project = current_name(context.unrestricted, about["project"])
        # Without a source they share only the opening event.
        fork_seq = (
            receiving.find(store, parent_session, parent_source, receiving.store_id(context.unrestricted))
            if parent_source
            else 1
        )
        if fork_seq is None or len(parent) != LENGTH or parent_session.project != project:
            raise NotFound(f"no session {parent!r} with that event in this store", session=parent)
        child = Forking(
            parent=parent_session,
            id=id,
            at=fork_seq,
            title=about["title"],
            metadata=about["metadata"],
            private=about["private"],
            unmetered=unmetered(context, parent_session, store.head(parent_session)),
        )
        return store.open(child, actor=me)
    except Conflict:
        if (session := _session_here(context, id)) is not None:
            return session  # Another request opened it at the same time.
        # The caller may not see the session, so the error is the same as for any session of others.
        raise Denied(
            f"sync_open was refused: no grant gives {me} the right to append on {id}; ask an owner for a grant",
            right=str(Right.APPEND),
        ) from None


def _session_here(context: Context, id: str) -> Session | None:
    """The session with this id, if the caller may see it."""
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
    """Add events of another store to a session, those that are new here; you are who added them.

    The files of a snapshot are sent before its event (`sync_objects`).
    """
    sent_events = events or []
    received_blobs = {
        **(blobs or {}),
        **{digest: _assembled(context, parts) for digest, parts in (large or {}).items()},
    }
    drafts = masked_if_required(context, session.project, [_draft(context, event) for event in sent_events])
    has_trees = _save(context, session, drafts, received_blobs)
    store = context.store
    accepted = _accepted(context, session, sent_events, drafts)
    arrived = receiving.receive(
        store,
        session,
        [
            ReceivedEvent(body=draft.body, source=event.source, actor=context.principal, said_at=event.said_at)
            for event, draft in accepted
        ],
        own=receiving.store_id(context.unrestricted),
    )
    if has_trees:
        claims.drop(store, context.principal, session.id)
    return arrived


@operation(right=Right.APPEND, route="PUT /sync/sessions/{session}/objects/known", repeatable=True, hidden=True)
def sync_known(
    context: Context,
    session: Session,
    *,
    digests: Annotated[list[Digest], msgspec.Meta(max_length=MOST_OBJECTS, description="Of objects.")] | None = None,
    bases: Annotated[list[str], msgspec.Meta(max_length=100, description="Sessions that name some.")] | None = None,
) -> list[str]:
    """Say which objects of a snapshot need not be sent: you sent them before, or may read them in these sessions."""
    asked = [objects.digest_of(digest) for digest in digests or ()]
    return sorted(digest.hex() for digest in known(context, session, asked, bases or ()))


@operation(right=Right.APPEND, route="PUT /sync/sessions/{session}/objects", repeatable=True, hidden=True)
def sync_objects(
    context: Context,
    session: Session,
    *,
    data: Annotated[bytes, msgspec.Meta(description="The objects, packed.")] = b"",
    parts: Annotated[list[str], msgspec.Meta(description="The parts of that, when it is large.")] | None = None,
) -> Kept:
    """Keep objects of a snapshot, files before the trees that name them, for an hour or until its event is added."""
    try:
        items = unpacked(_assembled(context, parts) if parts else data)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"these objects cannot be read ({error}); send them again") from error
    return Kept(objects=keep(context, session, items))


def _accepted(
    context: Context, session: Session, sent_events: list[Sent], drafts: list[Draft]
) -> list[tuple[Sent, Draft]]:
    """The events without those that change a rule and may not; a refusal is recorded, and the others arrive."""
    rule = effects_filter(context, session)
    accepted = []
    for event, draft in zip(sent_events, drafts, strict=True):
        ruling = rule(draft.body)
        if ruling.allowed:
            accepted.append((event, draft))
        else:
            because = f"the event {draft.body.kind} was left out: {ruling.because}"
            record(context, operation_named("sync_append"), target_of(session), Ruling(False, because))
    return accepted


def _draft(context: Context, event: Sent) -> Draft:
    text = _assembled(context, event.parts).decode("utf-8", "replace") if event.parts else event.body
    return Draft(body=received(event, text), source=event.source, said_at=event.said_at)


def received(event: Sent, text: str) -> Body | Opaque:
    """The body of a received event. A kind that only its own store may write becomes `Opaque`, without effect here."""
    known_kind = KINDS.get(event.kind)
    body = codec.understood(event.kind, text, event.version)
    is_unknown = isinstance(body, Opaque) and "." not in body.kind
    if is_unknown or (known_kind is not None and known_kind.reserved and not isinstance(body, LIFE)):
        return Opaque(kind=plain_kind(f"clew.{event.kind}"), raw=text)
    if isinstance(body, Opaque):
        return msgspec.structs.replace(body, kind=plain_kind(body.kind))
    return body


def _save(context: Context, session: Session, drafts: list[Draft], received_blobs: dict[str, bytes]) -> bool:
    """Store the blobs that the events name. The sender must send each blob: a digest alone gives no access.

    Returns whether snapshots are among the events, whose files came before.
    """
    for digest, data in received_blobs.items():
        if address(data).hex() != digest:
            raise InvalidInput(f"the bytes of blob {digest[:80]} do not match its digest; send them again")
    trees = {
        name for draft in drafts for name in (tree_of(draft.body), git_of(draft.body))
        if name and name not in received_blobs
    }  # fmt: skip
    sent_before = claims.claimed(
        context.store, context.principal, session.id, [objects.digest_of(name) for name in trees]
    )  # fmt: skip
    known_names = received_blobs.keys() | {digest.hex() for digest in sent_before}
    for draft in drafts:
        missing = [name for name in objects_of(draft.body) if name not in known_names]
        if missing:
            raise InvalidInput(f"a {draft.body.kind} names the blob {missing[0][:80]}, which was not sent with it")
    for data in received_blobs.values():
        objects.save(context.store, data)
    return bool(trees)


@operation(right=Right.APPEND, route="PUT /sync/sessions/{session}/parts", repeatable=True, hidden=True)
def sync_part(context: Context, session: Session, *, data: bytes = b"") -> Part:
    """Keep a part of something that is too large for one request, for an hour."""
    return Part(part=objects.save(context.store, _marked(context) + data))


def _marked(context: Context) -> bytes:
    """The prefix of the caller's parts, so that nobody can use a part of another caller or a blob as a part."""
    return PART + context.principal.encode() + b"\n"


def _assembled(context: Context, parts: list[str]) -> bytes:
    mark = _marked(context)
    pieces: list[bytes] = []
    size = 0
    for name in parts:
        try:
            data = objects.load(context.store, name)
        except (NotFound, TooLarge):  # No part is as large as that.
            data = b""
        if not data.startswith(mark):
            raise NotFound(f"no part {name[:80]!r} of yours; parts are kept for an hour: send it again", part=name)
        pieces.append(data[len(mark) :])
        size += len(pieces[-1])
        if size > MOST_ASSEMBLED:
            raise TooLarge(
                f"parts of more than {MOST_ASSEMBLED:,} bytes together; send less at once", limit=MOST_ASSEMBLED
            )
    return b"".join(pieces)


@operation(right=Right.APPEND, route="PUT /sync/sessions/{session}/originals", repeatable=True, hidden=True)
def sync_original(
    context: Context,
    session: Session,
    *,
    file: Annotated[Copy, msgspec.Meta(description="Which file it is.")] | None = None,
    stretches: list[SentStretch] | None = None,
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="What is settled of it here already.")] = 0,
) -> remote_copies.CopyProgress:
    """Keep a copy of a native file, or of what is new in it; without stretches, say how far the copy goes."""
    if file is None:
        raise InvalidInput("sync_original needs the argument `file`")
    for text, name in ((file.path, "a path"), (file.native_id, "a native id"), (file.machine, "a machine"),
                       (file.runtime, "a runtime"), (file.format, "a format")):  # fmt: skip
        check_name(text, name, longest=4000)
    if not stretches:
        copied = find_file(context.store, remote_copies.copy_id_of(session, file))
        return remote_copies.progress_of(copied)
    ready = [
        Stretch(
            data=_assembled(context, stretch.parts) if stretch.parts else stretch.data,
            upto=stretch.upto,
            settled=stretch.settled,
        )
        for stretch in stretches
    ]
    before = remote_copies.progress_of(find_file(context.store, remote_copies.copy_id_of(session, file)))
    now = remote_copies.store_copy(context.store, session, file, ready, after=after)
    if not after and before.upto:
        because = f"it replaced {before.upto:,} bytes of the native file {file.path} by {now.upto:,} others"
        record(context, operation_named("sync_original"), target_of(session), Ruling(True, because))
    return now
