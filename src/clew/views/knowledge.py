"""What every session knows, with where each thing is from, so that it is recalled without reading a session."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, ClassVar

from clew.model import codec
from clew.model.events import Event, FactLearned
from clew.model.knowledge import KNOWING, Known, Tier, known_by
from clew.model.session import Session
from clew.store.derived import Transaction
from clew.views.contract import Bodies, storable

# A longer body stays in the log alone.
LONGEST_BODY = 256 * 1024


class KnowledgeView:
    """The fold of the knowledge."""

    name: ClassVar[str] = "knowledge"
    version: ClassVar[int] = 1
    bodies: ClassVar[Bodies] = KNOWING

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._rows: dict[int, dict[tuple[str, int], list[dict[str, Any]]]] = {}

    def add(self, key: int, event: Event) -> None:
        known = known_by(event)
        if known is None:
            return
        row = {"project": self._session(key).project_key, **_row(key, event.kind, known)}
        rows = self._rows.setdefault(key, {}).setdefault((row["tier"], row["name"]), [])
        for earlier in rows:
            earlier["valid"] = 0
        rows.append(row)

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        self._tx.run("known_drop", session=key)

    def finish(self) -> None:
        things = [rows for of_session in self._rows.values() for rows in of_session.values()]
        first = [{name: rows[0][name] for name in ("session", "tier", "name", "seq")} for rows in things]
        self._tx.many("known_end", first)
        self._tx.many("known_add", [row for rows in things for row in rows])

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("known_clear")


def _row(key: int, kind: str, known: Known) -> dict[str, Any]:
    body = None if known.body is None else codec.encode(known.body).decode()
    return {
        "session": key, "seq": known.seq, "tier": str(known.tier), "name": number(known.name), "kind": kind,
        "gone": int(known.body is None), "valid": int(known.body is not None and known.tier is not Tier.SCRATCH),
        "scope": storable(known.body.scope) if isinstance(known.body, FactLearned) else "", "at": known.at,
        "who": storable(known.who), "body": body if body is None or len(body) <= LONGEST_BODY else None,
    }  # fmt: skip


def number(name: str) -> int:
    """A name as a number of the database."""
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)


VIEW = KnowledgeView
