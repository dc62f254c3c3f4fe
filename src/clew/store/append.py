"""How drafts become events: prepare outside the transaction, then read heads, plan, write, all in one commit.

`append_all` takes the requests of many callers at once. It reads every head it needs in one round trip, plans each
request in memory against the model's rules, and writes everything in a second one. A request that is refused writes
nothing and does not disturb the others.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from clew.model import chain, codec
from clew.model.errors import ClewError, Damaged, LeaseHeld, LeaseLost, NotFound, SourceReused, StaleHead, TooLarge
from clew.model.events import Body, BudgetWasExceeded, Draft, Opaque, SessionPaused, blobs_of
from clew.model.session import Head, Session, apply
from clew.store import blobs as blob
from clew.store.contract import Blobs, Row, Statement, Transaction

# A body up to here lies in its row; a larger one is a blob.
INLINE_BYTES = 32 * 1024
LARGEST_BYTES = 64 * 1024 * 1024


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

    def outcome(self) -> Appended:
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise AssertionError("an append request was neither carried out nor refused")
        return self.result


def prepare(draft: Draft, blobs: Blobs) -> Prepared:
    """Encode and hash a draft; the bytes of a large body are durable before any event names them."""
    encoded = codec.encode(draft.body)
    hash = chain.body_hash(encoded)
    named = blobs_of(draft.body)
    names = tuple(_digest(name) for name in named) if named else ()
    if len(encoded) <= INLINE_BYTES:
        return Prepared(draft.body, encoded.decode(), hash, draft.source, draft.said_at, names=names)
    if len(encoded) > LARGEST_BYTES:
        raise TooLarge(
            f"a {draft.body.kind} of {len(encoded):,} bytes is beyond the limit of {LARGEST_BYTES:,}; "
            "save the bytes as an artifact and name it, or split the text",
            size=len(encoded),
            limit=LARGEST_BYTES,
        )
    digest, packed = blob.address(encoded), blob.pack(encoded)
    blobs.prepare(digest, packed)
    return Prepared(
        draft.body, None, hash, draft.source, draft.said_at, blob=digest, packed=packed, size=len(encoded), names=names
    )


def append_all(tx: Transaction, requests: Sequence[Request], blobs: Blobs) -> None:
    """Plan and write the requests; each ends with a result or an error."""
    sessions = {request.session.key: request.session for request in requests}
    ordered = sorted(sessions.values(), key=lambda session: (session.project_key, session.key))
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
    heads = dict(zip((session.key for session in ordered), answers, strict=False))
    known = {
        (session.key, source): rows[0]
        for (session, source), rows in zip(sourced, answers[len(ordered) :], strict=True)
        if rows
    }
    plans = {session.key: Plan(session, heads[session.key], known) for session in ordered}
    for request in requests:
        try:
            request.result = plans[request.session.key].add(request)
        except ClewError as error:
            request.error = error
    write(tx, [plan for plan in plans.values() if plan.rows], blobs)


class Plan:
    """What a transaction will write for one session: its head in memory, moved on event by event."""

    __slots__ = ("_known", "blobs", "head", "now", "rows", "session", "start")

    def __init__(self, session: Session, head_rows: list[Row], known: dict[tuple[int, str], Row]) -> None:
        if not head_rows:
            raise NotFound(f"session {session.id} is not in this store")
        *fields, self.now = head_rows[0]
        self.session = session
        self.start = self.head = Head(**dict(zip(HEAD_FIELDS, fields, strict=True)))
        self.rows: list[dict[str, Any]] = []
        self.blobs: list[Prepared] = []
        self._known = known

    def add(self, request: Request) -> Appended:
        """Accept every draft of a request or none."""
        head = self.head
        rows: list[dict[str, Any]] = []
        used: list[Prepared] = []
        seqs: list[int] = []
        repeated: list[int] = []
        fresh: dict[tuple[int, str], Row] = {}
        for draft in request.drafts:
            key = (self.session.key, draft.source) if draft.source else None
            if key is not None and (there := fresh.get(key) or self._known.get(key)):
                seqs.append(self._same(draft, there))
                repeated.append(seqs[-1])
                continue
            if not rows:
                self._check(request)
            head, row = self._event(apply(head, draft.body, self.session.id), draft, request.actor)
            rows.append(row)
            seqs.append(row["seq"])
            if draft.blob is not None or draft.names:
                used.append(draft)
            if key is not None:
                fresh[key] = (row["seq"], row["kind"], draft.text, draft.blob, None)
        exceeded = bool(rows) and head.over_budget and head.state == "active"
        if exceeded:
            head = self._pause(head, rows)
        self.head = head
        self.rows += rows
        self.blobs += used
        self._known.update(fresh)
        return Appended(seqs=seqs, deduplicated=repeated, head=head.head, exceeded=exceeded)

    def note(self, body: Body, actor: str) -> int:
        """Accept one body of the store's own making, past leases and expectations; returns its seq."""
        draft = _inline(body)
        self.head, row = self._event(apply(self.head, body, self.session.id), draft, actor)
        self.rows.append(row)
        return self.head.head

    def _pause(self, head: Head, rows: list[dict[str, Any]]) -> Head:
        """Over budget: what was spent is stored, then the session is paused in the same commit."""
        report = BudgetWasExceeded(
            budget=head.budget, spent_tokens=head.spent_tokens, spent_cost_micros=head.spent_cost_micros
        )
        for body in (report, SessionPaused(reason="budget exceeded")):
            head, row = self._event(apply(head, body, self.session.id), _inline(body), "clew")
            rows.append(row)
        return head

    def _event(self, head: Head, draft: Prepared, actor: str) -> tuple[Head, dict[str, Any]]:
        session, body, seq = self.session, draft.body, head.head + 1
        header = chain.header_hash(
            session.id, seq, body.kind, body.version, self.now, draft.said_at, actor, draft.source
        )
        digest = chain.link(head.digest, header, draft.hash)
        row = {
            "project": session.project_key,
            "session": session.key,
            "seq": seq,
            "kind": body.kind,
            "version": body.version,
            "at": self.now,
            "said_at": draft.said_at,
            "actor": actor,
            "source": draft.source,
            "digest": digest,
            "body": draft.text,
            "blob": draft.blob,
        }
        return msgspec.structs.replace(head, head=seq, digest=digest, at=self.now), row

    def _check(self, request: Request) -> None:
        head, id = self.head, self.session.id
        check_lease(head, self.now, request.lease, id)
        if request.expect is not None and request.expect != head.head:
            raise StaleHead(
                f"session {id} is at seq {head.head}, not {request.expect}; read what was added and try again",
                session=id,
                head=head.head,
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


def check_lease(head: Head, now: int, lease: int | None, session: str) -> None:
    """Refuse whoever may not write now, by the database's clock."""
    held = head.holder is not None and head.lease_until > now
    if lease is None:
        if held:
            raise LeaseHeld(
                f"session {session} is being written by {head.holder} until {head.lease_until} (store clock, "
                "microseconds); wait, or ask for it to be released",
                session=session,
                holder=head.holder,
                until=head.lease_until,
            )
        return
    if lease != head.epoch or not held:
        what = f"was taken over by {head.holder or 'nobody yet'}" if lease != head.epoch else "expired or was released"
        raise LeaseLost(
            f"the lease with epoch {lease} on session {session} {what} (epoch now {head.epoch}); nothing was written: "
            "acquire it again and re-read before you go on",
            session=session,
            lease=lease,
            epoch=head.epoch,
        )


def write(tx: Transaction, plans: Iterable[Plan], blobs: Blobs) -> None:
    """Write what was planned: blobs, clock, events, heads, in the order of the locks."""
    plans = list(plans)
    if not plans:
        return
    rows = [row for plan in plans for row in plan.rows]
    keep_blobs(tx, [draft for plan in plans for draft in plan.blobs], blobs)
    count = len(rows)
    statements: list[Statement] = [("tick", {"count": count})]
    for number, row in enumerate(rows, 1):
        row["behind"] = count - number
        statements.append(("event_add", row))
    statements += [("head_move", _move(plan)) for plan in plans]
    answers = tx.batch(statements)
    for plan, moved in zip(plans, answers[-len(plans) :], strict=True):
        if not moved:
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


HEAD_FIELDS = Head.__struct_fields__


def _move(plan: Plan) -> dict[str, Any]:
    head = plan.head
    return {
        "project": plan.session.project_key,
        "session": plan.session.key,
        "state": str(head.state),
        "head": head.head,
        "digest": head.digest,
        "at": head.at,
        "budget_tokens": head.budget_tokens,
        "budget_cost_micros": head.budget_cost_micros,
        "spent_tokens": head.spent_tokens,
        "spent_cost_micros": head.spent_cost_micros,
        "from_head": plan.start.head,
        "epoch": plan.start.epoch,
    }


def _inline(body: Body) -> Prepared:
    encoded = codec.encode(body)
    return Prepared(body, encoded.decode(), chain.body_hash(encoded), None, None)


def _digest(name: str) -> bytes:
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise NotFound(f"{name[:80]!r} is not a blob digest of 64 hexadecimal digits")
    return digest
