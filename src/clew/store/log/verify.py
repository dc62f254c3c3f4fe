"""Verification: recompute the chain of a session from what is stored and say where it breaks.

A removed body is accepted only when the log itself says that it was removed: an event `bodies_pruned` names its seq, or
`session_erased` ends the session. An emptied row without such a record is reported like any other change. Nothing that
is stored is trusted, not even to have the right type or to come back at all: what of a session cannot be read is
reported as its problem, and the other sessions are still checked.
"""

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from clew.model import chain, codec
from clew.model.chain_check import ChainCheck, ChainedEvent
from clew.model.errors import ClewError, Damaged, InvalidInput, NotFound, Unavailable
from clew.model.events import (
    KINDS,
    AnyBody,
    LeaseReleased,
    LeaseTaken,
    Opaque,
    PrivacySet,
    SessionErased,
    SessionForked,
    SessionOpened,
    SessionTitled,
    TitleGiven,
)
from clew.model.session import SPENDING, Head, Session, State, apply
from clew.store.database.contract import Row, Transaction
from clew.store.log.problems import Problem, Verified
from clew.store.log.rows import EVERYTHING, PAGE, EventRow, session_from
from clew.store.log.sessions import keys_of
from clew.store.objects import objects
from clew.store.store import Store

WHAT_HELPS = (
    "keep a copy of the database as it is (of SQLite the file and the -wal beside it), restore a backup elsewhere, and "
    "export what is newer than that and can still be read"
)
STRAYS = 20
# What a row that is damaged, or is not there, ends in. A database that cannot be reached is not damaged.
UNREAD = (Damaged, NotFound, InvalidInput)
# What odd bytes make of reading an object.
ODD = (ClewError, OSError, TypeError, ValueError, OverflowError, MemoryError)


def verify(store: Store, session: Session) -> Verified:
    """Check every event this session wrote itself, from where it starts to its head."""
    with store.database.read() as tx:
        return _Check(store, tx, session).run()


def verify_all(store: Store) -> Iterator[Verified]:
    """Check every session of the store, control logs included, oldest first.

    What is wrong with the list of them comes last, as problems of no session.
    """
    listing = _Listing(store)
    for key in listing:
        yield _verify_key(store, key)
    if problems := [*listing.problems, *_strays(store)]:
        yield Verified(session="", events=0, removed=0, digest="", problems=problems)


class _Listing:
    """The keys of all sessions, as far as they can be read; what cannot be is stepped over."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.problems: list[Problem] = []

    def __iter__(self) -> Iterator[int]:
        after, limit, skipped = 0, PAGE, 0
        while skipped < PAGE:
            try:
                keys = self._page(after, limit)
            except Damaged as error:
                self._note(error)
                # One at a time up to what is damaged, then over it: keys are given out one by one.
                after, skipped, limit = (after, skipped, 1) if limit > 1 else (after + 1, skipped + 1, 1)
                continue
            yield from keys
            # Damaged keys need not ascend: following them might never end.
            if len(keys) < limit or not after < max(keys) < EVERYTHING:
                return
            after, skipped, limit = max(keys), 0, PAGE

    def _page(self, after: int, limit: int) -> list[int]:
        with self._store.database.read() as tx:
            return [row[0] for row in tx.run("session_keys", after=after, limit=limit)]

    def _note(self, error: Damaged) -> None:
        if not self.problems:
            what = f"the list of sessions is damaged ({_why(error)}), and those it lost were not checked; {WHAT_HELPS}"
            self.problems.append(Problem(session="", seq=0, what=what))


def _verify_key(store: Store, key: int) -> Verified:
    try:
        with store.database.read() as tx:
            rows = tx.run("session_by_key", key=key)
        if rows and _is_found(store, rows[0][0], key):
            return verify(store, session_from(rows[0]))
        if rows:
            what = "the index of ids is damaged: it cannot be found by its id"
        else:
            what = "its row, or that of its project, is gone"
    except Damaged as error:
        what = f"its row, its id in the index, or that of its project or parent, cannot be read ({_why(error)})"
    name = _name(store, key)
    return Verified(session=name, events=0, removed=0, digest="", problems=[Problem(session=name, seq=0, what=what)])


def _is_found(store: Store, id: object, key: int) -> bool:
    """Whether a session can be looked up by its id, alone and among its neighbours."""
    with store.database.read() as tx:
        tx.run("session_by_prefix", prefix=id, beyond=f"{id}~")
    return keys_of(store.database, [str(id)]) == {id: key}


def _name(store: Store, key: int) -> str:
    """The id of a session of which not everything can be read, or its key when not even that can be."""
    try:
        with store.database.read() as tx:
            rows = tx.run("standings", after=key - 1, limit=1)
    except Damaged:
        rows = []
    return rows[0][1] if rows and rows[0][0] == key and isinstance(rows[0][1], str) else f"(key {key})"


def _strays(store: Store) -> list[Problem]:
    """The events of sessions that are not there."""
    try:
        with store.database.read() as tx:
            rows = tx.run("strays", limit=STRAYS)
    except Damaged as error:
        what = f"the index of all events is damaged ({_why(error)}); {WHAT_HELPS}"
        return [Problem(session="", seq=0, what=what)]
    return [
        Problem(session="", seq=0, what=f"there are events, from {seq} on, of a session (key {key}) that is gone")
        for _, key, seq in rows
    ]


def _why(error: ClewError) -> str:
    """What the database said, without advice that is meant for others."""
    return str(error.__cause__ or error)


class _Check:
    """One pass over one session: its chain, and its rows against what its events say."""

    def __init__(self, store: Store, tx: Transaction, session: Session) -> None:
        self._store = store
        self._tx = tx
        self._session = session
        id: object = session.id
        self._name = id if isinstance(id, str) else f"(key {session.key})"
        self._problems: list[Problem] = []
        self._chain: ChainCheck | None = None
        self._opener: str | None = None
        self._replay: _Replay | None = _Replay(session)

    def run(self) -> Verified:
        session = self._session
        if not _is_as_declared(session):
            self._report(0, "a value of its row has a wrong type: it was changed or damaged")
            return self._verified(0)
        check = ChainCheck(session.id, upto=session.upto, previous=self._start(), report=self._report)
        self._chain = check
        before = self._stands()
        self._follow(check)
        self._end(check, before)
        self._compare()
        check.finish()
        return self._verified(check.seq - session.upto)

    def _follow(self, check: ChainCheck) -> None:
        """Check event after event."""
        while True:
            rows = self._page(check)
            for row in rows:
                if not isinstance(row[0], int) or not check.seq < row[0] < EVERYTHING:
                    self._break(check, f"the index of its events is damaged: after {check.seq} comes {row[0]!r}")
                    return
                if row[0] != check.seq + 1:
                    self._replay = None
                self._event(check, row)
            if len(rows) < PAGE:
                return  # Not looked for beyond: what lies there in the index is another session's, and its damage.

    def _verified(self, events: int) -> Verified:
        return Verified(
            session=self._name,
            events=events,
            removed=self._chain.removed if self._chain else 0,
            digest=self._chain.previous.hex() if self._chain and self._chain.previous else "",
            problems=sorted(self._problems, key=lambda problem: problem.seq),
        )

    def _page(self, check: ChainCheck) -> list[Row]:
        """The next rows; a row that cannot even be read is reported and stands in the page as its seq alone."""
        after = check.seq
        with suppress(Damaged):
            return self._rows(after + 1, EVERYTHING, PAGE)
        try:
            seqs = [row[0] for row in self._seqs(after + 1)]
        except Damaged as error:
            self._break(check, f"from here on it cannot be read ({_why(error)})")
            return []
        rows: list[Row] = []
        for seq in seqs:
            try:
                rows += self._rows(seq, seq, 1)
            except Damaged as error:
                self._report(seq, f"it cannot be read ({_why(error)})")
                rows.append((seq,))
        return rows

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
        try:
            parent = self._store.session(self._session.parent)
            rows = self._tx.run("event_digest", project=parent.project_key, session=parent.key, seq=self._session.upto)
        except UNREAD as error:
            self._report(self._session.upto, f"its parent {self._session.parent} cannot be read ({_why(error)})")
            return None
        if not rows or not isinstance(rows[0][0], _BYTES):
            self._report(self._session.upto, f"the event it was forked at is missing from its parent {parent.id}")
            return None
        return bytes(rows[0][0])

    def _event(self, check: ChainCheck, values: Row) -> None:
        if not _well_typed(values):
            if len(values) > 1:
                self._report(values[0], "a value of it has a wrong type: it was changed or damaged")
            check.skip(values[0])
            self._replay = None
            return
        row = EventRow(*values)
        if sum(value is not None for value in (row.body, row.blob, row.seal)) > 1:
            self._report(row.seq, "it has more than one of a body, a blob and a seal")
        if row.seq == self._session.upto + 1 and row.kind != "erased":
            self._opener = row.actor
        body, lost = row.body, ""
        if body is None and row.blob is not None:
            body, lost = self._from_blob(bytes(row.blob))
        check.add(
            ChainedEvent(
                row.seq, row.kind, row.version, row.at, row.said_at, row.actor, row.source, bytes(row.digest),
                body=body, seal=bytes(row.seal or b""), lost=lost,
            )
        )  # fmt: skip
        if self._replay is not None and not self._replay.add(row.kind, row.version, body):
            self._replay = None  # What cannot be read was reported above.

    def _compare(self) -> None:
        """The rows of a session against what its events say."""
        if self._replay is None or self._problems:
            return
        head = self._store.head(self._session)
        parent = self._store.session(self._session.parent) if self._session.parent else None
        for what, stored, expected in self._replay.expectations(self._session, head, parent):
            if stored != expected:
                self._report(head.head, f"its {what} is {stored!r}, but its events say {expected!r}")
        if self._opener is not None and self._session.owner != self._opener:
            self._report(head.head, f"its owner is {self._session.owner!r}, but {self._opener!r} opened it")

    def _from_blob(self, digest: bytes) -> tuple[str | None, str]:
        """The text of a body in a blob, or why it cannot be read."""
        try:
            return objects.load(self._store, digest.hex()).decode(), ""
        except Unavailable:
            raise  # That its place does not answer says nothing about the body.
        except ODD as error:
            return None, str(error) if isinstance(error, ClewError) else f"its blob cannot be read: {error!r}"

    def _end(self, check: ChainCheck, before: Head | None) -> None:
        """Compare where the session stood before its events were read, or stands now, with the last of them."""
        if before is None:
            return
        seq = check.seq
        # Events appended while the check ran are simply not part of it.
        head = before if before.head >= seq else self._stands()
        if head is None:
            return
        if head.head < seq:
            self._report(seq, f"the head says {head.head}, but there are events beyond it")
        elif before.head > seq and not self._is_reported(seq + 1):
            self._report(head.head, f"the head says {head.head}, but the last event stored is {seq}")
        elif head.head == seq and check.previous is not None and head.digest != check.previous:
            self._report(seq, "the head's digest is not that of the last event")

    def _stands(self) -> Head | None:
        try:
            head = self._store.head(self._session)
        except UNREAD as error:
            self._report(self._session.upto, f"where it stands cannot be read ({_why(error)})")
            return None
        if _is_as_declared(head):
            return head
        self._report(self._session.upto, "a value of its head has a wrong type: it was changed or damaged")
        return None

    def _is_reported(self, seq: int) -> bool:
        return any(problem.seq == seq for problem in self._problems)

    def _break(self, check: ChainCheck, what: str) -> None:
        self._report(check.seq + 1, what)
        check.previous = self._replay = None

    def _report(self, seq: int, what: str) -> None:
        self._problems.append(Problem(session=self._name, seq=seq, what=what))


class _Replay:
    """What the events of a session say about its rows: who it is, its state, its epoch and what it spent."""

    def __init__(self, session: Session) -> None:
        self._first: SessionOpened | SessionForked | None = None
        self._title = ""
        self._has_given_title = False
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
        # Leases and usage of an erased session are gone with the bodies that recorded them.
        self._epoch_known = self._epoch_known and kind != "erased"
        self._spent_known = self._spent_known and not (text is None and kind in _SPENDING)
        try:
            body = _EMPTY if text is None else codec.decode(kind, version, text)
            self._follow(body)
            self._head = apply(self._head, body, "")
        except (msgspec.DecodeError, ClewError, LookupError):
            self._head = None  # LookupError: a version that there never was.
        return self._head is not None

    def _follow(self, body: AnyBody) -> None:
        """Take over what a body says about the rows of its session."""
        match body:
            case SessionOpened() | SessionForked():
                self._first, self._title, self._private = body, body.title, body.private
            case PrivacySet():
                self._private = body.private
            case TitleGiven():
                self._title, self._has_given_title = body.title, True
            case SessionTitled() if not self._has_given_title:
                self._title = body.title
            case LeaseTaken():
                self._epoch = body.epoch
            case LeaseReleased() | SessionErased():
                self._epoch += 1

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
            yield "project", session.opened_in, self._first.project
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


def _is_as_declared(value: Session | Head) -> bool:
    try:
        msgspec.convert(msgspec.structs.asdict(value), type(value))
    except msgspec.ValidationError:
        return False
    return not isinstance(value, Session) or 0 <= value.upto < EVERYTHING


def _well_typed(row: Row) -> bool:
    return len(row) == len(_TYPES) and all(isinstance(value, types) for value, types in zip(row, _TYPES, strict=True))
