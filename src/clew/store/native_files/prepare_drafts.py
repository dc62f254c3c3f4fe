"""Prepare the drafts of a native file for the log, which may have to store a record in another form."""

import msgspec

from clew.model.errors import ClewError, InvalidInput, NotFound, TooLarge
from clew.model.events import Draft, Opaque, SessionTitled
from clew.model.source import REVISION
from clew.store.database.contract import Row
from clew.store.log.prepare import LARGEST_INTEGER, Prepared, prepare
from clew.store.native_files.native_file import LONGEST_SOURCE, short_source
from clew.store.store import Store


def prepare_draft(draft: Draft, store: Store) -> Prepared:
    """Prepare a draft. One that the log cannot take is replaced by an opaque event that states the reason."""
    if isinstance(draft.body, SessionTitled) and "\0" in draft.body.title:
        # The title is also a column, and PostgreSQL has no NUL in a text.
        draft = msgspec.structs.replace(draft, body=SessionTitled(title=draft.body.title.replace("\0", "\ufffd")))
    if draft.source is not None and len(draft.source) > LONGEST_SOURCE:
        draft = msgspec.structs.replace(draft, source=short_source(draft.source))
    try:
        return prepare(draft, store.pack_stores)
    except TooLarge as error:
        return _rejected(draft, "clew.too_large", error, store)
    except (InvalidInput, NotFound):
        draft = msgspec.structs.replace(draft, source=short_source(draft.source), said_at=_time_or_none(draft.said_at))
    try:
        return prepare(draft, store.pack_stores)
    except (InvalidInput, NotFound) as error:
        return _rejected(draft, "clew.unreadable", error, store)


def mark_revisions(drafts: list[Prepared], stored: dict[str, Row]) -> list[Prepared]:
    """Give a draft a source of its own if its source is taken by another body: the program wrote the record again.

    `stored` are the events of the session by their sources.
    """
    if not stored and len({draft.source for draft in drafts}) == len(drafts):
        return drafts
    first_with_source: dict[str, Prepared] = {}
    marked = []
    for draft in drafts:
        if draft.source is not None:
            first = first_with_source.setdefault(draft.source, draft)
            event = stored.get(draft.source)
            differs_from_first = (draft.hash, draft.body.kind) != (first.hash, first.body.kind)
            if differs_from_first or (event is not None and not _became(draft, event)):
                source = f"{draft.source}{REVISION}{draft.hash.hex()[:12]}"
                draft = msgspec.structs.replace(draft, source=source)
        marked.append(draft)
    return marked


def _became(draft: Prepared, event: Row) -> bool:
    """Whether this stored event was made of the same body as the draft."""
    _, kind, body, digest, seal = event
    if kind != draft.body.kind:
        return False
    if digest is not None:
        return draft.blob == bytes(digest)
    return draft.hash == bytes(seal[32:]) if seal is not None else draft.text == body


def _rejected(draft: Draft, kind: str, error: ClewError, store: Store) -> Prepared:
    """The opaque event in place of a draft that the log refused."""
    raw = msgspec.json.encode({"why": str(error), "kind": draft.body.kind, **error.details}).decode()
    return prepare(Draft(body=Opaque(kind=kind, raw=raw), source=short_source(draft.source)), store.pack_stores)


def _time_or_none(said_at: int | None) -> int | None:
    return said_at if said_at is not None and abs(said_at) <= LARGEST_INTEGER else None
