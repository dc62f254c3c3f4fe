"""The operations that send a session to another store: its description, events, blobs and native files."""

from collections import Counter
from typing import Annotated

import msgspec
import zstandard

from clew.model import codec
from clew.model.access import Right
from clew.model.errors import NotFound
from clew.model.events import (
    BudgetSet,
    Event,
    Removed,
    SessionForked,
    SessionOpened,
)
from clew.model.object_names import kinds_naming_objects, objects_of
from clew.model.session import Session
from clew.model.title import uncut
from clew.secrets import REACH
from clew.service.capture.packed_files import files_to_export
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.replication.tree_answers import objects_for
from clew.service.replication.trees import MOST_OBJECTS, git_of, tree_of
from clew.service.replication.values import (
    LIFE,
    PAGE_BYTES,
    Digest,
    NativeFile,
    Parcel,
    Piece,
    Sent,
    TreeObjects,
    Wanted,
)
from clew.service.workspaces.points import events_of
from clew.store.log import receiving
from clew.store.native_files import remote_copies
from clew.store.native_files.lookup import files_of
from clew.store.native_files.stored_bytes import PartOfFile, find_segment, segment_digests
from clew.store.objects import objects
from clew.store.objects.walking import reached

PAGE_EVENTS = 2_000
WINDOW = 50
# The first events of a session: the receiving store writes its own.
FIRST = (SessionOpened, SessionForked)


@operation(right=Right.READ, route="GET /sync/sessions/{session}", hidden=True)
def sync_send(
    context: Context,
    session: Session,
    *,
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="Only events after this one.")] = 0,
    flat: Annotated[bool, msgspec.Meta(description="With the events it shares with its ancestors.")] = False,
) -> Parcel:
    """Send a session to another store: its description, and its events in the form that every store understands."""
    first = after if flat else max(after, session.upto)
    own = receiving.store_id(context.unrestricted)
    head = context.store.head(session).head
    sent_events: list[Sent] = []
    size, last = 0, first
    for event in context.store.read(session, after=first, limit=PAGE_EVENTS):
        sent_events += sent(_masked(context, event), own)
        size += len(sent_events[-1].body) if sent_events else 0
        last = event.seq
        if size >= PAGE_BYTES:
            break
    has_more = last < head and last > first
    return msgspec.structs.replace(parcel(context, session), events=sent_events, next=last if has_more else None)


def _masked(context: Context, event: Event) -> Event:
    if not context.answers_leave_machine:
        return event
    from clew.service.privacy.masking import mask_events, masker_of

    return mask_events(masker_of(context), [event])[0][0]


def sent(event: Event, own: str) -> list[Sent]:
    """An event as it is sent; empty for the first event of a session, because the receiving store writes its own.

    Pruned events and kinds that only their own store may write are sent as placeholders, so that seqs stay the same.
    """
    body = event.body
    if isinstance(body, SessionOpened) and body.budget is not None:
        body = BudgetSet(budget=body.budget)
    elif isinstance(body, FIRST):
        return []
    if isinstance(body, Removed):
        kind, text = "clew.pruned", codec.to_json({"kind": body.kind})
    else:
        is_placeholder = body.reserved and not isinstance(body, LIFE)
        kind, text = f"clew.{body.kind}" if is_placeholder else body.kind, codec.encode(body).decode()
    said_at = event.at if event.said_at is None else event.said_at
    source = receiving.source_of(event, own)
    return [
        Sent(
            kind=kind, source=source, body=text, version=body.version, said_at=said_at, actor=event.actor,
            seq=event.seq,
        )
    ]  # fmt: skip


def parcel(context: Context, session: Session) -> Parcel:
    """A session without its events."""
    head = context.store.head(session)
    return Parcel(
        id=session.id, project=session.project, agent=session.agent, title=uncut(session.title),
        metadata=session.metadata or "{}", owner=session.owner, private=session.private, head=head.head,
        state=head.state, parent=session.parent or "", parent_source=_shared(context, session),
    )  # fmt: skip


def _shared(context: Context, session: Session) -> str:
    """The source of the last event that a fork shares with its parent and that is sent."""
    own = receiving.store_id(context.unrestricted)
    upto = session.upto
    while upto > 0:
        before = max(0, upto - WINDOW)
        for event in reversed(list(context.store.read(session, after=before, upto=upto))):
            if sent_events := sent(event, own):
                return sent_events[0].source
        upto = before
    return ""


@operation(right=Right.READ, route="GET /sessions/{session}/originals", hidden=True)
def originals(context: Context, session: Session) -> list[NativeFile]:
    """List the native files of a session; their bytes are blobs of it."""
    return [
        NativeFile(
            runtime=original.runtime,
            format=original.format,
            path=original.path,
            native=original.native_id,
            machine=remote_copies.machine_of(original),
            told=original.translated,
            opaque=original.opaque,
            quarantined=original.quarantined,
            generation=original.generation,
            segments=[digest.hex() for _, _, digest in segment_digests(context.store, original)],
            standing=remote_copies.progress_of(original),
        )
        for original in files_to_export(files_of(context.store, session), exact=False)
        if not original.erased
    ]


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
    masks, masked = context.answers_leave_machine, dict[str, int]()
    segment = find_segment(context.store, session, digest, around=REACH if masks else 0)
    data = segment.data if segment is not None else objects.load(context.store, digest)
    if masks:
        data, masked = _without_secrets(context, digest, segment or PartOfFile(b"", data, b""))
    end = start + PAGE_BYTES
    return Piece(
        packed=zstandard.compress(data[start:end]).hex(), size=len(data), next=end if end < len(data) else None,
        masked=masked,
    )  # fmt: skip


@operation(right=Right.READ, route="PUT /sync/sessions/{session}/objects/read", repeatable=True, hidden=True)
def sync_read(
    context: Context,
    session: Session,
    *,
    at: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="The event of the snapshot, if you know.")] = 0,
    wanted: Annotated[list[Wanted], msgspec.Meta(max_length=MOST_OBJECTS, description="Objects of it.")],
) -> TreeObjects:
    """Read objects of a snapshot, as many of the first ones as fit into an answer."""
    events = context.store.read(session, after=at - 1, upto=at) if at else events_of(context, session)
    roots = [name for event in events for name in (tree_of(event), git_of(event)) if name]
    asked = {objects.digest_of(name) for want in wanted for name in (want.digest, want.of) if name}
    missing = asked - (reached(context.store.unrestricted, roots, asked) if roots else set())
    if missing:
        raise NotFound(f"no snapshot of session {session.id} names an object {min(missing).hex()}", session=session.id)
    return objects_for(context, wanted)


def _names(context: Context, session: Session, at: int) -> set[str]:
    store = context.store
    if at:
        return {name for event in store.read(session, after=at - 1, upto=at) for name in objects_of(event.body)}
    named = {name for event in store.read(session, kinds=kinds_naming_objects()) for name in objects_of(event.body)}
    originals = files_to_export(files_of(store, session), exact=False)
    digests = (digest for original in originals for _, _, digest in segment_digests(store, original))
    return named | {digest.hex() for digest in digests}


def _without_secrets(context: Context, digest: str, part: PartOfFile) -> tuple[bytes, dict[str, int]]:
    from clew.service.handover.native_export import masked_pieces
    from clew.service.privacy.masking import masker_of

    mask, counts = masker_of(context), Counter[str]()
    # Half of a secret looks like none.
    data = mask.blanked_at_ends(part.data, part.before, part.after)
    masked = b"".join(masked_pieces(mask, iter([data]), f"blob {digest}", counts))
    return masked, dict(counts)
