"""A session as it is shown everywhere: in lists, by itself, with its budget. It is made here and nowhere else."""

from collections.abc import Sequence

import msgspec

from clew.model.labels import NOTE, STAR, TAG, Label
from clew.model.session import Session, status_of
from clew.service.find.spending import counted_against_budget, share_of, used_by
from clew.service.kernel.context import Context
from clew.service.sessions.info import SessionInfo, info
from clew.views.sessions import SessionRow, session_row


class SessionLine(SessionInfo, frozen=True, kw_only=True, omit_defaults=True):
    """A session as lists show it.

    `began_at` and `last_at` are when things happened, as the runtime's clock says; `opened_at` and `stored_at` are when
    the log took the first event and the last one. `status` is the state as a person sees it.

    Turns, calls, errors, tokens and cost are the session's own; what it shares with the session it was forked from
    counts there. `tokens` are those newly processed, `cached_tokens` those read from a cache. `cost_micros` is None
    when no price is known. `spent_tokens` and `spent_cost_micros` are what counts against the budget, `budget_used` how
    much of it they are. `starred` is whether the caller starred it, `notes` how many notes there are about it.
    """

    status: str = ""
    runtime: str = ""
    person: str = ""
    machine: str = ""
    folder: str = ""
    outcome: str = ""
    turns: int = 0
    calls: int = 0
    errors: int = 0
    began_at: int = 0
    stored_at: int = 0
    tokens: int = 0
    cached_tokens: int = 0
    cost_micros: int | None = None
    budget_used: float | None = None
    tags: tuple[str, ...] = ()
    starred: bool = False
    notes: int = 0


def session_line(context: Context, session: Session) -> SessionLine:
    """A session as lists show it now."""
    context.views.catch_up()
    with context.views.read() as tx:
        rows = [session_row(row) for row in tx.run("sessions_row", session=session.key)]
    # A control log is in no list.
    unlisted = SessionRow(session=session.key, project=session.project_key, id=session.id, title=session.title)
    return session_lines(context, rows or [unlisted])[0]


def session_lines(context: Context, rows: Sequence[SessionRow]) -> list[SessionLine]:
    """The lines of these rows; the log itself says where each session stands."""
    keys = [row.session for row in rows]
    used = used_by(context, keys)
    labels = labels_by_key(context, keys)
    by_key = {listed.session.key: listed for listed in context.store.sessions(keys=keys)}
    now = context.store.now()
    lines = []
    for row in rows:
        session, head = by_key[row.session].session, by_key[row.session].head
        counts = used[row.session]
        tokens, cost = counted_against_budget(context, session, head, counts)
        last_at = row.last_at or head.at
        own_labels = labels[row.session]
        values = msgspec.structs.asdict(info(context, session, head)) | {
            "title": row.title, "last_at": last_at, "began_at": row.began_at or session.opened_at, "stored_at": head.at,
            "status": str(status_of(head.state, is_waiting=bool(row.waiting), last_at=last_at, now=now)),
            "runtime": row.runtime, "person": row.person, "machine": row.machine, "folder": row.folder,
            "outcome": row.outcome, "turns": row.turns, "calls": row.calls, "errors": row.errors,
            "tokens": counts.tokens, "cached_tokens": counts.cache_read, "cost_micros": counts.money,
            "spent_tokens": tokens, "spent_cost_micros": cost, "budget_used": share_of(head.budget, tokens, cost),
        }  # fmt: skip
        if own_labels:  # Few sessions have any.
            values |= {
                "tags": tuple(sorted(label.name for label in own_labels if label.kind == TAG)),
                "starred": any(label.kind == STAR for label in own_labels),
                "notes": sum(label.kind == NOTE for label in own_labels),
            }
        lines.append(SessionLine(**values))
    return lines


def labels_of(context: Context, session: Session) -> list[Label]:
    """The labels of a session now; of its stars, only the caller's."""
    context.views.catch_up()
    return labels_by_key(context, [session.key])[session.key]


def labels_by_key(context: Context, keys: Sequence[int]) -> dict[int, list[Label]]:
    """The labels of these sessions; of their stars, only the caller's."""
    labels: dict[int, list[Label]] = {key: [] for key in keys}
    with context.views.read() as tx:
        rows = tx.run("labels_of", keys=msgspec.json.encode(sorted(keys)).decode(), principal=context.principal)
    for label in (Label(*row) for row in rows):
        labels[label.session].append(label)
    return labels
