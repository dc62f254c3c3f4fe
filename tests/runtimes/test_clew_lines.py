"""clew's own JSON lines: every kind of event comes back as a draft that says the same."""

import base64
import json
import random
import tracemalloc
import typing
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from clew.model import codec
from clew.model.conversation import conversation
from clew.model.events import (
    KINDS,
    AnyBody,
    Body,
    CallMade,
    Compacted,
    Draft,
    Event,
    MessageAdded,
    Opaque,
    Removed,
    Rewound,
    SessionOpened,
)
from clew.runtimes.adapters.clew_lines import ENVELOPE, RUNTIME, embed, embedded, lines, recognises
from clew.runtimes.contract import Unreadable
from support.transcripts import events as as_events
from support.transcripts import read, read_in_pieces

NAME = "clew"
OWN, PARENT = "0abcdefghjkmnpqrstvw", "1abcdefghjkmnpqrstvw"
FILE = f"{OWN}.jsonl"
# A value for every field a body may require, by its type.
VALUES = {str: "é <b>", int: 7, bool: True, Raw: Raw(b'{"big": 123456789012345678901234567890, "f": 2.50}')}


def export(events: Iterable[Event]) -> bytes:
    return b"".join(lines(events))


def event(
    seq: int, body: AnyBody, *, session: str = OWN, source: str | None = None, said_at: int | None = None
) -> Event:
    return Event(session, seq, 100 + seq, 1_000 + seq, said_at, "person:me", source, b"", body)


def bare(kind: Any) -> Any:
    """The type without what is said about it."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind


def sample(kind: str) -> Body:
    """A body of the kind, every field given that JSON can build from its name."""
    fields = msgspec.structs.fields(KINDS[kind])
    given = {field.name: VALUES[bare(field.type)] for field in fields if bare(field.type) in VALUES}
    if "budget" in KINDS[kind].__struct_fields__:
        given["budget"] = {"tokens": 5}
    if kind == "usage_counted":
        given["usage"] = {"input": 3}
    if kind == "bodies_pruned":
        given["ranges"] = [[1, 2]]
    if "tags" in KINDS[kind].__struct_fields__:
        given["tags"] = ["é"]
    if "commits" in KINDS[kind].__struct_fields__:
        given["commits"] = ["ab" * 20]
    text = msgspec.json.encode(given)
    return msgspec.json.decode(text, type=KINDS[kind])


def drafts_of(found: list[Event], path: str = FILE) -> list[Draft]:
    return read(NAME, export(found), path=path).drafts


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_comes_back(kind: str) -> None:
    body = sample(kind)
    data = export([event(3, body, source="src", said_at=55), event(4, body)])
    first, second = read(NAME, data, path=FILE).drafts
    assert (first.source, first.said_at) == ("src", 55)
    assert (second.source, second.said_at) == (f"{OWN}:4", 1_004)
    if KINDS[kind].reserved:
        assert first.body == Opaque(kind=f"clew.{kind}", raw=data.split(b"\n")[0].decode())
    else:
        assert codec.encode(first.body) == codec.encode(second.body) == codec.encode(body)


def test_no_field_of_a_body_is_taken_for_the_envelope() -> None:
    taken = {*ENVELOPE, "kind", "source", "said_at", "opaque", "removed"}
    assert not {(kind, name) for kind, body in KINDS.items() for name in taken & {*body.__struct_fields__}}


@given(st.text(), st.sampled_from(["\n", "\r\n", " ", ""]))
def test_any_text_and_any_spacing_stays_on_its_line(text: str, space: str) -> None:
    value = json.dumps({"t": text}).replace(": ", f":{space}").encode()
    body = CallMade(call="c", tool="t", input=Raw(value))
    data = export([event(1, body), event(2, MessageAdded(role="user", text=text))])
    assert data.count(b"\n") == 2
    assert b"\r" not in data
    called, said = read(NAME, data, path=FILE).drafts
    assert isinstance(called.body, CallMade)
    assert json.loads(bytes(called.body.input)) == json.loads(value)
    assert said.body == MessageAdded(role="user", text=text)


def test_a_foreign_body_comes_back_verbatim() -> None:
    body = Opaque(kind="codex.turn_context", raw='{"a": 1.50}')
    (draft,) = drafts_of([event(1, body, source="x")])
    assert (draft.body, draft.source) == (body, "x")


def test_what_a_newer_clew_wrote_and_what_was_removed_is_kept_as_it_is() -> None:
    newer = event(1, Opaque(kind="message_added", raw='{"new":1}', version=9))
    unheard = event(2, Opaque(kind="moon_seen", raw='{"new":1}'))
    removed = event(3, Removed(kind="message_added", how="pruned"), source="s")
    data = export([newer, unheard, removed])
    drafts = read(NAME, data, path=FILE).drafts
    assert [draft.body.kind for draft in drafts] == ["clew.message_added", "clew.moon_seen", "clew.message_added"]
    assert [draft.body.raw for draft in drafts if isinstance(draft.body, Opaque)] == data.decode().splitlines()
    assert drafts[2].source == "s"


def test_the_output_of_the_command_line_is_read_too() -> None:
    fields = {**codec.event_fields(event(1, MessageAdded(role="user", text="hi"))), "position": 9}
    (draft,) = read(NAME, msgspec.json.encode(fields) + b"\n", path=FILE).drafts
    assert draft.body == MessageAdded(role="user", text="hi")


def said(seq: int, text: str, source: str, session: str = OWN) -> Event:
    return event(seq, MessageAdded(role="user", text=text), source=source, session=session)


def lineage() -> list[Event]:
    """A fork whose sources are those of its parent: it goes back to the parent's second, then to its own first."""
    return [
        said(1, "parent a", "@1", PARENT),
        said(2, "parent b", "@2", PARENT),
        said(3, "parent c", "@3", PARENT),
        said(4, "dropped", "@9"),
        event(5, Rewound(to="@2"), source="@10"),
        said(6, "own a", "@1"),
        said(7, "dropped too", "@11"),
        event(8, Rewound(to="@1~rev"), source="@12"),
        said(9, "own b", "@13"),
    ]


@pytest.mark.parametrize("path", [FILE, "renamed.jsonl"])
def test_a_fork_keeps_its_conversation_though_its_sources_are_its_parents(path: str) -> None:
    def texts(found: list[Event]) -> list[str]:
        return [round.body.text for round in conversation(found) if isinstance(round.body, MessageAdded)]

    assert texts(lineage()) == ["parent a", "parent b", "own a", "own b"]
    assert texts(as_events(drafts_of(lineage(), path))) == texts(lineage())


def test_a_compaction_keeps_what_the_parent_called_so() -> None:
    compacted = event(5, Compacted(summary="short", keep="@2"), source="@10")
    drafts = drafts_of([*lineage()[:4], compacted])
    assert drafts[-1].body == Compacted(summary="short", keep=f"{PARENT}/@2")
    assert drafts[1].source == f"{PARENT}/@2"


def test_reading_in_pieces_is_reading_at_once() -> None:
    data = export([*lineage(), *(event(10 + i, sample(kind)) for i, kind in enumerate(sorted(KINDS)))])
    chance = random.Random(3)
    for _ in range(20):
        cuts = [chance.randrange(len(data)) for _ in range(40)]
        assert read_in_pieces(NAME, data, cuts, path=FILE) == read(NAME, data, path=FILE).drafts


def test_a_file_is_called_like_its_session_or_as_its_first_event_says() -> None:
    first = export([event(1, SessionOpened(project="app", agent="me"), session=PARENT)])
    identify = RUNTIME.formats[0].identify
    assert identify(PurePath(FILE), first).native == OWN
    identity = identify(PurePath("some export.jsonl"), first)
    assert (identity.native, identity.project, identity.agent) == (PARENT, "app", "me")


def test_an_odd_line_is_kept() -> None:
    odd = [
        b'{"session":"s","seq":2,"kind":"message_added","role":7}',
        b'{"session":"s","seq":3,"kind":"message_added","role":"user","unheard":1}',
        b'{"session":"s","seq":4}',
        b'{"session":"s","seq":5,"kind":"opaque.one"}',
        b"[]",
    ]
    data = export([event(1, MessageAdded(role="user", text="x"))]) + b"\n".join(odd) + b"\n"
    drafts = read(NAME, data, path=FILE).drafts
    assert [draft.body.raw.encode() for draft in drafts[1:] if isinstance(draft.body, Opaque)] == odd


def test_only_events_are_recognised() -> None:
    long = export([event(1, MessageAdded(role="user", text="x" * 100_000))])
    assert recognises(PurePath("a.jsonl"), long[:65_536])
    assert recognises(PurePath("a.jsonl"), b'{"kind": "x.y", "seq": 1, "session": "s"}\n')
    for other in (b'{"type":"session","version":1}', b'{"session":"s","seq":"1","kind":"k"}', b"[1]", b"\xff", b""):
        assert not recognises(PurePath("a.jsonl"), other)


@pytest.mark.parametrize("at", [2**63, -(2**63), 10**30])
def test_a_time_that_no_log_can_hold_is_kept_as_it_is(at: int) -> None:
    line = json.dumps({"session": OWN, "seq": 1, "kind": "message_added", "at": at, "role": "user", "text": "x"})
    (draft,) = read(NAME, f"{line}\n".encode(), path=FILE).drafts
    assert isinstance(draft.body, Opaque)
    assert draft.said_at is None


def test_an_empty_source_is_none() -> None:
    (draft,) = drafts_of([event(3, MessageAdded(role="user", text="x"), source="")])
    assert draft.source == f"{OWN}:3"


def test_a_page_is_called_like_the_session_it_carries() -> None:
    page = RUNTIME.formats[1]
    opened = event(1, SessionOpened(agent="coder", project="app"))
    identity = page.identify(PurePath(f"{OWN}.html"), b"".join(embed([b"<p>"], [opened])))
    assert (identity.native, identity.project, identity.agent) == (OWN, "app", "coder")


@pytest.mark.parametrize("filling", [b"\n" * 100_000_000, b"x\n" * 50_000_000, b"x" * 100_000_000])
def test_a_small_page_does_not_unpack_to_more_than_memory_holds(filling: bytes) -> None:
    """44 KB took 5.8 GB: a few bytes unpack to hundreds of millions of lines."""
    packed = zstandard.ZstdCompressor(level=3).compress(filling)
    assert len(packed) < 50_000
    page = b"<!-- clew:session -->\n<!-- clew:events %b -->\n" % base64.b64encode(packed)
    del filling
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match="more than"):
            embedded(page)
        assert tracemalloc.get_traced_memory()[1] < 64_000_000
    finally:
        tracemalloc.stop()
