"""The usage view: the tokens of every answer of a model, and their sums by quarter of an hour."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

import msgspec

from clew.model.events import Event, TurnEnded
from clew.model.session import SPENDING, Session
from clew.model.source import identity
from clew.store.derived import Row, Transaction
from clew.views.contract import LATEST, Bodies, storable, when

# The log has a provider's figures unchecked; larger ones would overflow the database's sums.
MOST = 2**40
UNIQUE_LENGTH = 16
# The days of every zone begin with a quarter of an hour.
QUARTER_US = 900_000_000
COUNTS = ("input", "output", "cache_read", "cache_write", "cache_write_hour", "reasoning", "cost_micros")


def answer_of(event: Event, session: Session) -> int:
    """The answer that an event belongs to, as a hash of the provider's id; without an id, of session and seq.

    Providers' ids are long. A short id is a runtime's own number, which is unique only within its session. An id counts
    inside a project and for one owner, so that nobody takes the answers of others by telling their ids first.
    """
    message = "" if isinstance(event.body, TurnEnded) else getattr(event.body, "message", "")
    own = f"{event.session}:{message}" if message else f"{event.session}:{event.seq}"
    name = f"{session.project_key} {session.owner} {message}" if len(message) >= UNIQUE_LENGTH else own
    return _number(name)


def record_of(event: Event) -> int:
    """The record an event came from, as a hash; a revision replaces the earlier record."""
    return _number(identity(event.source) or f"#{event.seq}")


def _number(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


class UsageSum(NamedTuple):
    """What was used of a model, apart by whether the runtime said itself what it cost.

    The columns that the statement did not group by are 0 or empty.
    """

    model: str
    is_reported: int
    span: int
    """Days or hours since 1970-01-01."""
    session: int
    project: int
    agent: str
    person: str
    runtime: str
    machine: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_hour: int
    reasoning: int
    cost_micros: int
    answers: int


def usage_sum(row: Row) -> UsageSum:
    # PostgreSQL gives sums as decimals.
    return UsageSum(*row[:9], *map(int, row[9:]))


class HourSum(NamedTuple):
    """What was used of a model in an hour, and when in it the first and the last answer were."""

    spent: UsageSum
    first_at: int
    last_at: int


def hour_sum(row: Row) -> HourSum:
    *counts, first_at, last_at = row
    return HourSum(usage_sum(tuple(counts)), int(first_at), int(last_at))


class UsageView:
    """The fold of usage."""

    name: ClassVar[str] = "usage"
    version: ClassVar[int] = 3
    bodies: ClassVar[Bodies] = SPENDING

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._sessions: dict[int, Session] = {}
        self._rows: dict[int, list[dict[str, Any]]] = {}
        # The quarters to be summed up again, as (session, number).
        self._changed: set[tuple[int, int]] = set()

    def add(self, key: int, event: Event) -> None:
        body = event.body
        if not isinstance(body, SPENDING) or body.usage is None:
            return
        used = body.usage
        row: dict[str, Any] = {
            "project": self._session_with(key).project_key, "session": key, "record": record_of(event),
            "message": answer_of(event, self._session_with(key)),
            "position": event.position, "seq": event.seq, "at": min(when(event), LATEST),
            "model": storable(f"{body.model}-fast" if used.fast else body.model),
            "input": used.input, "output": used.output, "cache_read": used.cache_read,
            "cache_write": used.cache_write, "cache_write_hour": used.cache_write_hour, "reasoning": used.reasoning,
            "cost_micros": used.cost_micros,
        }  # fmt: skip
        if not all(0 <= row[name] <= MOST for name in COUNTS):
            row |= {name: min(max(row[name], 0), MOST) for name in COUNTS}
        self._rows.setdefault(key, []).append(row)

    def _session_with(self, key: int) -> Session:
        if key not in self._sessions:
            self._sessions[key] = self._session(key)
        return self._sessions[key]

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        # An answer that this session had first counts for another one that has it, too.
        self._changed = {quarter for quarter in self._changed if quarter[0] != key}
        self._changed.update((session, number) for session, number in self._tx.run("usage_shared", session=key))
        self._tx.run("usage_drop", session=key)
        self._tx.run("quarters_drop", session=key)

    def finish(self) -> None:
        rows = [row for session_rows in self._rows.values() for row in session_rows]
        if rows:
            self._changed.update(self._quarters_of(rows))
            self._changed.update((row["session"], row["at"] // QUARTER_US) for row in rows)
            self._tx.many("usage_add", rows)
        quarters = [{"session": session, "number": number} for session, number in sorted(self._changed)]
        self._tx.many("quarter_remove", quarters)
        self._tx.many("quarter_add", quarters)

    def _quarters_of(self, rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
        """The quarters of all records of the answers that these rows change: another record may now count."""
        answers = {row["message"] for row in rows}
        for key, session_rows in self._rows.items():
            records = _keys({row["record"] for row in session_rows})
            answers |= {answer for (answer,) in self._tx.run("usage_recorded", session=key, keys=records)}
        return [(session, number) for session, number in self._tx.run("usage_quarters", keys=_keys(answers))]

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("usage_clear")
        tx.run("quarters_clear")


def _keys(numbers: set[int]) -> str:
    return msgspec.json.encode(sorted(numbers)).decode()


VIEW = UsageView
