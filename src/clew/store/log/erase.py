"""Erasure: remove everything a session holds, beyond recovery by this program. The chain still verifies afterwards.

Bodies go, with the references they held on blobs, and sources, actors, title and metadata. Seq, kind, time and seal
stay, and the session records its own erasure.
"""

import msgspec

from clew.model.errors import HasForks, OnHold
from clew.model.events import SessionErased
from clew.model.session import Session, State
from clew.store.database.contract import Transaction
from clew.store.log.opening import plan_in
from clew.store.log.removal import remove_bodies, rows_of
from clew.store.log.retention import policies_in, policy_for
from clew.store.log.sessions import head_in, session_in
from clew.store.log.writing import write
from clew.store.native_files.updates import erase_files
from clew.store.objects.collection import collect
from clew.store.store import Store

# What is still recoverable when free space was not overwritten.
NOT_OVERWRITTEN = (
    "free space of the database and attached files, until they are reused or collected; "
    "only an owner can overwrite them"
)


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, and what this program cannot reach."""

    session: str
    events: int
    blobs: int
    beyond_reach: list[str]


def descendants(store: Store, session: Session) -> list[Session]:
    """The session and every living fork below it, parents before children."""
    with store.database.read() as tx:
        return _descendants(tx, session)


def erase(
    store: Store, session: Session, *, actor: str, reason: str = "", with_forks: bool = False, overwrite: bool = True
) -> list[Erased]:
    """Erase a session, and its forks if asked to, beyond recovery by this program.

    Without `overwrite` free space is not overwritten; overwriting it blocks every other writer.
    """
    doomed = descendants(store, session)
    forks = [fork.id for fork in doomed[1:]]
    if forks and not with_forks:
        raise HasForks(
            f"{len(forks)} other session(s) read events of {session.id} ({', '.join(forks[:5])}); erase the forks "
            "first, or erase them together with this session",
            session=session.id,
            forks=forks,
        )
    for doomed_session in doomed:
        with store.database.read() as tx:
            _refuse_if_held(tx, doomed_session)
    # A session that was erased before is only overwritten again: a reader may have prevented it the last time.
    counts = [
        (0, 0)
        if store.head(doomed_session).state == State.ERASED
        else _erase(store, doomed_session, actor=actor, reason=reason)
        for doomed_session in reversed(doomed)
    ]
    beyond = [NOT_OVERWRITTEN]
    if overwrite:
        collect(store, abandoned_us=0)
        beyond = store.database.overwrite_free_space()
    return [
        Erased(session=doomed_session.id, events=events, blobs=blobs, beyond_reach=beyond)
        for doomed_session, (events, blobs) in zip(reversed(doomed), counts, strict=True)
    ]


def _descendants(tx: Transaction, session: Session) -> list[Session]:
    """The session and every living fork below it, parents before children."""
    sessions = [session]
    for parent in sessions:
        for key, _, _ in tx.run("children", key=parent.key):
            child = session_in(tx, key)
            if head_in(tx, child).state != State.ERASED:
                sessions.append(child)
    return sessions


def _erase(store: Store, session: Session, *, actor: str, reason: str) -> tuple[int, int]:
    with store.database.write() as tx:
        plan = plan_in(tx, session)
        # Check again: from here on no caller can fork it or put it on hold. Its forks were erased first.
        _refuse_if_held(tx, session)
        if len(_descendants(tx, session)) > 1:
            raise HasForks(
                f"session {session.id} was forked while it was being erased; erase it again", session=session.id
            )
        rows = rows_of(tx, session)
        blobs = remove_bodies(store, tx, session, rows, "event_erase")
        erase_files(tx, session)
        plan.note(SessionErased(events=len(rows), reason=reason), actor)
        write(tx, [plan], store.pack_stores)
        tx.run("session_erase", project=session.project_key, session=session.key)
        tx.run("places_forget", project=session.project_key, session=session.key)
        tx.run("grants_erase", session=session.id)
        tx.run("answers_about", session=session.id)
        # A new epoch, so that no earlier lease holder can write into the erased session.
        tx.run("head_erase", project=session.project_key, session=session.key)
    return len(rows), blobs


def _refuse_if_held(tx: Transaction, session: Session) -> None:
    policy = policy_for(policies_in(tx), session)
    if policy is not None and policy.hold:
        raise OnHold(
            f"session {session.id} is under a legal hold ({policy}); it was not erased: lift the hold first",
            session=session.id,
        )
