"""Requests that come twice under one `Idempotency-Key`: the second gets the answer of the first.

A key is claimed before the operation runs, by a row that only one of two racing requests can add, in any process.
The answer is a second row. Rows are only added, as in the log: an attempt that failed without an effect ends with a row
that says so, and the next attempt adds a claim after it. A claim without an end means that the request still runs, or
that its process died; what it did is then unknown, and the answer says so.

An append needs no claim beforehand: claim and answer are one row in the commit of its events (`receipt`).
"""

import hashlib
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from clew.model.errors import Conflict, InvalidInput
from clew.server.http.problems import Refused
from clew.store import Store
from clew.store.idempotency import StoredAnswer, add_answer, read_answer
from clew.store.log.plan import Appended, Receipt

KEY = re.compile(r"[!-~]{1,200}")
# After this long a claim without an end is one whose process died.
DEAD_US = 120_000_000
# The status in the row of a claim, and in the row that ends an attempt without an effect.
NO_ANSWER = 0
MOST_ATTEMPTS = 20


class Claim(NamedTuple):
    """One attempt to carry out a request: the keys of its two rows."""

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


class StillRunning(Exception):
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
    """The right to carry a request out, or the answer it had before; raises `StillRunning` while there is none."""
    for attempt in range(MOST_ATTEMPTS):
        attempted = Claim(principal, key, attempt, request)
        first = read_answer(store, principal, attempted.begin)
        if first is None:
            if add_answer(store, principal, attempted.begin, StoredAnswer(request, NO_ANSWER, _new_mark(store))):
                return attempted
            first = read_answer(store, principal, attempted.begin)
        if first is None:
            continue
        if first.request != request:
            raise Refused(422, "conflict", "this Idempotency-Key was used for another request; take a new one")
        if first.status != NO_ANSWER:
            return Replay(first.status, first.body)
        end = read_answer(store, principal, attempted.end)
        if end is None:
            if store.now() - int.from_bytes(first.body[:8]) > DEAD_US:
                raise Conflict(
                    "the first request with this Idempotency-Key broke off and what it did is unknown; look before you "
                    "send it again with a new key"
                )
            raise StillRunning
        if end.status != NO_ANSWER:
            return Replay(end.status, end.body)
    raise Conflict("this Idempotency-Key was tried too often; take a new one")


def receipt(store: Store, claim: Claim, encode: Callable[[Appended], bytes]) -> Receipt:
    """A claim together with its answer, for the commit of the events themselves.

    An append that exceeded a budget is stored and refused: its commit leaves the claim, and the refusal follows.
    """

    def answer(appended: Appended) -> tuple[int, bytes]:
        return (NO_ANSWER, _new_mark(store)) if appended.exceeded else (200, encode(appended))

    return Receipt(claim.principal, claim.begin, claim.request, answer)


def finish(store: Store, claim: Claim, status: int, body: bytes) -> None:
    """Store the answer of this attempt."""
    add_answer(store, claim.principal, claim.end, StoredAnswer(claim.request, status, body))


def release(store: Store, claim: Claim) -> None:
    """Record that this attempt failed without an effect, so that the next one may claim the key."""
    finish(store, claim, NO_ANSWER, b"")


def _new_mark(store: Store) -> bytes:
    """The time of a claim by the store's clock, and random bytes that no other claim has."""
    return store.now().to_bytes(8) + os.urandom(16)
