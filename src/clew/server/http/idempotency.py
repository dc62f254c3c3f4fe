"""Requests that come twice under one `Idempotency-Key`: the second gets the answer of the first.

A key is claimed before the operation runs, by a row that only one of two racing requests can add, in whichever process.
What came of it is a second row. Rows are only added, as in the log: an attempt that came to nothing ends with a row
that says so, and the next one claims the place after it. A claim without an end means that the request still runs, or
that its process died; what it did is then unknown, and is said to be.
"""

import hashlib
import os
import re
from typing import NamedTuple

from clew.model.errors import Conflict, InvalidInput
from clew.server.http.problems import Refused
from clew.store import Store

KEY = re.compile(r"[!-~]{1,200}")
DAY_US = 86_400_000_000
# After this long a claim without an end is one whose process died.
DEAD_US = 120_000_000
NOTHING_CAME_OF_IT = 0
MOST_ATTEMPTS = 20


class Claim(NamedTuple):
    """The place of one attempt."""

    principal: str
    key: str
    attempt: int
    request: bytes

    @property
    def begin(self) -> str:
        # A header value holds no line break, so no key can be made to look like this.
        return f"{self.key}\n{self.attempt}"

    @property
    def end(self) -> str:
        return f"{self.key}\n{self.attempt}\nend"


class Replay(NamedTuple):
    """The answer that was given before."""

    status: int
    body: bytes


class Running(Exception):
    """The first request with this key has no answer yet."""


def digest(method: str, path: str, query: bytes, body: bytes, rights: str = "") -> bytes:
    """What makes two requests the same: what is asked, and with which rights."""
    parts = [method.encode(), path.encode("utf-8", "surrogateescape"), query, body, rights.encode()]
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).digest()


def check_key(key: str) -> str:
    if not KEY.fullmatch(key):
        raise InvalidInput("an Idempotency-Key is 1 to 200 printable ASCII characters without spaces")
    return key


def claim(store: Store, principal: str, key: str, request: bytes) -> Claim | Replay:
    """The right to carry a request out, or what came of it before; raises `Running` while that is not known."""
    for attempt in range(MOST_ATTEMPTS):
        place = Claim(principal, key, attempt, request)
        mine = store.database.now().to_bytes(8) + os.urandom(16)
        found = _read(store, principal, place.begin)
        if found is None:
            _add(store, place, place.begin, NOTHING_CAME_OF_IT, mine)
            found = _read(store, principal, place.begin)
            if found is not None and found[2] == mine:
                return place
        if found is None:
            continue
        if found[0] != request:
            raise Refused(422, "conflict", "this Idempotency-Key was used for another request; take a new one")
        end = _read(store, principal, place.end)
        if end is None:
            if store.database.now() - int.from_bytes(found[2][:8]) > DEAD_US:
                raise Conflict(
                    "the first request with this Idempotency-Key broke off and what it did is unknown; look before you "
                    "send it again with a new key"
                )
            raise Running
        if end[1] != NOTHING_CAME_OF_IT:
            return Replay(end[1], end[2])
    raise Conflict("this Idempotency-Key was tried too often; take a new one")


def keep(store: Store, place: Claim, status: int, body: bytes) -> None:
    """Remember what came of it."""
    _add(store, place, place.end, status, body)


def release(store: Store, place: Claim) -> None:
    """Say that nothing came of it, so that it may be tried again."""
    _add(store, place, place.end, NOTHING_CAME_OF_IT, b"")


def forget(store: Store) -> None:
    """Remove what is older than a day."""
    with store.database.write() as tx:
        tx.run("answers_forget", age=DAY_US)


def _read(store: Store, principal: str, key: str) -> tuple[bytes, int, bytes] | None:
    with store.database.read() as tx:
        rows = tx.run("answer_read", principal=principal, key=key)
    return (bytes(rows[0][0]), int(rows[0][1]), bytes(rows[0][2])) if rows else None


def _add(store: Store, place: Claim, key: str, status: int, answer: bytes) -> None:
    with store.database.write() as tx:
        tx.run(
            "answer_add", principal=place.principal, key=key, request=place.request, status=status, answer=answer
        )  # fmt: skip
