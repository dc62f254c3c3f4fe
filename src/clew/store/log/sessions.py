"""Looking sessions up: by a part of their id, by their key, in lists, and the control log of a project."""

from collections.abc import Iterable

import msgspec

from clew.model.errors import AmbiguousId, NotFound
from clew.model.ids import check_prefix
from clew.model.lineage import Segment, segments
from clew.model.session import Head, Session
from clew.store.database.contract import Database, Transaction
from clew.store.log.rows import EVERYTHING, Child, Listed, head_from, listed_from, session_from
from clew.store.reach import ReachParameters


def session_by_prefix(database: Database, prefix: str, reach: ReachParameters) -> Session:
    """The session with this id, or with the only id that begins so, among those in reach."""
    prefix = check_prefix(prefix)
    with database.read() as tx:
        rows = tx.run("session_by_prefix", prefix=prefix, beyond=prefix + "~", **reach)
    matches = [session_from(row) for row in rows]
    if not matches:
        raise NotFound(f"no session {prefix!r} in this store", session=prefix)
    if len(matches) > 1 and matches[0].id != prefix:
        ids = [session.id for session in matches]
        raise AmbiguousId(
            f"{prefix!r} is the beginning of several sessions ({', '.join(ids[:5])}"
            f"{' ...' if len(ids) > 5 else ''}); give a few more characters",
            session=prefix,
            candidates=ids,
        )
    return matches[0]


def session_in(tx: Transaction, key: int) -> Session:
    """The session with this key, which exists."""
    return session_from(tx.run("session_by_key", key=key)[0])


def sessions_with(database: Database, keys: Iterable[int]) -> list[Listed]:
    """The sessions with these keys, newest first."""
    with database.read() as tx:
        rows = tx.run("sessions_standing", keys=msgspec.json.encode(list(keys)).decode())
    return [listed_from(row) for row in rows]


def list_sessions(
    database: Database, *, project: str, agent: str, state: str, before: Session | None, limit: int
) -> list[Listed]:
    """Sessions, newest first."""
    key = before.key if before else EVERYTHING
    with database.read() as tx:
        rows = tx.run("session_list", project=project, agent=agent, state=state, before=key, limit=limit)
    return [listed_from(row) for row in rows]


def keys_of(database: Database, ids: Iterable[str]) -> dict[str, int]:
    """The keys of the sessions with these ids, as far as there are any."""
    wanted = msgspec.json.encode(sorted(ids)).decode()
    with database.read() as tx:
        return dict(tx.run("keys_of_sessions", sources=wanted))


def control_session(database: Database, project: str) -> Session | None:
    """The control log of a project, if it has one."""
    with database.read() as tx:
        rows = tx.run("control_session", project=project)
    return session_from(rows[0]) if rows else None


def head_in(tx: Transaction, session: Session) -> Head:
    """Where the session stands now."""
    rows = tx.run("head_read", project=session.project_key, session=session.key)
    if not rows:
        raise NotFound(f"session {session.id} is not in this store")
    return head_from(rows[0][:-1])


def lineage(database: Database, session: Session) -> list[Segment]:
    """Which ancestor wrote which part of this session's history, oldest first."""
    if session.parent is None:
        return [Segment(session.key, session.id, 1, EVERYTHING)]
    with database.read() as tx:
        return lineage_in(tx, session)


def lineage_in(tx: Transaction, session: Session) -> list[Segment]:
    """The lineage, read inside a transaction."""
    if session.parent is None:
        return [Segment(session.key, session.id, 1, EVERYTHING)]
    return segments(tx.run("lineage", key=session.key), EVERYTHING)


def children(database: Database, session: Session, reach: ReachParameters) -> list[Child]:
    """The direct forks of this session's own events that are in reach."""
    with database.read() as tx:
        return [Child(id, upto) for _, id, upto in tx.run("children", key=session.key, **reach)]
