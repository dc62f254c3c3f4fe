"""Receiving: events that come from another store enter this one under the sources they have there.

A source names an event in every store. An event without one goes by the id of the store that wrote it, its seq there
and the beginning of its digest; a store that meets its own id checks whether the event is its own, through all
ancestors of the session. So an event that is sent twice, or that comes back, is stored once.
"""

from collections.abc import Iterable, Sequence

import msgspec

from clew.model.errors import BudgetExceeded
from clew.model.events import Body, Draft, Event, Opaque, SessionResumed
from clew.model.ids import check_name, new_id
from clew.model.lineage import Segment
from clew.model.session import LIFECYCLE, Session, State, apply
from clew.store.access.settings import list_settings
from clew.store.database.contract import Transaction
from clew.store.log.opening import plan_in
from clew.store.log.plan import Plan, Request
from clew.store.log.prepare import Prepared, prepare
from clew.store.log.writing import write
from clew.store.projects import control_log
from clew.store.store import Store

STORE_ID = "store_id"
MARK = "clew"
TAG = 8
RESUMED = SessionResumed(reason="it went on elsewhere")


class ReceivedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that another store sent."""

    body: Body | Opaque
    source: str
    actor: str
    said_at: int | None = None


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the events: how many are new here, how many were here already, and the head now."""

    head: int
    stored: int
    known: int


def store_id(store: Store) -> str:
    """The random name of this store, given when it is first asked for."""
    return list_settings(store).get(("", STORE_ID)) or _name(store)


def _name(store: Store) -> str:
    """Name the store, once. Concurrent callers wait, on PostgreSQL for the lock of a control log."""
    log = control_log(store, MARK, MARK) if store.database.remote else None
    with store.database.write() as tx:
        if log is not None:
            plan_in(tx, log)
        for project, name, value in tx.run("settings"):
            if (project, name) == ("", STORE_ID):
                return str(value)
        made = new_id()
        tx.run("setting_set", project="", name=STORE_ID, value=made)
    return made


def source_of(event: Event, own: str) -> str:
    """What an event goes by in every store."""
    return event.source or f"{MARK}:{own}:{event.seq}:{event.digest.hex()[:TAG]}"


def find(store: Store, session: Session, source: str, own: str) -> int | None:
    """The seq of the event with this source, in the session or an ancestor."""
    line = store.lineage(session)
    with store.database.read() as tx:
        return _known(tx, session, line, [source], own).get(source)


def receive(store: Store, session: Session, received: Sequence[ReceivedEvent], *, own: str) -> Arrived:
    """Store what is new of the events, in their order and all or none.

    The session may stand elsewhere than where the events were written. What is said after a pause resumes it, and a
    step that it cannot take, because another writer took it before, is dropped.
    """
    for event in received:
        check_name(event.actor, "the actor")
    drafts = [
        prepare(Draft(body=event.body, source=event.source, said_at=event.said_at), store.pack_stores)
        for event in received
    ]  # fmt: skip
    line = store.lineage(session)
    with store.database.write() as tx:
        plan = plan_in(tx, session)
        known = _known(tx, session, line, [event.source for event in received], own)
        start = plan.seq
        by_source = {event.source: (event, draft) for event, draft in zip(received, drafts, strict=True)}
        for actor, run in _runs([pair for source, pair in by_source.items() if source not in known]):
            _take(plan, actor, run)
        write(tx, [plan], store.pack_stores)
    return Arrived(head=plan.seq, stored=plan.seq - start, known=len(known))


def _runs(fresh: Iterable[tuple[ReceivedEvent, Prepared]]) -> Iterable[tuple[str, list[Prepared]]]:
    """The events of one actor in a row; every step of the lifecycle by itself."""
    actor, run = "", list[Prepared]()
    for event, draft in fresh:
        if run and (event.actor != actor or _is_step(event.body) or _is_step(run[-1].body)):
            yield actor, run
            run = []
        actor = event.actor
        run.append(draft)
    if run:
        yield actor, run


def _is_step(body: Body | Opaque) -> bool:
    return body.step not in ("work", "knowledge") or is_stand_in(body)


def is_stand_in(body: Body | Opaque) -> bool:
    """Whether it only records that something happened in another store; no session is resumed for that."""
    return isinstance(body, Opaque) and body.kind.startswith(f"{MARK}.")


def _take(plan: Plan, actor: str, run: list[Prepared]) -> None:
    body, state = run[0].body, plan.head.state
    if body.step not in LIFECYCLE[state]:
        if is_stand_in(body) or (body.step not in ("work", "knowledge") and state != State.ERASED):
            return
        if state not in (State.PAUSED, State.CLOSED):
            apply(plan.head, body, plan.session.id)  # Raises: an archived session takes nothing more.
        if plan.head.over_budget:
            raise BudgetExceeded(
                f"session {plan.session.id} is over its budget and paused; nothing more is taken until it is raised",
                session=plan.session.id,
            )
        plan.note(RESUMED, actor)
    plan.add(Request(plan.session, run, actor))


def _known(
    tx: Transaction, session: Session, line: Sequence[Segment], sources: Sequence[str], own: str
) -> dict[str, int]:
    """The seqs of those sources that are in the session or in what it reads of its ancestors."""
    seqs: dict[str, int] = {}
    wanted = msgspec.json.encode(sorted(set(sources))).decode()
    for part in line:
        rows = tx.run("events_by_source", project=session.project_key, session=part.key, sources=wanted)
        seqs |= {source: seq for source, seq, *_ in rows if part.first <= seq <= part.last}
    for source in set(sources) - seqs.keys():
        seq, tag = _own(source, own)
        for part in line:
            if part.first <= seq <= part.last:
                rows = tx.run("event_digest", project=session.project_key, session=part.key, seq=seq)
                if rows and bytes(rows[0][0]).hex()[:TAG] == tag:
                    seqs[source] = seq
    return seqs


def _own(source: str, own: str) -> tuple[int, str]:
    """The seq and the tag in a source that this store gave; 0 for any other."""
    mark, _, rest = source.partition(":")
    where, _, rest = rest.partition(":")
    seq, _, tag = rest.partition(":")
    return (int(seq), tag) if (mark, where) == (MARK, own) and seq.isdecimal() and len(seq) < 19 else (0, "")
