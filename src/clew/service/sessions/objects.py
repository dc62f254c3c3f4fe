"""The objects of a session: put one, open it, look which there are.

An object can be named only by whoever has its bytes, so `object_put` stores the bytes and names them in one step, in
the event `artifact_saved`. It can be read where a session names it, itself or through another object.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from mimetypes import guess_type
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import Conflict, InvalidInput, NotFound
from clew.model.events import AnyBody, ArtifactSaved, CallReturned, Draft, Event, MessageAdded
from clew.model.ids import check_name
from clew.model.object_names import kinds_naming_objects, objects_of
from clew.model.parts import FilePart, ImagePart
from clew.model.session import Session, apply
from clew.model.steps import end_step
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.service.privacy.mask_on_write import masks_secrets, text_masked_if_required
from clew.service.privacy.masking import masker_of
from clew.store.log.feed import events_at, readable_of_kind
from clew.store.objects import objects

OBJECTS = Group("object", "The objects of a session: files, images and artifacts of any size.")
LONGEST_NAME = 500
# A beginning of a digest is as long as this at the least; a name that is shorter is a name.
SHORTEST_DIGEST = 8

Named = Annotated[str, msgspec.Meta(description="The name of an artifact, or a digest or a beginning of one.")]


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An object, and the last event that names it."""

    digest: str
    size: int
    name: str
    media_type: str
    seq: int


class OpenedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is being read: what it is, and its bytes piece by piece."""

    info: ObjectInfo
    is_exact: bool
    """Whether these are the stored bytes; otherwise they are without their secrets."""
    pieces: Iterator[bytes]


@operation(right=Right.READ, route="GET /sessions/{session}/objects", group=OBJECTS)
def object_list(context: Context, session: Session) -> list[ObjectInfo]:
    """List the objects that a session names, newest first: artifacts, images and files of messages."""
    return [_with_size(context, named) for named in _named(context, session)]


@operation(right=Right.READ, route="GET /sessions/{session}/objects/{object}/stat", group=OBJECTS)
def object_stat(context: Context, session: Session, object: Named) -> ObjectInfo:
    """Show an object of a session: its digest, its size, its type, and the last event that names it."""
    return _with_size(context, _find(context, session, object))


@operation(right=Right.READ, hidden=True)
def object_open(
    context: Context,
    session: Session,
    object: Named,
    *,
    at: Annotated[int, msgspec.Meta(ge=1, description="The event that names it, which makes a search needless.")]
    | None = None,
) -> OpenedObject:
    """Read an object of a session as a stream; a server masks the secrets in a text, and refuses other secrets."""
    info = _with_size(context, _find(context, session, object) if at is None else _at(context, session, object, at))
    return masked_for(context, info, objects.pieces(context.store, info.digest))


def masked_for(context: Context, info: ObjectInfo, pieces: Iterator[bytes]) -> OpenedObject:
    """What the caller may see of these bytes: a text without its secrets, and a binary file only if it holds none."""
    if not context.masks_answers:
        return OpenedObject(info=info, is_exact=True, pieces=pieces)
    from clew.secrets.blobs import is_binary, masked_pieces

    beginning = next(pieces, b"")
    whole = _chained(beginning, pieces)
    if is_binary(beginning):
        return OpenedObject(info=info, is_exact=True, pieces=_without_secrets(context, info, whole))
    return OpenedObject(
        info=info, is_exact=False, pieces=masked_pieces(masker_of(context), whole, Counter())
    )  # fmt: skip


@operation(right=Right.APPEND, hidden=True)
def object_put(
    context: Context,
    session: Session,
    source: Annotated[Any, msgspec.Meta(description="A file that is open for reading, or bytes in pieces.")],
    *,
    name: Annotated[str, msgspec.Meta(description="What to call it; a newer one of this name comes first.")],
    media_type: Annotated[str, msgspec.Meta(description="Its type. [default: guessed from the name]")] = "",
    progress: Annotated[bool, msgspec.Meta(description="Show it to the next session of the project.")] = False,
    size: Annotated[int, msgspec.Meta(ge=0, description="Its size, if you know.")] | None = None,
    lease: Annotated[int, msgspec.Meta(description="The epoch of the lease you hold.")] | None = None,
) -> ObjectInfo:
    """Store an object of any size and name it in a session, as an artifact.

    The same bytes under the same name are stored once: a second call returns the event of the first.
    """
    if not name.strip():
        raise InvalidInput("an object needs a name, such as report.pdf")
    name = text_masked_if_required(context, session.project, check_name(name, "a name", longest=LONGEST_NAME))
    media_type = check_name(media_type or guess_type(name)[0] or "", "a media type", longest=200)
    # What the session cannot take is refused before the bytes are read.
    apply(context.store.head(session), ArtifactSaved(name=name, blob="", size=0), session.id)
    pieces: Iterable[bytes] = objects.pieces_of(source)
    if masks_secrets(context, session.project):
        pieces = _masked_for_store(context, name, pieces)
        size = None
    digest = objects.put(context.store, pieces, size=size)
    stored = objects.stat(context.store, digest)
    body = ArtifactSaved(name=name, blob=digest, size=stored.size, media_type=media_type, progress=progress)
    seq, known = next((saved for saved in saved_artifacts(context, session) if saved[1].name == name), (0, body))
    if seq and (known.blob, known.progress) == (digest, progress):
        return ObjectInfo(digest=digest, size=stored.size, name=name, media_type=known.media_type, seq=seq)
    appended = context.store.append(session, [Draft(body=body)], actor=context.principal, lease=lease)
    return ObjectInfo(digest=digest, size=stored.size, name=name, media_type=media_type, seq=appended.seqs[0])


def saved_artifacts(context: Context, session: Session) -> list[tuple[int, ArtifactSaved]]:
    """What a session and its ancestors saved, newest first, each with its event's seq."""
    return [(event.seq, event.body) for event in artifact_events(context, session) if type(event.body) is ArtifactSaved]


def artifact_events(context: Context, session: Session) -> list[Event]:
    """The events that saved an artifact of a session or its ancestors, newest first."""
    upto = context.store.head(session).head
    events = readable_of_kind(context.store, session, ArtifactSaved.kind, upto=upto)
    return sorted(events, key=lambda event: -event.seq)


# Which there are ------------------------------------------------------------------------------------------------------


def _named(context: Context, session: Session) -> list[ObjectInfo]:
    """What the events of a session name, newest first, each object once under each of its names; without sizes."""
    upto = context.store.head(session).head
    events = [
        event
        for kind in kinds_naming_objects()
        for event in readable_of_kind(context.store, session, kind, upto=upto)
        if objects_of(event.body)
    ]
    found: dict[tuple[str, str], ObjectInfo] = {}
    for event in sorted(events, key=lambda event: -event.seq):
        end_step()
        for digest, name, media_type in _described(event.body):
            info = ObjectInfo(digest=digest, size=0, name=name, media_type=media_type, seq=event.seq)
            found.setdefault((digest, name), info)
    return list(found.values())


def _described(body: AnyBody) -> Iterator[tuple[str, str, str]]:
    """The objects that a body names, with what it says about them."""
    match body:
        case ArtifactSaved(name=name, blob=blob, media_type=media_type):
            about = {blob: (name, media_type)}
        case MessageAdded(parts=parts) | CallReturned(parts=parts):
            about = {
                part.blob: (part.name, part.media_type) for part in parts if isinstance(part, FilePart | ImagePart)
            }
        case _:
            about = {}
    for digest in objects_of(body):
        yield digest, *about.get(digest, ("", ""))


def _find(context: Context, session: Session, wanted: str) -> ObjectInfo:
    """The object of this name or digest, among those that the session names, itself or through another object."""
    named = _named(context, session)
    matches = [info for info in named if info.digest == wanted] or [info for info in named if info.name == wanted]
    if matches:
        return matches[0]
    if len(wanted) >= SHORTEST_DIGEST:
        begun = {info.digest: info for info in reversed(named) if info.digest.startswith(wanted)}
        if len(begun) > 1:
            raise Conflict(f"{len(begun)} objects of session {session.id} begin with {wanted[:80]}; name more of it")
        if begun:
            return next(iter(begun.values()))
    if objects.reaches(context.store, [info.digest for info in named], wanted):
        return ObjectInfo(digest=wanted, size=0, name="", media_type="", seq=0)
    raise NotFound(f"session {session.id} names no object {wanted[:80]!r}", session=session.id)


def _at(context: Context, session: Session, digest: str, seq: int) -> ObjectInfo:
    """The object with this digest, if this event names it."""
    event = events_at(context.store, session, [seq]).get(seq)
    for named, name, media_type in _described(event.body) if event is not None else ():
        if named == digest:
            return ObjectInfo(digest=digest, size=0, name=name, media_type=media_type, seq=seq)
    raise NotFound(f"event {seq} of session {session.id} names no object {digest[:80]!r}", session=session.id)


def _with_size(context: Context, info: ObjectInfo) -> ObjectInfo:
    try:
        return msgspec.structs.replace(info, size=objects.stat(context.store, info.digest).size)
    except NotFound:
        raise NotFound(f"the bytes of object {info.digest} are not in this store", object=info.digest) from None


# Secrets --------------------------------------------------------------------------------------------------------------


def _chained(beginning: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield beginning
    yield from pieces


def _without_secrets(context: Context, info: ObjectInfo, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of a binary object; `Conflict` before a byte of a secret is given.

    What a secret could begin in is held back until the bytes after it were searched, too.
    """
    from clew.secrets.stream import OVERLAP

    mask = masker_of(context)
    held = b""
    for piece in pieces:
        end_step()
        held += piece
        # Programs write texts of two bytes a character into binary files, too.
        if counts := mask.mask(held)[1] or mask.mask(held.replace(b"\0", b""))[1]:
            raise _holds_secrets(info.name or info.digest, counts)
        if len(held) > OVERLAP:
            yield held[:-OVERLAP]
            held = held[-OVERLAP:]
    yield held


def _masked_for_store(context: Context, name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces as a project stores them that keeps no secrets: a text is masked, and a binary file must hold none."""
    from clew.secrets.blobs import is_binary, masked_pieces

    counts = Counter[str]()
    iterator = iter(pieces)
    beginning = next(iterator, b"")
    yield from masked_pieces(masker_of(context), _chained(beginning, iterator), counts)
    if counts and is_binary(beginning):
        raise _holds_secrets(name, counts)


def _holds_secrets(name: str, counts: Counter[str]) -> Conflict:
    return Conflict(
        f"{name} is binary and holds secrets ({', '.join(sorted(counts))}), which cannot be masked in it; read it on "
        "the machine where the store is, or without them",
        rules=sorted(counts),
    )
