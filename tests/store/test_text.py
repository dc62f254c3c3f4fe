"""Text of every kind: kept to the letter, or refused in clear words with nothing written. On both databases alike."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from clew.model.errors import InvalidInput
from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    MessageAdded,
    Opaque,
    ScratchSet,
    SessionOpened,
    TurnEnded,
    Usage,
)
from clew.model.session import Session
from clew.store import Store
from clew.store.cursors import move_cursor
from clew.store.log.leases import acquire
from clew.store.log.opening import Forking
from clew.store.log.verify import verify
from store.rows import unchanged
from store.words import ADA, messages, opened, say

TEXTS = {
    "a zero character": "a\x00b",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "emoji": "👩🏽‍💻 🇺🇳 🙂",
    "right to left": "שלום \u202e עולם \u2066العربية\u2069",  # noqa: RUF001  # that is the point
    "line separators": "a\u2028b\u2029c\r\nd\ne\rf",
    "the ends of Unicode": "\ufffe\uffff\U0010ffff\ud7ff\ue000",
    "a byte order mark": "\ufeffa",
    "combining marks": "e\u0301 é ẞß İi",
    "an escaped surrogate": "\\ud800",
    "JSON in a text": '{"kind":"session_closed"}',
    "SQL in a text": "'; DROP TABLE event; -- %s %(a)s :name ? $1",
    "a million characters in a line": "ü" * 1_000_000,
}
DEEP = b"[" * 900 + b"]" * 900
INPUTS: dict[str, bytes] = {
    "spaces and order": b'{ "b" : 1 ,\n "a":\t2, "a": 3 }',
    "numbers to the digit": b'{"a":1.0,"b":1e400,"c":0.1000,"d":-0,"e":1E+2}',
    "an int beyond 64 bits": b'{"n":123456789012345678901234567890}',
    "escapes": rb'{"a":"\u0000\u00e9\/\ud83d\ude00"}',
    "deep nesting": DEEP,
    "a string": b'"just text"',
    "nothing": b"null",
}
HARDLY_JSON: dict[str, bytes] = {
    "no byte": b"",
    "half an object": b"{",
    "no JSON": b"nonsense",
    "two values": b"1 2",
    "a name without a value": b'{"a":}',
    "no Unicode": b"\xff",
    "a zero byte": b'"\x00"',
    "a lone surrogate's escape": rb'{"a":"\ud800"}',
    "bottomless nesting": b"[" * 100_000 + b"]" * 100_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_message_is_kept_to_the_letter(store: Store, session: Session, name: str) -> None:
    store.append(session, [say(TEXTS[name])])
    assert messages(list(store.read(session))) == [TEXTS[name]]
    assert verify(store, session).ok


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_any_message_is_kept_to_the_letter(store: Store, session: Session, text: str) -> None:
    [seq] = store.append(session, [say(text)]).seqs
    assert messages(list(store.read(session, after=seq - 1))) == [text]


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "a zero character"])
def test_a_name_is_kept_to_the_letter(store: Store, name: str) -> None:
    text = TEXTS[name][:100].replace("\x00", "")
    session = opened(store, project=text, agent=text, title=text, metadata=json.dumps({"a": text}))
    store.append(session, [say(source=text)], actor=text)
    assert store.session(session.id) == session
    event = list(store.read(session))[-1]
    assert (event.source, event.actor) == (text, text)
    assert [listed.session for listed in store.sessions(project=text, agent=text)] == [session]
    assert len(list(store.tail(project=text))) == 2
    assert verify(store, session).ok


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(
    "body",
    [
        lambda raw: CallMade(call="1", tool="Bash", input=raw),
        lambda raw: CallReturned(call="1", output=raw),
        lambda raw: ScratchSet(name="a", value=raw),
    ],
    ids=["input", "output", "scratch"],
)
def test_json_is_kept_to_the_byte(store: Store, session: Session, name: str, body: Callable[[Raw], Any]) -> None:
    written = body(Raw(INPUTS[name]))
    store.append(session, [Draft(body=written)])
    [event] = list(store.read(session, after=1))
    assert event.body == written


def test_a_foreign_body_is_kept_to_the_byte(store: Store, session: Session) -> None:
    body = Opaque(kind="my.kind", raw='{ "a" : 1.0 ,"b":"\\u0000" }')
    store.append(session, [Draft(body=body)])
    assert list(store.read(session))[-1].body == body


# Refused --------------------------------------------------------------------------------------------------------------


def in_project(store: Store, session: Session, text: str) -> object:
    return opened(store, project=text)


def in_agent(store: Store, session: Session, text: str) -> object:
    return opened(store, agent=text)


def in_title(store: Store, session: Session, text: str) -> object:
    return opened(store, title=text)


def in_metadata(store: Store, session: Session, text: str) -> object:
    return opened(store, metadata=f'{{"a":"{text}"}}')


def in_fork_title(store: Store, session: Session, text: str) -> object:
    return store.open(Forking(parent=session, title=text), actor=ADA)


def in_source(store: Store, session: Session, text: str) -> object:
    return store.append(session, [say(source=text)])


def in_actor(store: Store, session: Session, text: str) -> object:
    return store.append(session, [say()], actor=text)


def in_kind(store: Store, session: Session, text: str) -> object:
    return store.append(session, [Draft(body=Opaque(kind=f"my.{text}", raw="{}"))])


def in_opaque(store: Store, session: Session, text: str) -> object:
    return store.append(session, [Draft(body=Opaque(kind="my.kind", raw=f'"{text}"'))])


def in_holder(store: Store, session: Session, text: str) -> object:
    return acquire(store, session, holder=text, ttl_us=1, actor=ADA)


def in_cursor(store: Store, session: Session, text: str) -> object:
    move_cursor(store, text, 1)
    return None


NAMES = [
    in_project,
    in_agent,
    in_title,
    in_metadata,
    in_fork_title,
    in_source,
    in_actor,
    in_kind,
    in_opaque,
    in_holder,
    in_cursor,
]


@pytest.mark.parametrize("place", NAMES)
@pytest.mark.parametrize("text", ["a\ud800b", "a\x00b"], ids=["a lone surrogate", "a zero character"])
def test_what_is_no_name_is_refused(
    store: Store, session: Session, place: Callable[[Store, Session, str], object], text: str
) -> None:
    """Neither database keeps a lone surrogate and PostgreSQL no zero character, so neither is let in by either."""
    with unchanged(store), pytest.raises(InvalidInput):
        place(store, session, text)


@pytest.mark.parametrize("name", HARDLY_JSON)
@pytest.mark.parametrize(
    "body",
    [
        lambda raw: CallMade(call="1", tool="Bash", input=Raw(raw)),
        lambda raw: SessionOpened(metadata=Raw(raw)),
        lambda raw: Opaque(kind="my.kind", raw=raw.decode("utf-8", "surrogateescape")),
    ],
    ids=["input", "metadata", "foreign"],
)
def test_what_is_no_json_is_refused_or_at_least_readable(
    store: Store, session: Session, name: str, body: Callable[[bytes], Any]
) -> None:
    """An acknowledged event that nobody can read again would take its whole session with it."""
    with suppress(InvalidInput):
        store.append(session, [Draft(body=body(HARDLY_JSON[name]))])
    assert list(store.read(session))
    assert list(store.tail())


@pytest.mark.parametrize("metadata", ["", "nonsense", "{", '{"a":1} x'])
def test_metadata_that_is_no_json_is_refused(store: Store, metadata: str) -> None:
    with unchanged(store), pytest.raises(InvalidInput):
        opened(store, metadata=metadata)


def test_a_foreign_body_does_not_pass_for_one_of_ours(store: Store, session: Session) -> None:
    """It would go past the lifecycle, and past everybody who trusts a `session_closed`."""
    for kind in ("session_closed", "bodies_pruned", "message_added", "nodot"):
        with unchanged(store), pytest.raises(InvalidInput):
            store.append(session, [Draft(body=Opaque(kind=kind, raw="{}"))])


@pytest.mark.parametrize(
    "draft",
    [
        Draft(body=MessageAdded(role="user", text="a"), said_at=2**63),
        Draft(body=MessageAdded(role="user", text="a"), said_at=-(2**63) - 1),
    ],
    ids=["too late", "too early"],
)
def test_a_time_that_no_database_holds_is_refused(store: Store, session: Session, draft: Draft) -> None:
    with unchanged(store), pytest.raises(InvalidInput):
        store.append(session, [draft])


@pytest.mark.parametrize(
    "usage", [Usage(input=2**64), Usage(input=2**63 - 1, output=2**63 - 1), Usage(cost_micros=2**70)]
)
def test_a_count_that_no_database_holds_is_stored_and_counted_as_far_as_it_goes(
    store: Store, session: Session, usage: Usage
) -> None:
    for _ in range(2):
        store.append(session, [Draft(body=TurnEnded(usage=usage))])
    assert list(store.read(session))[-1].body == TurnEnded(usage=usage)
    head = store.head(session)
    assert max(head.spent_tokens, head.spent_cost_micros) >= 2**62


def test_a_negative_count_gives_nothing_back(store: Store, session: Session) -> None:
    store.append(session, [Draft(body=TurnEnded(usage=Usage(input=10, cost_micros=10)))])
    store.append(session, [Draft(body=TurnEnded(usage=Usage(input=-5, cost_micros=-5)))])
    assert (store.head(session).spent_tokens, store.head(session).spent_cost_micros) == (10, 10)
