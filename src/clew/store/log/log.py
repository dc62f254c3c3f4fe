"""The store: one log of events for every session, the only truth. This file is the contract; every promise is here.

The promises hold on SQLite and PostgreSQL alike and are tested literally on both:

* What `append` returned is on disk. It survives the death of any process, and power loss if the disk honours fsync.
* Seqs are 1, 2, 3 ... in a session, without gap or repetition, and never change.
* The same source in a session is stored once, for ever, however often and by whomever it is sent.
* A batch is stored whole or not at all.
* Only the holder of the current lease writes while a lease is held; the check is part of the write.
* `tail` shows events in the order they became visible and never skips one.
"""

import copy
import time
from collections.abc import Iterable, Iterator
from types import MappingProxyType

import msgspec

from clew.model import codec
from clew.model.depth import refuse_depth
from clew.model.errors import (
    AmbiguousId,
    BudgetExceeded,
    Busy,
    ClewError,
    Conflict,
    Damaged,
    InvalidInput,
    NotFound,
    StoreError,
    Unavailable,
    WrongState,
)
from clew.model.events import AnyBody, Body, Budget, Draft, Event, Removed, SessionForked, SessionOpened
from clew.model.ids import check_name, check_prefix, new_id
from clew.model.lineage import Segment, clip, segments
from clew.model.session import Head, Session, State
from clew.store.database.contract import Blobs, Database, Parameters, Row, Transaction
from clew.store.log.append import Heads, append_all, append_from_memory, write
from clew.store.log.group_commit import GroupCommit
from clew.store.log.plan import Appended, Plan, Request, plan_from
from clew.store.log.prepare import OWN_MARK, digest_of, prepare
from clew.store.objects import blobs as blob

EVERYTHING = 2**62
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError, TypeError)
PAGE = 1000
# As long as every index can tell it from another.
LONGEST_AGENT = 500
# The reach of who may see everything.
NOWHERE_LEFT_OUT: Parameters = MappingProxyType({})
PATIENCE_SECONDS = 10.0


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    session: Session
    head: int


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    session: Session
    head: Head


class Store:
    """The log over one database and one place for blobs. Safe to share between threads."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.database = database
        self.blobs = blobs
        self._group: GroupCommit[Request] = GroupCommit(self.carry_out)
        self._heads = Heads()
        self.whole = self
        """The store itself, also where only some of it is to be seen."""

    def behind(self, wall: str) -> "Store":
        """The same log for reading on somebody's behalf, behind the database's own wall, if it has one."""
        other = copy.copy(self)
        other.database = self.database.behind(wall)
        return other

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Sessions ---------------------------------------------------------------------------------------------------------

    def open_session(
        self,
        *,
        project: str,
        actor: str,
        agent: str = "",
        title: str = "",
        metadata: str = "{}",
        budget: Budget | None = None,
        private: bool = False,
        id: str | None = None,
        control: bool = False,
    ) -> Opened:
        """Open a session with its first event; who opens it owns it."""
        check_name(agent, "the agent", longest=LONGEST_AGENT)
        for text, what in ((title, "the title"), (actor, "the actor")):
            check_name(text, what)
        if not check_name(project, "the project", longest=200):
            raise InvalidInput("a session needs a project; leave it out for 'default'")
        check_metadata(metadata)
        body = SessionOpened(
            agent=agent, project=project, title=title, metadata=msgspec.Raw(metadata.encode()), budget=budget,
            private=private,
        )  # fmt: skip
        with self.database.write() as tx:
            session = Session(
                id=id or new_id(), key=0, project=project, project_key=self.project_in(tx, project), agent=agent,
                title=title, metadata=metadata, opened_at=tx.run("now")[0][0], owner=actor, private=private,
            )  # fmt: skip
            session = self.add_session(tx, session, parent=None, head=0, digest=bytes(32), control=control)
            head = self._first(tx, session, body, actor)
        return Opened(session=session, head=head)

    def fork(self, session: Session, *, actor: str, at: int | None = None, title: str | None = None) -> Session:
        """Open a child that reads this session up to and including `at`. Costs the same at any depth.

        The child hangs on whichever ancestor wrote that event, so a chain of forks is never longer than it must be.
        A fork of a private session is private.
        """
        check_name(title or "", "the title")
        with self.database.write() as tx:
            owner = self._owner(tx, session, at)
            # The owner first: it is older, and locks are taken from old to young.
            for key in sorted({owner.key, session.key}):
                rows = tx.run("head_lock", project=session.project_key, session=key)
                if not rows or rows[0][0] == State.ERASED:
                    raise WrongState(
                        f"session {session.id}, or what it reads, was erased and cannot be forked; open a new one",
                        state="erased",
                    )
            head = self.head_in(tx, session)
            at = head.head if at is None else at
            if not 1 <= at <= head.head:
                raise InvalidInput(
                    f"session {session.id} has events 1 to {head.head}; it cannot be forked at {at}",
                    head=head.head,
                    at=at,
                )
            digest = tx.run("event_digest", project=session.project_key, session=owner.key, seq=at)[0][0]
            title = session.title if title is None else title
            child = Session(
                id=new_id(), key=0, project=session.project, project_key=session.project_key, agent=session.agent,
                title=title, metadata=session.metadata, parent=owner.id, upto=at, opened_at=tx.run("now")[0][0],
                owner=actor, private=session.private,
            )  # fmt: skip
            child = self.add_session(tx, child, parent=owner.key, head=at, digest=bytes(digest), budget=head.budget)
            self._first(tx, child, SessionForked(parent=session.id, upto=at, title=title, private=session.private),
                        actor)  # fmt: skip
        return child

    def session(self, prefix: str, reach: Parameters = NOWHERE_LEFT_OUT) -> Session:
        """The session with this id, or with the only id that begins so, among those in reach."""
        prefix = check_prefix(prefix)
        with self.database.read() as tx:
            rows = tx.run("session_by_prefix", prefix=prefix, beyond=prefix + "~", **reach)
        if not rows:
            raise NotFound(f"no session {prefix!r} in this store; `clew sessions` lists what there is", session=prefix)
        if len(rows) > 1 and rows[0][0] != prefix:
            ids = [row[0] for row in rows]
            raise AmbiguousId(
                f"{prefix!r} is the beginning of several sessions ({', '.join(ids[:5])}"
                f"{' ...' if len(ids) > 5 else ''}); give a few more characters",
                session=prefix,
                candidates=ids,
            )
        return session_from(rows[0])

    def projects(self) -> dict[int, str]:
        """Every project by its key."""
        with self.database.read() as tx:
            return dict(tx.run("projects"))

    def keys_of(self, ids: Iterable[str]) -> dict[str, int]:
        """The keys of the sessions with these ids, as far as there are any."""
        wanted = msgspec.json.encode(sorted(ids)).decode()
        with self.database.read() as tx:
            return dict(tx.run("keys_of_sessions", sources=wanted))

    def session_by_key(self, key: int) -> Session:
        """The session with this key, which there is."""
        with self.database.read() as tx:
            return session_from(tx.run("session_by_key", key=key)[0])

    def sessions(
        self, *, project: str = "", agent: str = "", state: str = "", before: Session | None = None, limit: int = 50
    ) -> list[Listed]:
        """Sessions, newest first."""
        key = before.key if before else EVERYTHING
        with self.database.read() as tx:
            rows = tx.run("session_list", project=project, agent=agent, state=state, before=key, limit=limit)
        return [Listed(session=session_from(row[:12]), head=head_from(row[12:])) for row in rows]

    def standing(self, keys: Iterable[int]) -> dict[int, Listed]:
        """Some sessions and where they stand, by key."""
        with self.database.read() as tx:
            rows = tx.run("sessions_standing", keys=msgspec.json.encode(list(keys)).decode())
        return {row[1]: Listed(session=session_from(row[:12]), head=head_from(row[12:])) for row in rows}

    def control_session(self, project: str, actor: str) -> Session:
        """The session that keeps a project's own record: who asked for what. Not listed among the others."""
        found = self._control_session(project)
        if found is not None:
            return found
        try:
            return self.open_session(
                project=project, actor=actor, title=f"control log of {project}", control=True
            ).session
        except Conflict:
            # Somebody else was first; there is one of them in a project.
            found = self._control_session(project)
            if found is None:
                raise
            return found

    def _control_session(self, project: str) -> Session | None:
        with self.database.read() as tx:
            rows = tx.run("control_session", project=project)
        return session_from(rows[0]) if rows else None

    def head(self, session: Session) -> Head:
        """Where the session stands now."""
        with self.database.read() as tx:
            return self.head_in(tx, session)

    # Appending --------------------------------------------------------------------------------------------------------

    def append(
        self,
        session: Session,
        drafts: Iterable[Draft],
        *,
        actor: str = "",
        expect: int | None = None,
        lease: int | None = None,
    ) -> Appended:
        """Store the drafts as the next events, all or none, and return once they are on disk.

        A draft whose source is already in the session is not stored again; its seq is returned. `expect` is the head
        the caller has seen, `lease` the epoch of the lease it holds. Callers that append at the same time share one
        commit. A lost connection is tried again for a while; what was committed unseen is found by its source and not
        repeated.
        When a budget is exceeded everything is stored, the session is paused, and BudgetExceeded says so.
        """
        request = self.request(session, drafts, actor=actor, expect=expect, lease=lease)
        if not request.drafts:
            return Appended(seqs=[], deduplicated=[], head=self.head(session).head)
        if self.database.remote:
            self._until_known(request)
        else:
            self._group.submit(request)
        return self.outcome(request)

    def request(
        self,
        session: Session,
        drafts: Iterable[Draft],
        *,
        actor: str = "",
        expect: int | None = None,
        lease: int | None = None,
    ) -> Request:
        """An append made ready, for who gathers those of many callers and carries them out together."""
        check_name(actor, "the actor")
        return Request(session, [prepare(draft, self.blobs) for draft in drafts], actor, expect, lease)

    def outcome(self, request: Request) -> Appended:
        """What became of a request that was carried out, or the error that it ended with."""
        appended, session = request.outcome(), request.session
        if appended.exceeded:
            head = self.head(session)
            raise BudgetExceeded(
                f"session {session.id} has used {head.spent_tokens:,} tokens and ${head.spent_cost_micros / 1e6:.2f}, "
                "more than its budget; everything was stored and the session is paused: raise the budget "
                "(`clew budget ID --tokens N` or `--usd X`), then resume it",
                session=session.id,
                seqs=appended.seqs,
                head=appended.head,
                spent_tokens=head.spent_tokens,
                spent_cost_micros=head.spent_cost_micros,
            )
        return appended

    def _until_known(self, request: Request) -> None:
        """Append over a connection that can break during the commit: a source on every draft makes a retry safe."""
        request.drafts = [
            draft if draft.source else msgspec.structs.replace(draft, source=OWN_MARK + new_id())
            for draft in request.drafts
        ]
        request.unseen = frozenset(
            draft.source for draft in request.drafts if draft.source and draft.source.startswith(OWN_MARK)
        )
        end = time.monotonic() + PATIENCE_SECONDS
        pause = 0.05
        while True:
            self._group.submit(request)
            if not isinstance(request.error, Unavailable | Busy) or time.monotonic() + pause > end:
                return
            time.sleep(pause)  # Nothing tells when a server is back; connecting again is the only way to know.
            pause = min(pause * 2, 0.5)
            request.unseen = frozenset()
            request.error = request.result = None

    def carry_out(self, requests: list[Request]) -> None:
        """Store all of them in one commit; every request ends with a result or with the error that kept it out."""
        left = requests
        try:
            left = append_from_memory(self.database, requests, self._heads)
            if left:
                with self.database.write() as tx:
                    written = append_all(tx, left, self.blobs)
                for plan in written:
                    self._heads.keep(plan)
        except StoreError as error:
            for request in left:
                request.error = error
        except ClewError as error:
            # One request was refused after writing had begun: all was undone, so each is tried on its own.
            if len(left) == 1:
                left[0].error = error
                return
            for request in left:
                request.error = request.result = None
                self.carry_out([request])
        except BaseException:
            for request in left:
                request.error = StoreError("the commit was interrupted, its outcome is unknown; read before you retry")
            raise

    # Reading ----------------------------------------------------------------------------------------------------------

    def read(
        self, session: Session, *, after: int = 0, upto: int | None = None, limit: int = EVERYTHING
    ) -> list[Event]:
        """The events after one seq, up to and including another, through all ancestors, oldest first."""
        with self.database.read() as tx:
            found: list[Event] = []
            for part in clip(self._segments(tx, session), after + 1, EVERYTHING if upto is None else upto):
                rows = tx.run(
                    "events", project=session.project_key, session=part.key, first=part.first, last=part.last,
                    limit=limit - len(found),
                )  # fmt: skip
                found += self.events_in(tx, session.project_key, part.key, part.id, rows)
                if len(found) >= limit:
                    break
            return found

    def read_kinds(self, session: Session, kinds: Iterable[str], *, upto: int | None = None) -> list[Event]:
        """Only the events of these kinds, in order."""
        with self.database.read() as tx:
            found: list[Event] = []
            for part in clip(self._segments(tx, session), 1, EVERYTHING if upto is None else upto):
                within = {
                    "project": session.project_key, "session": part.key, "first": part.first, "last": part.last
                }  # fmt: skip
                answers = tx.batch([("events_of_kind", {**within, "kind": kind}) for kind in kinds])
                rows = sorted((row for answer in answers for row in answer), key=lambda row: row[0])
                found += self.events_in(tx, session.project_key, part.key, part.id, rows)
            return found

    def tail(
        self, *, after: int = 0, project: str = "", limit: int = PAGE, reach: Parameters = NOWHERE_LEFT_OUT
    ) -> list[Event]:
        """Events of all sessions in reach after a position, in the order they became visible."""
        after = min(after, EVERYTHING)
        with self.database.read() as tx:
            rows = (
                tx.run("tail_project", after=after, limit=limit, project=project, **reach)
                if project
                else tx.run("tail", after=after, limit=limit, **reach)
            )
            return [event for row in rows for event in self.events_in(tx, row[12], row[13], row[14], [row[:12]])]

    def entries(self, *, after: int, limit: int = PAGE) -> Iterator[tuple[Session, Event]]:
        """What `tail` shows, one event at a time and each with its session: for the views."""
        with self.database.read() as tx:
            rows = tx.run("tail", after=after, limit=limit)
            keys = msgspec.json.encode(sorted({row[13] for row in rows})).decode()
            sessions = {row[1]: session_from(row) for row in tx.run("sessions_by_key", keys=keys)}
            for row in rows:
                for event in self._readable(tx, row[12], row[13], row[14], row[:12]):
                    yield sessions[row[13]], event

    def own_sources(self, session: Session, *, before: int) -> list[tuple[str, str]]:
        """The kinds and sources of the events that a session itself wrote before one."""
        with self.database.read() as tx:
            rows = tx.run("own_sources", project=session.project_key, session=session.key, before=before)
        return [(kind, source) for kind, source in rows]

    def own_events(self, session: Session, *, upto: int) -> Iterator[Event]:
        """The events a session itself wrote, up to and including one, a page at a time."""
        after = 0
        while after < upto:
            with self.database.read() as tx:
                rows = tx.run(
                    "events", project=session.project_key, session=session.key, first=after + 1, last=upto, limit=PAGE
                )
                for row in rows:
                    yield from self._readable(tx, session.project_key, session.key, session.id, row)
            if len(rows) < PAGE:
                return
            after = rows[-1][0]

    def own_event(self, session: Session, seq: int) -> Event | None:
        """One event that the session itself wrote."""
        with self.database.read() as tx:
            rows = tx.run("events", project=session.project_key, session=session.key, first=seq, last=seq, limit=1)
            found = [self._readable(tx, session.project_key, session.key, session.id, row) for row in rows]
            return found[0][0] if found and found[0] else None

    def last_position(self) -> int:
        """The position of the newest event."""
        with self.database.read() as tx:
            rows = tx.run("last_position")
            return int(rows[0][0]) if rows else 0

    def end_position(self) -> int:
        """The last position given out: what a reader of the whole log has come to when it has seen all."""
        with self.database.read() as tx:
            return int(tx.run("end_position")[0][0])

    def wait(self, *, after: int, timeout: float) -> bool:
        """Whether there is an event after this position, waiting for one until the time is over."""
        end = time.monotonic() + timeout
        while True:
            heard = self.database.heard()
            if self.last_position() > after:
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.database.wait(left, heard)

    def lineage(self, session: Session) -> list[Segment]:
        """Which ancestor wrote which part of this session's history, oldest first."""
        with self.database.read() as tx:
            return self._segments(tx, session)

    def children(self, session: Session, reach: Parameters = NOWHERE_LEFT_OUT) -> list[tuple[str, int]]:
        """The direct forks of this session's own events that are in reach, with the seq each was forked at."""
        with self.database.read() as tx:
            return [(row[1], row[2]) for row in tx.run("children", key=session.key, **reach)]

    def is_reached(self, project: int, reach: Parameters) -> bool:
        """Whether any session of a project is in reach."""
        with self.database.read() as tx:
            return bool(tx.run("project_reached", project=project, **reach))

    # Cursors ----------------------------------------------------------------------------------------------------------

    def cursor(self, name: str) -> int:
        """The position a reader of this name has come to; 0 for a new one."""
        with self.database.read() as tx:
            rows = tx.run("cursor_read", name=name)
            return int(rows[0][0]) if rows else 0

    def move_cursor(self, name: str, position: int) -> None:
        """Remember how far a reader has come."""
        check_name(name, "the name of a cursor")
        with self.database.write() as tx:
            tx.run("cursor_move", name=name, position=position)

    # Blobs ------------------------------------------------------------------------------------------------------------

    def save_blob(self, data: bytes) -> str:
        """Store bytes once and return their digest. Collected again unless an event names them within the grace."""
        digest, packed = blob.address(data), blob.pack(data)
        self.blobs.prepare(digest, packed)
        with self.database.write() as tx:
            tx.run("blob_add", digest=digest, size=len(data), refs=0, data=self.blobs.row_data(packed))
            self.blobs.settle(digest, packed)
        return digest.hex()

    def load_blob(self, digest: str) -> bytes:
        """The bytes with this digest, checked."""
        with self.database.read() as tx:
            return self.blob_in(tx, digest_of(digest))

    def collect_blobs(self, *, grace_us: int = 3_600_000_000) -> tuple[int, int]:
        """Delete blobs that nothing names; returns how many and their bytes. The grace protects what is on its way."""
        with self.database.write() as tx:
            rows = tx.run("blob_collect", grace=grace_us)
            self.blobs.remove(bytes(row[0]) for row in rows)
            known = {bytes(row[0]) for row in tx.run("blob_digests")}
            swept = self.blobs.sweep(known, grace_us)
        return len(rows) + swept, sum(row[1] for row in rows)

    # Parts ------------------------------------------------------------------------------------------------------------

    def project_in(self, tx: Transaction, name: str) -> int:
        rows = tx.run("project_key", name=name)
        if not rows:
            tx.run("project_add", name=name)
            rows = tx.run("project_key", name=name)
        return int(rows[0][0])

    def add_session(
        self, tx: Transaction, session: Session, *, parent: int | None = None, head: int = 0,
        digest: bytes = bytes(32), budget: Budget | None = None, control: bool = False,
    ) -> Session:  # fmt: skip
        rows = tx.run(
            "session_add", project=session.project_key, id=session.id, agent=session.agent, title=session.title,
            metadata=session.metadata, parent=parent, upto=session.upto, at=session.opened_at, control=int(control),
            owner=session.owner, private=int(session.private),
        )  # fmt: skip
        budget = budget or Budget()
        tx.run(
            "head_add", project=session.project_key, session=rows[0][0], state=str(State.OPENED), head=head,
            digest=digest, at=session.opened_at, epoch=0, budget_tokens=budget.tokens,
            budget_cost_micros=budget.cost_micros,
        )  # fmt: skip
        return msgspec.structs.replace(session, key=rows[0][0])

    def _first(self, tx: Transaction, session: Session, body: Body, actor: str) -> int:
        plan = self.plan(tx, session)
        seq = plan.note(body, actor)
        write(tx, [plan], self.blobs)
        return seq

    def plan(self, tx: Transaction, session: Session) -> Plan:
        return plan_from(session, tx.run("head_lock", project=session.project_key, session=session.key), {})

    def head_in(self, tx: Transaction, session: Session) -> Head:
        rows = tx.run("head_read", project=session.project_key, session=session.key)
        if not rows:
            raise NotFound(f"session {session.id} is not in this store")
        return head_from(rows[0][:-1])

    def _segments(self, tx: Transaction, session: Session) -> list[Segment]:
        if session.parent is None:
            return [Segment(session.key, session.id, 1, EVERYTHING)]
        return segments(tx.run("lineage", key=session.key), EVERYTHING)

    def _owner(self, tx: Transaction, session: Session, at: int | None) -> Segment:
        """Which ancestor wrote an event; every session wrote its own last one."""
        parts = self._segments(tx, session)
        return next((part for part in parts if at is not None and part.first <= at <= part.last), parts[-1])

    def events_in(self, tx: Transaction, project: int, key: int, session: str, rows: Iterable[Row]) -> list[Event]:
        decode, decoder_of = codec.decode, codec.DECODERS.get
        found = []
        for seq, position, at, said_at, actor, source, digest, kind, version, body, blob_digest, _ in rows:
            value: AnyBody
            try:
                if body is not None:
                    decoder = decoder_of((kind, version))
                    value = decoder(body) if decoder is not None else decode(kind, version, body)
                elif blob_digest is not None:
                    value = decode(kind, version, self.blob_in(tx, bytes(blob_digest)).decode())
                else:
                    value = Removed(kind=kind, how="erased" if kind == "erased" else "pruned", version=version)
            except UNREADABLE as error:
                raise Damaged(
                    f"event {seq} of session {session} cannot be read ({error}); run `clew verify {session}`, and read "
                    f"around it with --after {seq}",
                    session=session,
                    seq=seq,
                ) from error
            except NotFound:
                # Between the row and its blob the body was pruned: read the row as it is now.
                found += self._again(tx, project, key, session, seq, bytes(blob_digest))
                continue
            if source is not None and source.startswith(OWN_MARK):
                source = None
            found.append(Event(session, seq, position, at, said_at, actor, source, digest, value))
        return found

    def _readable(self, tx: Transaction, project: int, key: int, session: str, row: Row) -> list[Event]:
        """An event for the views: one that is damaged says nothing there, so that the others are found."""
        try:
            return self.events_in(tx, project, key, session, [row])
        except Damaged as error:
            if "place" in error.details:
                raise  # Not one event, but the whole database.
            seq, position, at, said_at, actor, source, digest, kind, version, *_ = row
            gone = Removed(kind=kind, how="damaged", version=version)
            return [Event(session, seq, position, at, said_at, actor, source, digest, gone)]

    def _again(self, tx: Transaction, project: int, key: int, session: str, seq: int, gone: bytes) -> list[Event]:
        rows = tx.run("events", project=project, session=key, first=seq, last=seq, limit=1)
        if rows and rows[0][10] is not None and bytes(rows[0][10]) == gone:
            raise Damaged(
                f"blob {gone.hex()}, the body of event {seq} of session {session}, is missing; restore it from a "
                "backup",
                session=session,
                seq=seq,
            )
        return self.events_in(tx, project, key, session, rows)

    def blob_in(self, tx: Transaction, digest: bytes) -> bytes:
        rows = tx.run("blob_read", digest=digest)
        if not rows:
            raise NotFound(f"no blob {digest.hex()} in this store")
        return blob.unpack(digest, self.blobs.fetch(digest, rows[0]))


def check_metadata(text: str) -> None:
    """Metadata is one JSON object."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        refuse_depth(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"metadata has to be a JSON object: {error}") from error


def session_from(row: Row) -> Session:
    id, key, project, project_key, agent, title, metadata, parent, upto, opened_at, owner, private = row
    return Session(
        id=id, key=key, project=project, project_key=project_key, agent=agent, title=title, metadata=metadata,
        parent=parent, upto=upto, opened_at=opened_at, owner=owner, private=bool(private),
    )  # fmt: skip


def head_from(row: Row) -> Head:
    return Head(*row)
