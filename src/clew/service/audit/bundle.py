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
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from clew.model import chain
from clew.model.chain_check import ChainCheck, ChainedEvent
from clew.model.checkpoint import PublicKey
from clew.model.errors import Damaged, InvalidInput, NotFound
from clew.model.events import BodiesPruned, OperationCalled
from clew.service.audit.examination import Audited, Examination
from clew.store import Store, audit_records, audit_tree
from clew.store.audit_records import SessionRecord
from clew.store.log.feed import end_position
from clew.store.log.rows import PAGE, EventRow

FORMAT = 1
# A portion ends with the page that takes it over this.
PORTION = 4 * 1024 * 1024
# Bodies that are about the log itself and hold nothing of a conversation.
OWN_RECORDS = {BodiesPruned.kind, OperationCalled.kind}
_encode = msgspec.json.Encoder().encode


# Making ---------------------------------------------------------------------------------------------------------------


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


# Verifying ------------------------------------------------------------------------------------------------------------


class _Header(msgspec.Struct, frozen=True):
    format: int


class _Checkpoint(msgspec.Struct, frozen=True):
    number: int
    size: int
    note: str
    signer: str


class _Leaf(msgspec.Struct, frozen=True):
    number: int
    session: str
    statement: str


class _Session(msgspec.Struct, frozen=True):
    id: str
    project: str | None
    opened_at: int
    control: bool
    parent: str | None
    upto: int
    head: int | None


class _Event(msgspec.Struct, frozen=True):
    session: str
    seq: int
    position: int
    kind: str
    version: int
    at: int
    said_at: int | None
    actor: str
    source: str | None
    digest: str
    body: str | None = None
    hash: str | None = None
    seal: str | None = None
    lost: str = ""


class _End(msgspec.Struct, frozen=True):
    lines: int


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line: one of these is there."""

    bundle: _Header | None = None
    checkpoint: _Checkpoint | None = None
    leaf: _Leaf | None = None
    session: _Session | None = None
    event: _Event | None = None
    end: _End | None = None


def examine(lines: Iterable[bytes], keys: list[PublicKey], kept: list[str]) -> Audited:
    """Examine a bundle: every chain, every leaf, every checkpoint."""
    return _Reader(keys, kept).run(_parsed(lines))


def _parsed(lines: Iterable[bytes]) -> Iterator[_Line]:
    decode = msgspec.json.Decoder(_Line).decode
    count = 0
    ended = False
    for count, line in enumerate(lines, 1):
        try:
            found = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Damaged(f"line {count} of the bundle cannot be read: {error}", line=count) from error
        if (count == 1) != (found.bundle is not None) or ended:
            raise Damaged(f"line {count} of the bundle is not where it belongs", line=count)
        if found.bundle is not None and found.bundle.format != FORMAT:
            raise InvalidInput(
                f"this bundle has format {found.bundle.format} and this program reads {FORMAT}: upgrade clew"
            )
        if found.end is not None and found.end.lines != count:
            raise Damaged(f"the bundle had {found.end.lines} lines when it was made, and has {count}")
        ended = found.end is not None
        yield found
    if not ended:
        raise Damaged(f"the bundle ends after {count} lines without saying so: the rest of it is missing")


class _Reader:
    """One pass over the lines. Digests are remembered where a leaf or a fork asks for them."""

    def __init__(self, keys: list[PublicKey], kept: list[str]) -> None:
        self._looking = Examination(keys)
        self._kept = kept
        self._stated: list[tuple[int, Any]] = []
        self._digests: dict[tuple[str, int], bytes | None] = {}
        self._sessions: dict[str, _Session] = {}
        self._chain: _Chain | None = None
        self._done: dict[str, _Chain] = {}

    def run(self, lines: Iterator[_Line]) -> Audited:
        looking = self._looking
        has_leaves = False
        for line in lines:
            if line.checkpoint is not None:
                one = line.checkpoint
                looking.checkpoint(one.number, one.size, one.note, one.signer)
                continue
            if not has_leaves and line.bundle is None:
                has_leaves = True
                for note in self._kept:
                    looking.kept_elsewhere(note)
            if line.leaf is not None:
                self._leaf(line.leaf)
            elif line.session is not None:
                self._session(line.session)
            elif line.event is not None:
                self._event(line.event)
        self._close()
        for number, leaf in self._stated:
            looking.stood(number, leaf, self._digests[leaf.session, leaf.seq])
        for session in self._sessions.values():
            self._compare(session)
        notes = looking.finish()
        chains = self._done.values()
        return Audited(
            sessions=len(self._sessions), events=sum(each.check.events for each in chains),
            removed=sum(each.check.removed for each in chains), leaves=looking.leaves, checkpoints=looking.checkpoints,
            kept=looking.kept, beyond=looking.beyond, problems=looking.flaws, notes=notes,
        )  # fmt: skip

    def _leaf(self, one: _Leaf) -> None:
        leaf = self._looking.leaf(one.number, one.session, one.statement)
        if leaf is not None:
            self._stated.append((one.number, leaf))
            self._digests[leaf.session, leaf.seq] = None

    def _session(self, one: _Session) -> None:
        if one.id in self._sessions:
            self._looking.report(f"session {one.id}", "it is in the bundle twice")
        self._sessions[one.id] = one
        if one.parent is not None:
            self._digests.setdefault((one.parent, one.upto), None)

    def _event(self, event: _Event) -> None:
        if self._chain is None or self._chain.session.id != event.session:
            self._close()
            session = self._sessions.get(event.session)
            if session is None or session.id in self._done:
                self._looking.report(f"session {event.session} seq {event.seq}", "its place in the bundle is wrong")
                session = session or _Session(event.session, None, 0, False, None, 0, None)
            previous = chain.GENESIS if session.parent is None else self._digests[session.parent, session.upto]
            covered = max(self._looking.covered(session.id), session.upto)
            self._chain = _Chain(self._looking, session, previous, covered)
        self._chain.add(event)
        if (event.session, event.seq) in self._digests:
            self._digests[event.session, event.seq] = _bytes(event.digest)

    def _close(self) -> None:
        if self._chain is not None:
            self._chain.check.finish()
            self._done[self._chain.session.id] = self._chain
            self._chain = None

    def _compare(self, one: _Session) -> None:
        found = self._done.get(one.id)
        head = found.check.seq if found else one.upto
        if one.head is None or head < one.head:
            self._looking.report(f"session {one.id}", f"its head is {one.head}, and its last event is {head}")
        self._looking.session(
            one.id, project=one.project, opened_at=one.opened_at, control=int(one.control), head=head, own=one.upto,
            position=found.beyond if found else None,
        )  # fmt: skip


class _Chain:
    """The events of one session, checked one after the other."""

    def __init__(self, looking: Examination, session: _Session, previous: bytes | None, covered: int) -> None:
        self.session = session
        self.beyond: int | None = None
        self._covered = covered
        self._looking = looking
        self.check = ChainCheck(session.id, upto=session.upto, previous=previous, report=self._report)
        if previous is None:
            self._report(session.upto, f"the event it was forked at is missing from its parent {session.parent}")

    def add(self, event: _Event) -> None:
        if event.seq > self._covered:
            self.beyond = event.position if self.beyond is None else min(self.beyond, event.position)
        self.check.add(
            ChainedEvent(
                event.seq, event.kind, event.version, event.at, event.said_at, event.actor, event.source,
                _bytes(event.digest), body=event.body,
                body_hash=_bytes(event.hash) if event.body is None and event.hash is not None else None,
                seal=_bytes(event.seal or ""),
                lost=f"its body was lost before the bundle was made: {event.lost}" if event.lost else "",
            )
        )  # fmt: skip

    def _report(self, seq: int, what: str) -> None:
        self._looking.report(f"session {self.session.id} seq {seq}", what)


def _bytes(text: str) -> bytes:
    """Bytes from hexadecimal; none when it is not that, which then fits nothing."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
