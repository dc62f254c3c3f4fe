"""What a transaction will write for one session, worked out in memory against the model's rules."""

from collections.abc import Callable, Sequence

import msgspec

from clew.model import chain, codec
from clew.model.errors import (
    BudgetExceeded,
    ClewError,
    Conflict,
    LeaseHeld,
    LeaseLost,
    NotFound,
    SourceReused,
    StaleHead,
)
from clew.model.events import (
    Body,
    BudgetWasExceeded,
    Opaque,
    PrivacySet,
    SessionPaused,
    SessionTitled,
    TitleGiven,
)
from clew.model.labels import LABEL
from clew.model.session import Head, Session, apply, with_unmetered
from clew.store.database.contract import Row
from clew.store.log.prepare import Prepared

# What is a column of the session as well. A tuple: to make a union each time takes longer than to look into it.
_COLUMNS = (SessionTitled, TitleGiven, PrivacySet)


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the drafts: the seq of each, which of them were there already, and the head now."""

    seqs: list[int]
    deduplicated: list[int]
    head: int
    exceeded: bool = False


class Receipt(msgspec.Struct, frozen=True):
    """What is kept under a caller's Idempotency-Key, in the commit of the events: the request and its answer.

    A crash leaves both or neither, so that the same request again is either answered from here or carried out.
    """

    principal: str
    key: str
    request: bytes
    """The digest of the request."""
    answer: Callable[[Appended], tuple[int, bytes]]
    """The status and the body of the answer."""


class AlreadyAnswered(Conflict):
    """A request with this key was carried out before, or still is; nothing was written."""


class Request:
    """One caller's append."""

    __slots__ = (
        "actor", "drafts", "error", "expect", "lease", "receipt", "result", "session", "spent", "unmetered", "unseen",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        drafts: Sequence[Prepared],
        actor: str,
        expect: int | None = None,
        lease: int | None = None,
    ) -> None:
        self.session = session
        self.drafts = drafts
        self.actor = actor
        self.expect = expect
        self.lease = lease
        # Sources that were made for this request: not worth looking up until it has been tried once.
        self.unseen: frozenset[str | None] = frozenset()
        # What list prices say that the session used and that no program reported, in millionths of a US dollar.
        self.unmetered = 0
        self.receipt: Receipt | None = None
        self.result: Appended | None = None
        self.error: BaseException | None = None
        # The head that exceeded the budget, if one did.
        self.spent: Head | None = None

    def needs_reading(self) -> bool:
        """Whether a draft's source may be in the session already, or more than events has to be written."""
        for draft in self.drafts:
            if (draft.source and draft.source not in self.unseen) or draft.blob is not None or draft.names:
                return True
            if isinstance(draft.body, _COLUMNS):
                return True
        return False

    def outcome(self) -> Appended:
        """What became of the drafts, or the error that the request ended with."""
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise AssertionError("an append request was neither carried out nor refused")
        if self.result.exceeded and self.spent is not None:
            raise _budget_exceeded(self.session, self.result, self.spent)
        return self.result


class Plan:
    """What a transaction will write for one session: its head in memory, moved on event by event."""

    __slots__ = (
        "_known", "active_at", "at", "blobs", "digest", "fenced", "given_title", "head", "lease", "now", "private",
        "rows", "seq", "session", "start", "title",
    )  # fmt: skip

    def __init__(self, session: Session, head: Head, now: int, known: dict[tuple[int, str], Row]) -> None:
        self.session = session
        self.start = self.head = head
        self.now = now
        # Time never runs backwards inside a session, whatever the clock does.
        self.at = self.active_at = max(now, head.at)
        self.seq = head.head
        self.digest = head.digest
        self.fenced = False
        self.lease: int | None = None
        self.title: str | None = None
        # The title that a person gave, which wins over every other.
        self.given_title: str | None = None
        self.private: bool | None = None
        self.rows: list[Row] = []
        self.blobs: list[Prepared] = []
        self._known = known

    def add(self, request: Request) -> Appended:
        """Accept every draft of a request or none."""
        before = self.head, self.seq, self.digest, len(self.rows), len(self.blobs)
        try:
            return self._add(request)
        except ClewError:
            self.head, self.seq, self.digest, rows, blobs = before
            del self.rows[rows:], self.blobs[blobs:]
            raise

    def _add(self, request: Request) -> Appended:
        seqs: list[int] = []
        repeated: list[int] = []
        fresh: dict[tuple[int, str], Row] = {}
        start = self.seq
        is_checked = False
        for draft in request.drafts:
            key = (self.session.key, draft.source) if draft.source else None
            if key is not None and (stored := fresh.get(key) or self._known.get(key)):
                seqs.append(self._seq_of(draft, stored))
                repeated.append(seqs[-1])
                continue
            is_checked = is_checked or self._check_lease(request, draft.body)
            if self.seq == start:
                self._check_head(request)
            self._event(draft, request.actor)
            seqs.append(self.seq)
            if draft.blob is not None or draft.names:
                self.blobs.append(draft)
            if key is not None:
                fresh[key] = (self.seq, draft.body.kind, draft.text, draft.blob, None)
        exceeded = False
        if self.seq > start and self.head.state == "active":
            spent = self.head if not request.unmetered else with_unmetered(self.head, request.unmetered)
            exceeded = spent.over_budget
            if exceeded:
                request.spent = spent
                self._pause(spent)
        self._known.update(fresh)
        return Appended(seqs=seqs, deduplicated=repeated, head=self.seq, exceeded=exceeded)

    def note(self, body: Body, actor: str) -> int:
        """Accept one body of the store's own making, past leases and expectations; returns its seq."""
        encoded = codec.encode(body)
        self._event(Prepared(body, encoded.decode(), chain.body_hash(encoded), None, None), actor)
        return self.seq

    def _pause(self, spent: Head) -> None:
        """Over budget: what was spent is stored, then the session is paused in the same commit."""
        note = BudgetWasExceeded(
            budget=spent.budget, spent_tokens=spent.spent_tokens, spent_cost_micros=spent.spent_cost_micros
        )
        self.note(note, "clew")
        self.note(SessionPaused(reason="budget exceeded"), "clew")

    def _event(self, draft: Prepared, actor: str) -> None:
        session, body = self.session, draft.body
        self.head = apply(self.head, body, session.id)
        if isinstance(body, PrivacySet):
            self.private = body.private
        # PostgreSQL's texts have no NUL; the event itself keeps it.
        if isinstance(body, SessionTitled):
            self.title = body.title.replace("\0", "")
        elif isinstance(body, TitleGiven):
            self.given_title = body.title.replace("\0", "")
        self.seq = seq = self.seq + 1
        header = chain.header_hash(
            session.id, seq, body.kind, body.version, self.at, draft.said_at, actor, draft.source
        )
        self.digest = digest = chain.link(self.digest, header, draft.hash)
        self.rows.append(
            (session.project_key, session.key, seq, body.kind, body.version, self.at, draft.said_at, actor,
             draft.source, digest, draft.text, draft.blob)
        )  # fmt: skip

    def _check_lease(self, request: Request, body: Body | Opaque) -> bool:
        """Refuse who may not write now. False for a label: it says nothing of the work, so it needs no lease."""
        if body.step == LABEL and request.lease is None:
            return False
        check_lease(self.head, self.now, request.lease, self.session.id)
        self.fenced, self.lease = True, request.lease
        return True

    def _check_head(self, request: Request) -> None:
        if request.expect is not None and request.expect != self.seq:
            raise StaleHead(
                f"session {self.session.id} is at seq {self.seq}, not {request.expect}; read what was added and try "
                "again",
                session=self.session.id,
                head=self.seq,
                expect=request.expect,
            )

    def _seq_of(self, draft: Prepared, stored: Row) -> int:
        """The seq of the event this draft already became; another body under its source is refused."""
        seq, kind, body, digest, seal = stored
        if digest is not None:
            same = draft.blob == bytes(digest)
        else:
            same = draft.hash == bytes(seal[32:]) if seal is not None else draft.text == body
        if kind == draft.body.kind and same:
            return int(seq)
        raise SourceReused(
            f"source {draft.source!r} already names event {seq} of session {self.session.id}, which has another body; "
            "give a new event a new source",
            session=self.session.id,
            seq=seq,
            source=draft.source,
        )

    def move(self) -> Row:
        """The values that move the session's head on, in the order of contract.MOVE."""
        head, start = self.head, self.start
        return (
            head.state, self.seq, self.digest, self.active_at, head.budget_tokens, head.budget_cost_micros,
            head.spent_tokens, head.spent_cost_micros, self.session.project_key, self.session.key, start.head,
            start.epoch, int(self.fenced), self.lease,
        )  # fmt: skip

    def reached(self) -> Head:
        """The head once this plan is written."""
        head = self.head
        return Head(
            head.state, self.seq, self.digest, self.active_at, head.epoch, head.holder, head.lease_until,
            head.budget_tokens, head.budget_cost_micros, head.spent_tokens, head.spent_cost_micros,
        )  # fmt: skip


def plan_from(session: Session, rows: list[Row], known: dict[tuple[int, str], Row]) -> "Plan":
    """A plan that begins at the head just read."""
    if not rows:
        raise NotFound(f"session {session.id} is not in this store")
    *fields, now = rows[0]
    return Plan(session, Head(*fields), now, known)


def check_lease(head: Head, now: int, lease: int | None, session: str) -> None:
    """Refuse a caller who may not write now, by the database's clock."""
    held = head.holder is not None and head.lease_until > now
    if lease is None:
        if held:
            raise held_by_another(head, now, session)
        return
    if lease != head.epoch:
        raise lease_lost(session, lease, f"was taken over by {head.holder}" if held else "was given up", head.epoch)
    if not held:
        raise lease_lost(session, lease, "expired", head.epoch)


def held_by_another(head: Head, now: int, session: str) -> LeaseHeld:
    return LeaseHeld(
        f"session {session} is being written by {head.holder} for another {(head.lease_until - now) / 1e6:.1f} s; "
        "wait, or ask for it to be released",
        session=session,
        holder=head.holder,
        until=head.lease_until,
    )


def lease_lost(session: str, lease: int, what: str, epoch: int) -> LeaseLost:
    return LeaseLost(
        f"the lease with epoch {lease} on session {session} {what} (epoch now {epoch}); nothing was written: acquire "
        "it again and re-read before you go on",
        session=session,
        lease=lease,
        epoch=epoch,
    )


def _budget_exceeded(session: Session, appended: Appended, spent: Head) -> BudgetExceeded:
    return BudgetExceeded(
        f"session {session.id} has used {spent.spent_tokens:,} tokens and ${spent.spent_cost_micros / 1e6:.2f}, more "
        "than its budget; everything was stored and the session is paused: raise the budget, then resume it",
        session=session.id,
        seqs=appended.seqs,
        head=appended.head,
        spent_tokens=spent.spent_tokens,
        spent_cost_micros=spent.spent_cost_micros,
    )
