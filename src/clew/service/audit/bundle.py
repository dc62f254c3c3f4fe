"""Write a bundle: JSON lines with everything that proves a log, so that another machine can verify it from the file.

    {"bundle": {"format": 1, "position": 4711, "content": false}}
    {"checkpoint": {"number": 1, "size": 3, "note": "...", "signer": "..."}}
    {"leaf": {"number": 0, "session": "...", "statement": "..."}}
    {"session": {"id": "...", "project": "...", "opened_at": 0, "control": false, "parent": null, "upto": 0, "head": 9}}
    {"event": {"session": "...", "seq": 1, ..., "digest": "...", "hash": "..."}}
    {"end": {"lines": 4242}}

The lines have this order. The body of an event is its text (`body`), its hash (`hash`), or, when it was removed, its
`seal`. Events about the log itself always have their text: calls of operations, and which bodies were pruned. A session
that was opened during the export is left out, because the session that it forks may be missing.
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

# A portion ends with the page that exceeds this size.
PORTION = 4 * 1024 * 1024
_encode = msgspec.json.Encoder().encode


class _Cursor(msgspec.Struct, array_like=True):
    """The progress of an export: the stage, the last key and seq in it, and the log's end when it started."""

    stage: int
    key: int
    seq: int
    position: int
    size: int
    lines: int

    def __str__(self) -> str:
        return ".".join(map(str, msgspec.structs.astuple(self)))


def portion(store: Store, after: str, *, content: bool) -> tuple[str, str]:
    """The next portion of the lines, and the cursor after it; the cursor is empty after the last."""
    cursor = _cursor(after) if after else _begin(store)
    out: list[bytes] = []
    if not after:
        out.append(_line("bundle", format=FORMAT, position=cursor.position, content=content))
    size = 0
    while cursor.stage < len(_STAGES) and size < PORTION:
        lines, is_last = _STAGES[cursor.stage](store, cursor, content)
        out += lines
        size += sum(map(len, lines))
        if is_last:
            cursor.stage, cursor.key, cursor.seq = cursor.stage + 1, -1, -1
    cursor.lines += len(out)
    if cursor.stage < len(_STAGES):
        return b"".join(out).decode(), str(cursor)
    out.append(_line("end", lines=cursor.lines + 1))
    return b"".join(out).decode(), ""


def _begin(store: Store) -> _Cursor:
    last = audit_tree.newest(store)
    return _Cursor(0, -1, -1, end_position(store), last.size if last else 0, 0)


def _cursor(after: str) -> _Cursor:
    if not re.fullmatch(r"(-?[0-9]{1,18}\.){5}[0-9]{1,18}", after):
        raise InvalidInput(f"{after[:60]!r} is not a valid cursor; use the `next` of the portion before")
    return _Cursor(*map(int, after.split(".")))


def _checkpoints(store: Store, cursor: _Cursor, content: bool) -> tuple[list[bytes], bool]:
    page = audit_tree.checkpoint_page(store, after=cursor.key)
    cursor.key = page[-1].number if page else cursor.key
    lines = [_line("checkpoint", **msgspec.structs.asdict(signed)) for signed in page if signed.size <= cursor.size]
    return lines, len(page) < PAGE


def _leaves(store: Store, cursor: _Cursor, content: bool) -> tuple[list[bytes], bool]:
    page = audit_tree.leaf_page(store, after=cursor.key, size=cursor.size)
    cursor.key = page[-1].number if page else cursor.key
    lines = [_line("leaf", number=leaf.number, session=leaf.session, statement=leaf.statement) for leaf in page]
    return lines, len(page) < PAGE


def _sessions(store: Store, cursor: _Cursor, content: bool) -> tuple[list[bytes], bool]:
    records = audit_records.session_records(store, after=cursor.key)
    cursor.key = records[-1].key if records else cursor.key
    lines = [
        _line(
            "session", id=record.id, project=record.project, opened_at=record.opened_at, control=bool(record.control),
            parent=record.parent, upto=record.upto, head=record.head,
        )
        for record in records
        if _existed(store, cursor, record)
    ]  # fmt: skip
    return lines, len(records) < PAGE


def _events(store: Store, cursor: _Cursor, content: bool) -> tuple[list[bytes], bool]:
    """A page of events of the current session; after its last page, of the next session."""
    is_new = cursor.seq < 0
    records = audit_records.session_records(store, after=cursor.key if is_new else cursor.key - 1, limit=1)
    if not records:
        return [], True
    [record] = records
    if is_new and not _existed(store, cursor, record):
        cursor.key = record.key
        return [], False
    rows = audit_records.event_rows(store, record, after=cursor.seq)
    cursor.key, cursor.seq = record.key, rows[-1].seq if len(rows) == PAGE else -1
    return [_event(store, record.id, row, content=content) for row in rows], False


_STAGES = (_checkpoints, _leaves, _sessions, _events)


def _existed(store: Store, cursor: _Cursor, record: SessionRecord) -> bool:
    """Whether a session existed when the export started."""
    first = audit_records.first_position(store, record)
    return first is None or first <= cursor.position


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


def _line(type: str, **fields: Any) -> bytes:
    return _encode({type: fields}) + b"\n"
