"""What the tests say to a log, and how they read its answer."""

import random
from collections.abc import Iterable
from typing import Any

from clew.model.events import Draft, Event, FactLearned, MessageAdded, Removed
from clew.model.session import Session
from clew.store import Store
from clew.store.log.opening import Opening

ADA = "person:ada"


def opened(store: Store, *, project: str = "demo", **fields: Any) -> Session:
    """A new session."""
    return store.open(Opening(project=project, **fields), actor=ADA)


def say(text: str = "hello", *, source: str | None = None) -> Draft:
    """A message, which is conversation: a retention policy may take its body away."""
    return Draft(body=MessageAdded(role="user", text=text), source=source)


def learn(text: str, *, source: str | None = None) -> Draft:
    """A fact, which is durable."""
    return Draft(body=FactLearned(fact=text, text=text), source=source)


# Noise does not pack: a blob of it is a file where small blobs are rows.
_NOISE = random.Random(5).randbytes(80_000).hex()


def big(text: str = "x") -> str:
    """The text, long enough to be stored as a blob, and as a file of its own in an embedded log."""
    return text + _NOISE


def bulk(text: str) -> bytes:
    """Bytes that are a blob of the same sort."""
    return big(text).encode()


def messages(events: Iterable[Event]) -> list[str]:
    """The texts of the messages, in order; a removed body is named by how it was removed."""
    found = []
    for event in events:
        if isinstance(event.body, MessageAdded):
            found.append(event.body.text)
        elif isinstance(event.body, Removed):
            found.append(event.body.how)
    return found


def seqs(events: Iterable[Event]) -> list[int]:
    return [event.seq for event in events]


def kinds(events: Iterable[Event]) -> list[str]:
    return [event.kind for event in events]
