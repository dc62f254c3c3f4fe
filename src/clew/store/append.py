"""How drafts become events: prepare outside the transaction, then read heads, plan, write, all in one commit.

`append_all` takes the requests of many callers at once. It reads every head it needs in one round trip, plans each
request in memory against the model's rules, and writes everything in a second one. A request that is refused writes
nothing and does not disturb the others.
"""

from collections.abc import Sequence

import msgspec

from clew.model import chain, codec
from clew.model.errors import (
    ClewError,
    Damaged,
    InvalidInput,
    LeaseHeld,
    LeaseLost,
    NotFound,
    SourceReused,
    StaleHead,
    TooLarge,
)
from clew.model.events import Body, BudgetWasExceeded, Draft, Opaque, SessionPaused, blobs_of
from clew.model.ids import check_name
from clew.model.session import Head, Session, apply
from clew.store import blobs as blob
from clew.store.contract import Blobs, Database, Row, Statement, Transaction

# A body up to here lies in its row; a larger one is a blob.
INLINE_BYTES = 32 * 1024
LARGEST_BYTES = 64 * 1024 * 1024

LARGEST_INTEGER = 2**63 - 1

# Sources that the store itself gives begin so; they are nobody's record identity and are not shown.
OWN_MARK = "~"


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A draft with its text encoded and hashed, ready to be planned."""

    body: Body | Opaque
    text: str | None
    hash: bytes
    source: str | None
    said_at: int | None
    blob: bytes | None = None
    packed: bytes | None = None
    size: int = 0
    names: tuple[bytes, ...] = ()


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the drafts: the seq of each, which of them were there already, and the head now."""

    seqs: list[int]
    deduplicated: list[int]
    head: int
    exceeded: bool = False


class Request:
    """One caller's append."""

    __slots__ = ("actor", "drafts", "error", "expect", "lease", "result", "session", "unseen")

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
        self.result: Appended | None = None
        self.error: BaseException | None = None

    def needs_reading(self) -> bool:
        """Whether a draft's source may be in the session already, or a blob has to be counted."""
        for draft in self.drafts:
            if (draft.source and draft.source not in self.unseen) or draft.blob is not None or draft.names:
                return True
        return False

    def outcome(self) -> Appended:
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise AssertionError("an append request was neither carried out nor refused")
        return self.result


def check_source(source: str) -> None:
    check_name(source, "a source")
    if not source or source.startswith(OWN_MARK):
        raise InvalidInput(
            f"{source!r} cannot be a source: leave it out for none, and do not begin it with {OWN_MARK!r}, the mark of "
            "the store's own"
        )


def prepare(draft: Draft, blobs: Blobs) -> Prepared:
    """Encode and hash a draft; the bytes of a large body are durable before any event names them."""
    encoded = codec.encode(draft.body)
    if draft.source is not None:
        check_source(draft.source)
    if isinstance(draft.body, Opaque) and "." not in draft.body.kind:
        raise InvalidInput(f"{draft.body.kind!r} is not a foreign kind: one of your own needs a dot, like 'myapp.note'")
    if draft.said_at is not None and not -LARGEST_INTEGER <= draft.said_at <= LARGEST_INTEGER:
        raise InvalidInput(f"said_at {draft.said_at} is no time in microseconds since 1970; it has to fit 64 bits")
    hash = chain.body_hash(encoded)
    named = blobs_of(draft.body)
    names = tuple(digest_of(name) for name in named) if named else ()
    if len(encoded) <= INLINE_BYTES:
        return Prepared(draft.body, encoded.decode(), hash, draft.source, draft.said_at, names=names)
    if len(encoded) > LARGEST_BYTES:
        raise TooLarge(
            f"a {draft.body.kind} of {len(encoded):,} bytes is beyond the limit of {LARGEST_BYTES:,}; "
            "split it into several events",
            size=len(encoded),
            limit=LARGEST_BYTES,
        )
    digest, packed = blob.address(encoded), blob.pack(encoded)
    blobs.prepare(digest, packed)
    return Prepared(
        draft.body, None, hash, draft.source, draft.said_at, blob=digest, packed=packed, size=len(encoded), names=names
    )


class Heads:
    """The heads this store left behind, by session key: what the next append can be planned against without reading.

    A head is remembered once it was found unchanged since this store's own last write, so that a session which several
    processes write is read anew each time. A wrong memory costs a second try and nothing else: the write itself checks.
    """

    MOST = 10_000

    def __init__(self) -> None:
        self._heads: dict[int, tuple[Head, bool]] = {}

    def recall(self, key: int) -> Head | None:
        found = self._heads.get(key)
        return found[0] if found is not None and found[1] else None

    def keep(self, plan: "Plan") -> None:
        key = plan.session.key
        last = self._heads.get(key)
        if last is None and len(self._heads) >= self.MOST:
            self._heads.clear()
        self._heads[key] = (plan.reached(), last is None or last[0].head == plan.start.head)

    def forget(self, key: int) -> None:
        found = self._heads.get(key)
        if found is not None:
            self._heads[key] = (found[0], False)


def append_from_memory(database: Database, requests: Sequence[Request], heads: Heads) -> list[Request]:
    """Carry out the requests whose sessions' heads are remembered, without reading first; returns all others.

    Only a success counts here. Whatever speaks against a request is left for `append_all` to find out under a lock.
    """
    plans: dict[int, Plan] = {}
    planned: list[Request] = []
    left: list[Request] = []
    now = database.now()
    for request in requests:
        key = request.session.key
        plan = plans.get(key)
        if plan is None and (head := heads.recall(key)) is not None:
            plan = plans[key] = Plan(request.session, head, now, {})
        if plan is None or request.needs_reading():
            left.append(request)
            continue
        try:
            request.result = plan.add(request)
            planned.append(request)
        except ClewError:
            left.append(request)
    written = [plan for plan in plans.values() if plan.rows]
    if not written:
        return left
    moved = database.append([plan.move() for plan in written], [row for plan in written for row in plan.rows])
    for plan in written:
        if plan.session.key in moved:
            heads.keep(plan)
        else:
            heads.forget(plan.session.key)
    for request in planned:
        if request.session.key not in moved:
            request.result = None
            left.append(request)
    return left


def append_all(tx: Transaction, requests: Sequence[Request], blobs: Blobs) -> list["Plan"]:
    """Lock the heads, plan and write the requests; each ends with a result or an error. Returns the plans written."""
    sessions = {request.session.key: request.session for request in requests}
    ordered = sorted(sessions.values(), key=_lock_order)
    reads: list[Statement] = [
        ("head_lock", {"project": session.project_key, "session": session.key}) for session in ordered
    ]
    sourced = [
        (request.session, draft.source)
        for request in requests
        for draft in request.drafts
        if draft.source and draft.source not in request.unseen
    ]
    reads += [
        ("event_by_source", {"project": session.project_key, "session": session.key, "source": source})
        for session, source in sourced
    ]
    answers = tx.batch(reads)
    known = {
        (session.key, source): rows[0]
        for (session, source), rows in zip(sourced, answers[len(ordered) :], strict=True)
        if rows
    }
    plans: dict[int, Plan] = {}
    for session, rows in zip(ordered, answers[: len(ordered)], strict=True):
        plans[session.key] = plan_from(session, rows, known)
    for request in requests:
        try:
            request.result = plans[request.session.key].add(request)
        except ClewError as error:
            request.error = error
    written = [plan for plan in plans.values() if plan.rows]
    write(tx, written, blobs)
    return written


def plan_from(session: Session, rows: list[Row], known: dict[tuple[int, str], Row]) -> "Plan":
    """A plan that begins at the head just read."""
    if not rows:
        raise NotFound(f"session {session.id} is not in this store")
    *fields, now = rows[0]
    return Plan(session, Head(*fields), now, known)


class Plan:
    """What a transaction will write for one session: its head in memory, moved on event by event."""

    __slots__ = (
        "_known", "active_at", "at", "blobs", "digest", "fenced", "head", "lease", "now", "rows", "seq", "session",
        "start",
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
        for draft in request.drafts:
            key = (self.session.key, draft.source) if draft.source else None
            if key is not None and (there := fresh.get(key) or self._known.get(key)):
                seqs.append(self._same(draft, there))
                repeated.append(seqs[-1])
                continue
            if self.seq == start:
                self._check(request)
            self._event(draft, request.actor)
            seqs.append(self.seq)
            if draft.blob is not None or draft.names:
                self.blobs.append(draft)
            if key is not None:
                fresh[key] = (self.seq, draft.body.kind, draft.text, draft.blob, None)
        exceeded = self.seq > start and self.head.over_budget and self.head.state == "active"
        if exceeded:
            self._pause()
        self._known.update(fresh)
        return Appended(seqs=seqs, deduplicated=repeated, head=self.seq, exceeded=exceeded)

    def note(self, body: Body, actor: str) -> int:
        """Accept one body of the store's own making, past leases and expectations; returns its seq."""
        encoded = codec.encode(body)
        self._event(Prepared(body, encoded.decode(), chain.body_hash(encoded), None, None), actor)
        return self.seq

    def _pause(self) -> None:
        """Over budget: what was spent is stored, then the session is paused in the same commit."""
        head = self.head
        spent = {"spent_tokens": head.spent_tokens, "spent_cost_micros": head.spent_cost_micros}
        self.note(BudgetWasExceeded(budget=head.budget, **spent), "clew")
        self.note(SessionPaused(reason="budget exceeded"), "clew")

    def _event(self, draft: Prepared, actor: str) -> None:
        session, body = self.session, draft.body
        self.head = apply(self.head, body, session.id)
        self.seq = seq = self.seq + 1
        header = chain.header_hash(
            session.id, seq, body.kind, body.version, self.at, draft.said_at, actor, draft.source
        )
        self.digest = digest = chain.link(self.digest, header, draft.hash)
        self.rows.append(
            (session.project_key, session.key, seq, body.kind, body.version, self.at, draft.said_at, actor,
             draft.source, digest, draft.text, draft.blob)
        )  # fmt: skip

    def _check(self, request: Request) -> None:
        check_lease(self.head, self.now, request.lease, self.session.id)
        self.fenced, self.lease = True, request.lease
        if request.expect is not None and request.expect != self.seq:
            raise StaleHead(
                f"session {self.session.id} is at seq {self.seq}, not {request.expect}; read what was added and try "
                "again",
                session=self.session.id,
                head=self.seq,
                expect=request.expect,
            )

    def _same(self, draft: Prepared, there: Row) -> int:
        """The seq of the event this draft already became; another body under its source is refused."""
        seq, kind, body, digest, seal = there
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
        return msgspec.structs.replace(self.head, head=self.seq, digest=self.digest, at=self.active_at)


def check_lease(head: Head, now: int, lease: int | None, session: str) -> None:
    """Refuse whoever may not write now, by the database's clock."""
    held = head.holder is not None and head.lease_until > now
    if lease is None:
        if held:
            raise held_by_another(head, now, session)
        return
    if lease != head.epoch:
        raise _lost(session, lease, f"was taken over by {head.holder}" if held else "was given up", head.epoch)
    if not held:
        raise _lost(session, lease, "expired", head.epoch)


def held_by_another(head: Head, now: int, session: str) -> LeaseHeld:
    return LeaseHeld(
        f"session {session} is being written by {head.holder} for another {(head.lease_until - now) / 1e6:.1f} s; "
        "wait, or ask for it to be released",
        session=session,
        holder=head.holder,
        until=head.lease_until,
    )


def _lost(session: str, lease: int, what: str, epoch: int) -> LeaseLost:
    return LeaseLost(
        f"the lease with epoch {lease} on session {session} {what} (epoch now {epoch}); nothing was written: acquire "
        "it again and re-read before you go on",
        session=session,
        lease=lease,
        epoch=epoch,
    )


def write(tx: Transaction, plans: Sequence[Plan], blobs: Blobs) -> None:
    """Write what was planned, in the order of the locks: the heads are held already, then blobs, then the clock."""
    if not plans:
        return
    keep_blobs(tx, [draft for plan in plans for draft in plan.blobs], blobs)
    moved = tx.append([plan.move() for plan in plans], [row for plan in plans for row in plan.rows])
    for plan in plans:
        if plan.session.key in moved:
            continue
        if plan.lease is not None:
            raise _lost(plan.session.id, plan.lease, "expired while this was being written", plan.start.epoch)
        raise Damaged(f"the head of session {plan.session.id} moved while it was locked; run `clew verify`")


def keep_blobs(tx: Transaction, drafts: list[Prepared], blobs: Blobs) -> None:
    """Count the references of new events, in the same commit as the events."""
    if not drafts:
        return
    own = {draft.blob: draft for draft in drafts if draft.blob is not None}
    counts: dict[bytes, int] = {}
    for draft in drafts:
        for digest in (*draft.names, *((draft.blob,) if draft.blob is not None else ())):
            counts[digest] = counts.get(digest, 0) + 1
    for digest in sorted(counts):
        new = own.get(digest)
        if new is not None and new.packed is not None:
            data = blobs.row_data(new.packed)
            tx.run("blob_add", digest=digest, size=new.size, refs=counts[digest], data=data)
            blobs.settle(digest, new.packed)
        elif not tx.run("blob_ref", digest=digest, refs=counts[digest]):
            raise NotFound(f"no blob {digest.hex()} in this store; save its bytes before an event names it")


def _lock_order(session: Session) -> tuple[int, int]:
    return (session.project_key, session.key)


def digest_of(name: str) -> bytes:
    """The digest a blob is called by, as bytes."""
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise NotFound(f"{name[:80]!r} is not a blob digest of 64 hexadecimal digits")
    return digest
