"""Opening: a new session, a child that shares its parent's history, and either of them under an id it has elsewhere.

Every session enters the log here: its row, its head and its first event are written in one transaction.
"""

from typing import TYPE_CHECKING

import msgspec

from clew.model.depth import refuse_depth
from clew.model.errors import InvalidInput, WrongState
from clew.model.events import Budget, SessionForked, SessionOpened
from clew.model.ids import check_name, new_id
from clew.model.session import Head, Session, State
from clew.store.database.contract import Transaction
from clew.store.log.plan import Plan, plan_from
from clew.store.log.sessions import head_in, lineage_in

if TYPE_CHECKING:
    from clew.store.project_places import CapturedFrom

# As long as every index can tell it from another.
LONGEST_AGENT = 500


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A new session. `id` is given when it has one elsewhere; `control` is for a project's own record."""

    project: str
    agent: str = ""
    title: str = ""
    metadata: str = "{}"
    budget: Budget | None = None
    private: bool = False
    id: str | None = None
    control: bool = False
    captured_from: "CapturedFrom | None" = None
    """The places of a captured session; they say which project it is, should another capture have made it meanwhile."""


class Forking(msgspec.Struct, frozen=True, kw_only=True):
    """A child that reads `parent` up to and including the event `at`, by default the last one.

    What is None is the parent's. A child of a private session is private.
    """

    parent: Session
    at: int | None = None
    title: str | None = None
    metadata: str | None = None
    private: bool = False
    id: str | None = None
    unmetered: int = 0
    """The money that the parent used of its budget and that no program reported."""


def check(opening: Opening | Forking, actor: str) -> None:
    """Refuse what no database can hold, before anything is written."""
    check_name(actor, "the actor")
    check_name(opening.title or "", "the title")
    if opening.metadata is not None:
        check_metadata(opening.metadata)
    if isinstance(opening, Opening):
        check_name(opening.agent, "the agent", longest=LONGEST_AGENT)
        if not check_name(opening.project, "the project", longest=200):
            raise InvalidInput("a session needs a project; leave it out for 'default'")


def check_metadata(text: str) -> None:
    """Metadata is one JSON object."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        refuse_depth(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"metadata has to be a JSON object: {error}") from error


def open_in(tx: Transaction, opening: Opening | Forking, actor: str) -> Plan:
    """Add the session and plan its first event; the caller writes the plan in the same transaction."""
    return _open_session(tx, opening, actor) if isinstance(opening, Opening) else _open_child(tx, opening, actor)


def _open_session(tx: Transaction, opening: Opening, actor: str) -> Plan:
    project_key, project = _project(tx, opening)
    session = Session(
        id=opening.id or new_id(), key=0, project=project, project_key=project_key, opened_in=project,
        agent=opening.agent, title=opening.title, metadata=opening.metadata, opened_at=_now(tx), owner=actor,
        private=opening.private,
    )  # fmt: skip
    session = _add(tx, session, parent=None, head=0, digest=bytes(32), budget=Budget(), control=opening.control)
    body = SessionOpened(
        agent=opening.agent, project=project, title=opening.title,
        metadata=msgspec.Raw(opening.metadata.encode()), budget=opening.budget, private=opening.private,
    )  # fmt: skip
    plan = plan_in(tx, session)
    plan.note(body, actor)
    return plan


def _project(tx: Transaction, opening: Opening) -> tuple[int, str]:
    if opening.captured_from is None:
        return project_in(tx, opening.project)
    from clew.store.project_places import settle_in  # Only captures need it.

    return settle_in(tx, opening.captured_from)


def _open_child(tx: Transaction, forking: Forking, actor: str) -> Plan:
    """The child hangs on whichever ancestor wrote the event, so that a line of forks is as short as it can be."""
    parent = forking.parent
    parts = lineage_in(tx, parent)
    at = forking.at
    # Every session wrote its own last event.
    owner = next((part for part in parts if at is not None and part.first <= at <= part.last), parts[-1])
    # The owner first: it is older, and locks are taken from old to young.
    for key in sorted({owner.key, parent.key}):
        rows = tx.run("head_lock", project=parent.project_key, session=key)
        if not rows or rows[0][0] == State.ERASED:
            raise WrongState(
                f"session {parent.id}, or what it reads, was erased and cannot be forked; open a new one",
                state="erased",
            )
    head = head_in(tx, parent)
    at = head.head if at is None else at
    if not 1 <= at <= head.head:
        raise InvalidInput(
            f"session {parent.id} has events 1 to {head.head}; it cannot be forked at {at}", head=head.head, at=at
        )
    [(digest,)] = tx.run("event_digest", project=parent.project_key, session=owner.key, seq=at)
    child = Session(
        id=forking.id or new_id(), key=0, project=parent.project, project_key=parent.project_key,
        opened_in=parent.opened_in, agent=parent.agent,
        title=parent.title if forking.title is None else forking.title,
        metadata=parent.metadata if forking.metadata is None else forking.metadata, parent=owner.id, upto=at,
        opened_at=_now(tx), owner=actor, private=forking.private or parent.private,
    )  # fmt: skip
    child = _add(tx, child, parent=owner.key, head=at, digest=bytes(digest), budget=head.budget, control=False)
    plan = plan_in(tx, child)
    # Whoever forks a session that has a budget does not begin with nothing spent.
    spent = head if head.budget != Budget() else Head(state=State.OPENED, head=0, digest=b"")
    forked = SessionForked(
        parent=parent.id, upto=at, title=child.title, private=child.private, spent_tokens=spent.spent_tokens,
        spent_cost_micros=spent.spent_cost_micros + forking.unmetered,
    )  # fmt: skip
    plan.note(forked, actor)
    return plan


def project_in(tx: Transaction, name: str) -> tuple[int, str]:
    """The key and the name of the project that has or had this name; it is made if it is not there."""
    rows = tx.run("project_named", name=name)
    if not rows:
        tx.run("project_add", name=name)
        rows = tx.run("project_named", name=name)
    key, name = rows[0]
    return int(key), name


def plan_in(tx: Transaction, session: Session) -> Plan:
    """Lock the head of a session and plan from there."""
    return plan_from(session, tx.run("head_lock", project=session.project_key, session=session.key), {})


def _add(
    tx: Transaction, session: Session, *, parent: int | None, head: int, digest: bytes, budget: Budget, control: bool
) -> Session:
    [(key,)] = tx.run(
        "session_add", project=session.project_key, id=session.id, agent=session.agent, title=session.title,
        metadata=session.metadata, parent=parent, upto=session.upto, at=session.opened_at, control=int(control),
        owner=session.owner, private=int(session.private),
    )  # fmt: skip
    tx.run(
        "head_add", project=session.project_key, session=key, state=str(State.OPENED), head=head, digest=digest,
        at=session.opened_at, epoch=0, budget_tokens=budget.tokens, budget_cost_micros=budget.cost_micros,
    )  # fmt: skip
    return msgspec.structs.replace(session, key=key)


def _now(tx: Transaction) -> int:
    [(now,)] = tx.run("now")
    return int(now)
