"""Verification: recompute the chain of a session from what is stored and say where it breaks.

A removed body is accepted only when the log itself says that it was removed: an event `bodies_pruned` names its seq, or
`session_erased` ends the session. An emptied row without such a record is reported like any other change. Nothing that
is stored is trusted, not even to have the right type.
"""

from collections.abc import Iterator

import msgspec

from clew.model import chain, codec
from clew.model.errors import ClewError, Damaged
from clew.model.events import (
    KINDS,
    BodiesPruned,
    LeaseReleased,
    LeaseTaken,
    Opaque,
    PrivacySet,
    SessionErased,
    SessionForked,
    SessionOpened,
    SessionTitled,
)
from clew.model.session import SPENDING, Head, Session, State, apply
from clew.store import blobs as blob
from clew.store.contract import Row, Transaction
from clew.store.log import EVERYTHING, PAGE, Store, session_from


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    seq: int
    what: str


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked and what does not hold."""

    session: str
    events: int
    removed: int
    digest: str
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(store: Store, session: Session) -> Verified:
    """Check every event this session wrote itself, from where it starts to its head."""
    with store.database.read() as tx:
        return _Check(store, tx, session).run()


def verify_all(store: Store) -> Iterator[Verified]:
    """Check every session of the store, control logs included, oldest first."""
    after = 0
    while True:
        with store.database.read() as tx:
            keys = [row[0] for row in tx.run("session_keys", after=after, limit=PAGE)]
            sessions = [session_from(tx.run("session_by_key", key=key)[0]) for key in keys]
        for session in sessions:
            yield verify(store, session)
        if len(keys) < PAGE:
            return
        after = keys[-1]


class _Check:
    """One pass over one session. `_previous` is None after a break: the next link cannot be judged then."""

    def __init__(self, store: Store, tx: Transaction, session: Session) -> None:
        self._store = store
        self._tx = tx
        self._session = session
        self._previous: bytes | None = None
        self._problems: list[Problem] = []
        self._emptied: dict[str, list[int]] = {"pruned": [], "erased": []}
        self._removals: dict[str, list[tuple[int, int]]] = {"pruned": [], "erased": []}
        self._opener: str | None = None
        self._replay: _Replay | None = _Replay(session)

    def run(self) -> Verified:
        session = self._session
        self._previous = self._start()
        seq = session.upto
        while rows := self._page(seq):
            for row in rows:
                if row[0] != seq + 1:
                    self._break(seq + 1, f"missing: the next event stored is {row[0]}")
                seq = row[0]
                self._event(row)
        self._end(seq)
        self._compare()
        for how, seqs in self._emptied.items():
            for empty in seqs:
                if not any(first <= empty <= last for first, last in self._removals[how]):
                    self._report(empty, f"its body is gone ({how}) and no event of the session records that")
        return Verified(
            session=session.id,
            events=seq - session.upto,
            removed=sum(map(len, self._emptied.values())),
            digest=self._previous.hex() if self._previous else "",
            problems=sorted(self._problems, key=lambda problem: problem.seq),
        )

    def _page(self, after: int) -> list[Row]:
        """The next rows; a row that cannot even be read is reported and stands in the page as its seq alone."""
        try:
            return self._rows(after + 1, EVERYTHING, PAGE)
        except Damaged:
            seqs = [row[0] for row in self._seqs(after + 1)]
        found: list[Row] = []
        for seq in seqs:
            try:
                found += self._rows(seq, seq, 1)
            except Damaged as error:
                self._report(seq, str(error))
                found.append((seq,))
        return found

    def _rows(self, first: int, last: int, limit: int) -> list[Row]:
        session = self._session
        return self._tx.run(
            "events", project=session.project_key, session=session.key, first=first, last=last, limit=limit
        )

    def _seqs(self, first: int) -> list[Row]:
        session = self._session
        return self._tx.run("event_seqs", project=session.project_key, session=session.key, first=first, limit=PAGE)

    def _start(self) -> bytes | None:
        """The digest the first event continues: the parent's, or none."""
        if self._session.parent is None:
            return chain.GENESIS
        parent = self._store.session(self._session.parent)
        rows = self._tx.run("event_digest", project=parent.project_key, session=parent.key, seq=self._session.upto)
        if not rows:
            self._report(self._session.upto, f"the event it was forked at is missing from its parent {parent.id}")
            return None
        return bytes(rows[0][0])

    def _event(self, row: Row) -> None:
        if not _well_typed(row):
            if len(row) > 1:
                self._report(row[0], "a value of it has a wrong type: it was changed or damaged")
            self._previous = self._replay = None
            return
        seq, _, at, said_at, actor, source, digest, kind, version, body, blob_digest, seal = row
        header = chain.header_hash(self._session.id, seq, kind, version, at, said_at, actor, source)
        if sum(value is not None for value in (body, blob_digest, seal)) > 1:
            self._report(seq, "it has more than one of a body, a blob and a seal")
        if kind == "erased" and (actor, source, said_at) != ("", None, None):
            self._report(seq, "it was erased, and yet it says who, from where or when")
        if seq == self._session.upto + 1 and kind != "erased":
            self._opener = actor
        if body is not None:
            hashed = chain.body_hash(body.encode())
            self._removal(seq, kind, body)
        elif blob_digest is not None:
            body, hashed = self._from_blob(seq, bytes(blob_digest))
        else:
            header, hashed = self._sealed(seq, header, bytes(seal or b""), erased=kind == "erased")
        if self._previous is not None and chain.link(self._previous, header, hashed) != bytes(digest):
            self._report(seq, "its digest does not follow from its content and the event before it: it was changed")
        self._previous = bytes(digest)
        if self._replay is not None and not self._replay.add(kind, version, body):
            self._replay = None  # What cannot be read was reported above, or is a body in a blob.

    def _compare(self) -> None:
        """The rows of a session against what its events say."""
        if self._replay is None or self._problems:
            return
        head = self._store.head(self._session)
        parent = self._store.session(self._session.parent) if self._session.parent else None
        for what, found, expected in self._replay.expectations(self._session, head, parent):
            if found != expected:
                self._report(head.head, f"its {what} is {found!r}, but its events say {expected!r}")
        if self._opener is not None and self._session.owner != self._opener:
            self._report(head.head, f"its owner is {self._session.owner!r}, but {self._opener!r} opened it")

    def _removal(self, seq: int, kind: str, body: str) -> None:
        if kind == BodiesPruned.kind:
            try:
                self._removals["pruned"] += msgspec.json.decode(body, type=BodiesPruned).ranges
            except msgspec.DecodeError as error:
                self._report(seq, f"the record of a removal cannot be read: {error}")
        elif kind == SessionErased.kind:
            self._removals["erased"].append((1, seq - 1))

    def _sealed(self, seq: int, header: bytes, seal: bytes, *, erased: bool) -> tuple[bytes, bytes]:
        self._emptied["erased" if erased else "pruned"].append(seq)
        if len(seal) != 64:
            self._report(seq, "its body is gone without a seal")
            return header, b""
        if not erased and seal[:32] != header:
            self._report(seq, "its header was changed after its body was pruned")
        return seal[:32], seal[32:]

    def _from_blob(self, seq: int, digest: bytes) -> tuple[str | None, bytes]:
        """The text of a body in a blob, and its hash."""
        rows = self._tx.run("blob_read", digest=digest)
        try:
            data = blob.unpack(digest, self._store.blobs.fetch(digest, rows[0] if rows else None))
            return data.decode(), chain.body_hash(data)
        except (ClewError, UnicodeDecodeError) as error:
            self._report(seq, str(error))
            return None, b""

    def _end(self, seq: int) -> None:
        head = self._store.head(self._session)
        # Events appended while the check ran are simply not part of it.
        if head.head < seq:
            self._report(seq, f"the head says {head.head}, but there are events beyond it")
        elif head.head > seq and not self._seqs(seq + 1):
            self._report(head.head, f"the head says {head.head}, but the last event stored is {seq}")
        elif head.head == seq and self._previous is not None and head.digest != self._previous:
            self._report(seq, "the head's digest is not that of the last event")

    def _break(self, seq: int, what: str) -> None:
        self._report(seq, what)
        self._previous = self._replay = None

    def _report(self, seq: int, what: str) -> None:
        self._problems.append(Problem(session=self._session.id, seq=seq, what=what))


class _Replay:
    """What the events of a session say about its rows: who it is, its state, its epoch and what it spent."""

    def __init__(self, session: Session) -> None:
        self._first: SessionOpened | SessionForked | None = None
        self._title = ""
        self._private = False
        self._head: Head | None = Head(state=State.OPENED, head=session.upto, digest=b"")
        self._epoch = 0
        self._epoch_known = True
        self._spent_known = True

    def add(self, kind: str, version: int, text: str | None) -> bool:
        """Take the next event; False when nothing can be said any more."""
        if self._head is None:
            return False
        known = KINDS.get(kind)
        if text is None and kind != "erased" and known is not None and known.step != "work":
            return False
        # Leases and usage of an erased session are gone with the bodies that told of them.
        self._epoch_known = self._epoch_known and kind != "erased"
        self._spent_known = self._spent_known and not (text is None and kind in _SPENDING)
        try:
            body = _EMPTY if text is None else codec.decode(kind, version, text)
            if isinstance(body, SessionOpened | SessionForked):
                self._first, self._title, self._private = body, body.title, body.private
            if isinstance(body, PrivacySet):
                self._private = body.private
            if isinstance(body, SessionTitled):
                self._title = body.title
            if isinstance(body, LeaseTaken):
                self._epoch = body.epoch
            elif isinstance(body, LeaseReleased | SessionErased):
                self._epoch += 1
            self._head = apply(self._head, body, "")
        except (msgspec.DecodeError, ClewError, LookupError):
            self._head = None  # LookupError: a version that there never was.
        return self._head is not None

    def expectations(
        self, session: Session, head: Head, parent: Session | None
    ) -> Iterator[tuple[str, object, object]]:
        """What each row holds, and what it should."""
        if self._head is None:
            return
        yield "state", head.state, str(self._head.state)
        if self._epoch_known:
            yield "epoch", head.epoch, self._epoch
        if self._spent_known:
            yield "count of tokens", head.spent_tokens, self._head.spent_tokens
            yield "cost", head.spent_cost_micros, self._head.spent_cost_micros
        if self._first is not None:
            yield "privacy", session.private, self._private
        if isinstance(self._first, SessionOpened):
            yield "title", session.title, self._title
            yield "budget", head.budget, self._head.budget
            yield "agent", session.agent, self._first.agent
            yield "metadata", session.metadata, bytes(self._first.metadata).decode()
            yield "project", session.project, self._first.project
        elif isinstance(self._first, SessionForked):
            yield "title", session.title, self._title
            if parent is not None and parent.agent:
                # A fork that was captured has metadata of its own, which no event tells.
                yield "agent", session.agent, parent.agent


_SPENDING = {"erased", *(body.kind for body in SPENDING)}
_EMPTY = Opaque(kind="clew.removed", raw="{}")
_BYTES = (bytes, memoryview)
_TYPES: tuple[tuple[type, ...], ...] = (
    (int,), (int,), (int,), (int, type(None)), (str,), (str, type(None)), _BYTES, (str,), (int,), (str, type(None)),
    (*_BYTES, type(None)), (*_BYTES, type(None)),
)  # fmt: skip


def _well_typed(row: Row) -> bool:
    return len(row) == len(_TYPES) and all(isinstance(value, types) for value, types in zip(row, _TYPES, strict=True))
