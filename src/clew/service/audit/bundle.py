"""Bundles: all that proves a log, as JSON lines, and their verification on a machine that has nothing but the file.

    {"bundle": {"format": 1, "position": 4711, "content": false}}
    {"checkpoint": {"number": 1, "size": 3, "note": "...", "signer": "..."}}
    {"leaf": {"number": 0, "session": "...", "statement": "..."}}
    {"session": {"id": "...", "project": "...", "opened_at": 0, "control": false, "parent": null, "upto": 0, "head": 9}}
    {"event": {"session": "...", "seq": 1, ..., "digest": "...", "hash": "..."}}
    {"end": {"lines": 4242}}

In this order. The body of an event is its text (`body`), its hash (`hash`), or, when it was removed, its `seal`. What
the log says about itself is always there as text: calls of operations, and which bodies were pruned. A session that was
opened while the bundle was being made is left out: what it forks may be missing.
"""

import re
from typing import Any

import msgspec

from clew.model import chain
from clew.model.errors import Damaged, InvalidInput, NotFound
from clew.service.audit.bundle_lines import FORMAT
from clew.service.audit.verify_bundle import OWN_RECORDS
from clew.store import Store, audit_records, audit_tree
from clew.store.audit_records import SessionRecord
from clew.store.log.feed import end_position
from clew.store.log.rows import PAGE, EventRow

# A portion ends with the page that takes it over this.
PORTION = 4 * 1024 * 1024
_encode = msgspec.json.Encoder().encode


class _Place(msgspec.Struct, array_like=True):
    """How far the making has come: the stage, the last key and seq in it, and what was the end when it began."""

    stage: int
    key: int
    seq: int
    position: int
    size: int
    lines: int

    def __str__(self) -> str:
        return ".".join(map(str, msgspec.structs.astuple(self)))


def portion(store: Store, after: str, *, content: bool) -> tuple[str, str]:
    """The next portion of the lines, and where to go on; that is empty after the last."""
    place = _place(after) if after else _begin(store)
    out: list[bytes] = []
    if not after:
        out.append(_line("bundle", format=FORMAT, position=place.position, content=content))
    size = 0
    while place.stage < len(_STAGES) and size < PORTION:
        lines, is_last = _STAGES[place.stage](store, place, content)
        out += lines
        size += sum(map(len, lines))
        if is_last:
            place.stage, place.key, place.seq = place.stage + 1, -1, -1
    place.lines += len(out)
    if place.stage < len(_STAGES):
        return b"".join(out).decode(), str(place)
    out.append(_line("end", lines=place.lines + 1))
    return b"".join(out).decode(), ""


def _begin(store: Store) -> _Place:
    last = audit_tree.newest(store)
    return _Place(0, -1, -1, end_position(store), last.size if last else 0, 0)


def _place(after: str) -> _Place:
    if not re.fullmatch(r"(-?[0-9]{1,18}\.){5}[0-9]{1,18}", after):
        raise InvalidInput(f"{after[:60]!r} is no place to go on from; use the `next` of the portion before")
    return _Place(*map(int, after.split(".")))


def _checkpoints(store: Store, place: _Place, content: bool) -> tuple[list[bytes], bool]:
    page = audit_tree.checkpoint_page(store, after=place.key)
    place.key = page[-1].number if page else place.key
    lines = [_line("checkpoint", **msgspec.structs.asdict(signed)) for signed in page if signed.size <= place.size]
    return lines, len(page) < PAGE


def _leaves(store: Store, place: _Place, content: bool) -> tuple[list[bytes], bool]:
    page = audit_tree.leaf_page(store, after=place.key, size=place.size)
    place.key = page[-1].number if page else place.key
    lines = [_line("leaf", number=leaf.number, session=leaf.session, statement=leaf.statement) for leaf in page]
    return lines, len(page) < PAGE


def _sessions(store: Store, place: _Place, content: bool) -> tuple[list[bytes], bool]:
    records = audit_records.session_records(store, after=place.key)
    place.key = records[-1].key if records else place.key
    lines = [
        _line(
            "session", id=record.id, project=record.project, opened_at=record.opened_at, control=bool(record.control),
            parent=record.parent, upto=record.upto, head=record.head,
        )
        for record in records
        if _is_in(store, place, record)
    ]  # fmt: skip
    return lines, len(records) < PAGE


def _events(store: Store, place: _Place, content: bool) -> tuple[list[bytes], bool]:
    """A page of events of the session at hand, or else of the next one."""
    is_new = place.seq < 0
    records = audit_records.session_records(store, after=place.key if is_new else place.key - 1, limit=1)
    if not records:
        return [], True
    [record] = records
    if is_new and not _is_in(store, place, record):
        place.key = record.key
        return [], False
    rows = audit_records.event_rows(store, record, after=place.seq)
    place.key, place.seq = record.key, rows[-1].seq if len(rows) == PAGE else -1
    return [_event(store, record.id, row, content=content) for row in rows], False


_STAGES = (_checkpoints, _leaves, _sessions, _events)


def _is_in(store: Store, place: _Place, record: SessionRecord) -> bool:
    """Whether a session was there when the making began."""
    first = audit_records.first_position(store, record)
    return first is None or first <= place.position


def _event(store: Store, session: str, row: EventRow, *, content: bool) -> bytes:
    fields: dict[str, Any] = {
        "session": session, "seq": row.seq, "position": row.position, "kind": row.kind, "version": row.version,
        "at": row.at, "said_at": row.said_at, "actor": row.actor, "source": row.source,
        "digest": bytes(row.digest).hex(),
    }  # fmt: skip
    body = row.body
    if body is None and row.blob is not None:
        try:
            body = audit_records.body_in_blob(store, row.blob)
        except (NotFound, Damaged, UnicodeDecodeError) as error:
            fields["lost"] = str(error)
    if body is None:
        fields["seal"] = bytes(row.seal or b"").hex()
    elif content or row.kind in OWN_RECORDS:
        fields["body"] = body
    else:
        fields["hash"] = chain.body_hash(body.encode()).hex()
    return _line("event", **fields)


def _line(what: str, **fields: Any) -> bytes:
    return _encode({what: fields}) + b"\n"
