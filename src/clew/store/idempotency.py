"""Answers to requests with an Idempotency-Key: which request has a key, and what it was answered.

A row is added once and never changed. `Receipt` (log/plan.py) adds one in the commit of the events it is about.
"""

from typing import NamedTuple

from clew.store import Store


class StoredAnswer(NamedTuple):
    """What is stored under a key: the digest of the request, and the status and body of its answer."""

    request: bytes
    status: int
    body: bytes


def read_answer(store: Store, principal: str, key: str) -> StoredAnswer | None:
    """What is stored under a principal's key."""
    with store.unrestricted.database.read() as tx:
        rows = tx.run("answer_read", principal=principal, key=key)
    return StoredAnswer(bytes(rows[0][0]), int(rows[0][1]), bytes(rows[0][2])) if rows else None


def add_answer(store: Store, principal: str, key: str, answer: StoredAnswer) -> bool:
    """Store an answer under a key, unless there is one; returns whether this one was stored."""
    with store.database.write() as tx:
        return bool(
            tx.run(
                "answer_add", principal=principal, key=key, request=answer.request, status=answer.status,
                answer=answer.body,
            )
        )  # fmt: skip


def oldest_answer(store: Store, *, age_us: int) -> int | None:
    """When the oldest of the answers that are older than this was given; None if there is none."""
    with store.unrestricted.database.read() as tx:
        rows = tx.run("answer_oldest", age=age_us)
    return int(rows[0][0]) if rows else None


def forget_answers(store: Store, *, age_us: int) -> int:
    """Remove the answers that are older than this; returns how many."""
    with store.database.write() as tx:
        return len(tx.run("answers_forget", age=age_us))
