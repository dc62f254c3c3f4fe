"""Thinning: of old snapshots one of each hour is kept, and later one of each day.

A thinned snapshot loses its body, like all that retention removes, so its files are deleted when nothing else names
them. Seq, kind, time and seal stay, and the session records what was thinned. Never thinned are:

- the newest snapshot of a session, and the one that a fork or an artifact stands on
- what a person gave a label, what a restore kept before it began, and a restore of some files only
- every snapshot of a session on legal hold
"""

from collections.abc import Iterable, Iterator

import msgspec

from clew.model.events import ArtifactSaved, BodiesPruned, Event, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.retention import DAY_US, ranges
from clew.model.session import Session, State
from clew.store.database.contract import Transaction
from clew.store.log.decoding import decoder_of
from clew.store.log.opening import plan_in
from clew.store.log.removal import remove_bodies
from clew.store.log.retention import policies_in, policy_for
from clew.store.log.rows import EVERYTHING, EventRow
from clew.store.log.sessions import session_in
from clew.store.log.writing import write
from clew.store.store import Store

HOUR_US = DAY_US // 24
KINDS = (WorkspaceSnapshotted.kind, WorkspaceRestored.kind)
# The label of a snapshot that nobody asked for.
AUTOMATIC = "automatic"
# What a note of thinning begins with.
THINNED = "snapshots: "


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """For how long all snapshots are kept, and for how long one of each hour; of what is older, one of each day."""

    all_us: int = DAY_US
    hourly_us: int = 7 * DAY_US

    def __str__(self) -> str:
        return f"{THINNED}all of {_words(self.all_us)}, then one an hour for {_words(self.hourly_us)}, then one a day"

    def is_kept(self, age_us: int) -> bool:
        return age_us < self.all_us

    def bucket(self, at: int, age_us: int) -> tuple[str, int]:
        """The hour or the day of which one snapshot is kept."""
        return ("hour", at // HOUR_US) if age_us < self.hourly_us else ("day", at // DAY_US)


USUAL = Rule()
# For a project that is over its quota.
STRICT = Rule(all_us=HOUR_US, hourly_us=DAY_US)


class Thinned(msgspec.Struct, frozen=True, kw_only=True):
    """How many snapshots of a session were thinned, and how many it still has."""

    session: str
    snapshots: int
    kept: int


def sessions_with_snapshots(store: Store, project: str = "") -> list[Session]:
    """The sessions that have snapshots of their own, in every project or in one."""
    names = msgspec.json.encode(KINDS).decode()
    with store.database.read() as tx:
        if not tx.run("manifests_any"):
            return []
        sessions = [session_in(tx, key) for (key,) in tx.run("sessions_with_kinds", kinds=names)]
    return [session for session in sessions if project in ("", session.project)]


def thin(store: Store, session: Session, *, actor: str, rule: Rule = USUAL, now: int | None = None) -> Thinned:
    """Thin the snapshots that a session wrote itself, in one transaction."""
    with store.database.write() as tx:
        plan = plan_in(tx, session)
        now = now or int(tx.run("now")[0][0])
        rows = snapshot_rows(tx, session)
        is_fixed = plan.head.state == State.ERASED or _is_held(tx, session)
        thinned = [] if is_fixed else _thinned(store, tx, session, rows, rule, now)
        if thinned:
            remove_bodies(store, tx, session, thinned, "event_remove")
            plan.note(BodiesPruned(ranges=ranges([row.seq for row in thinned]), policy=str(rule)), actor)
            # The note does not count as activity of the session.
            plan.active_at = plan.start.at
            write(tx, [plan], store.pack_stores)
    return Thinned(session=session.id, snapshots=len(thinned), kept=len(rows) - len(thinned))


def snapshots_of(store: Store, session: Session) -> Iterator[Event]:
    """The snapshots and restores that a session wrote itself and that still have their bodies, in order."""
    with store.database.read() as tx:
        rows = snapshot_rows(tx, session)
    decoder = decoder_of(store, project=session.project_key, key=session.key, session=session.id)
    return map(decoder.event, rows)


def snapshot_rows(tx: Transaction, session: Session) -> list[EventRow]:
    """The snapshots and restores that a session wrote itself and that still have their bodies, in order."""
    rows = _rows(tx, session, KINDS)
    return [row for row in rows if row.body is not None or row.blob is not None]


def _rows(tx: Transaction, session: Session, kinds: Iterable[str]) -> list[EventRow]:
    bounds = {"project": session.project_key, "session": session.key, "first": 1, "last": EVERYTHING}
    rows = [EventRow(*row) for kind in kinds for row in tx.run("events_of_kind", kind=kind, limit=EVERYTHING, **bounds)]
    return sorted(rows, key=lambda row: row.seq)


def _is_held(tx: Transaction, session: Session) -> bool:
    policy = policy_for(policies_in(tx), session)
    return policy is not None and policy.hold


def _thinned(
    store: Store, tx: Transaction, session: Session, rows: list[EventRow], rule: Rule, now: int
) -> list[EventRow]:
    """The snapshots that go, oldest first."""
    decoder = decoder_of(store, project=session.project_key, key=session.key, session=session.id)
    events = {row.seq: decoder.event(row) for row in rows}
    points = [event for event in events.values() if _is_point(event)]
    artifacts = [decoder.event(row) for row in _rows(tx, session, [ArtifactSaved.kind])]
    stands_on = {upto for _, _, upto in tx.run("children", key=session.key)} | {event.seq for event in artifacts}
    kept = _needed(points, stands_on, {getattr(event.body, "blob", "") for event in artifacts})
    buckets: set[tuple[str, int]] = set()
    thinned = set()
    for event in reversed(points):
        age = now - event.at
        if rule.is_kept(age):
            continue
        bucket = rule.bucket(event.at, age)
        if bucket in buckets and event.seq not in kept:
            thinned.add(event.seq)
        buckets.add(bucket)
    return [row for row in rows if row.seq in thinned]


def _needed(points: list[Event], stands_on: set[int], artifacts: set[str]) -> set[int]:
    """The snapshots that stay whatever their age: the newest, and those that something stands on."""
    seqs = [event.seq for event in points]
    needed = {*seqs[-1:], *(max((seq for seq in seqs if seq <= at), default=0) for at in stands_on)}
    return needed | {
        event.seq for event in points if _label(event) not in ("", AUTOMATIC) or _tree(event) in artifacts - {""}
    }


def _is_point(event: Event) -> bool:
    """Whether it is a state that the session was in, and not kept aside for an undo."""
    body = event.body
    if isinstance(body, WorkspaceSnapshotted):
        return not body.restores
    return isinstance(body, WorkspaceRestored) and not body.paths


def _label(event: Event) -> str:
    return event.body.label if isinstance(event.body, WorkspaceSnapshotted) else ""


def _tree(event: Event) -> str:
    return event.body.blob if isinstance(event.body, WorkspaceSnapshotted | WorkspaceRestored) else ""


def _words(us: int) -> str:
    days, hours = us // DAY_US, us // HOUR_US
    return f"{days} day{'s' * (days != 1)}" if days else f"{hours} hour{'s' * (hours != 1)}"
