"""The codec: what is encoded comes back, what is not understood is kept, what is wrong is refused in clear words."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clew.model.codec import UPCASTS, decode, draft, encode, event_fields, to_json
from clew.model.errors import InvalidInput
from clew.model.events import (
    KINDS,
    ArtifactSaved,
    Body,
    CallMade,
    Event,
    MessageAdded,
    Opaque,
    Removed,
)
from clew.model.numbers import check_numbers
from clew.model.object_names import kinds_naming_objects, objects_of, with_objects
from model.shapes import INTS, JSON, bodies, structs


def stored(body: Any, *, source: str | None = None, said_at: int | None = None) -> Event:
    return Event("0" * 20, 7, 9, 1_000, said_at, "person:ada", source, bytes(32), body)


# Our own kinds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=30)
@given(data=st.data())
def test_every_body_comes_back_from_its_text(kind: str, data: st.DataObject) -> None:
    body = data.draw(structs(KINDS[kind]))
    text = encode(body)
    assert decode(kind, body.version, text.decode()) == body
    assert encode(decode(kind, body.version, text.decode())) == text


@given(body=bodies())
def test_a_body_is_one_line_of_json(body: Body) -> None:
    if not any(isinstance(getattr(body, name), msgspec.Raw) for name in body.__struct_fields__):
        assert b"\n" not in encode(body)
    assert isinstance(json.loads(encode(body)), dict)


def _has_numbers_that_all_read_alike(line: bytes) -> bool:
    try:
        check_numbers(line)
    except InvalidInput:
        return False
    return True


@given(body=bodies(), source=st.none() | st.text(), said_at=st.none() | INTS)
def test_a_draft_says_the_same_in_json(body: Body, source: str | None, said_at: int | None) -> None:
    assume(not body.reserved)
    fields = msgspec.json.decode(encode(body), type=dict[str, msgspec.Raw])
    line = msgspec.json.encode({"kind": body.kind, "source": source, "said_at": said_at, **fields})
    assume(_has_numbers_that_all_read_alike(line))
    for given_as in (line, line.decode()):
        found = draft(given_as)
        assert (found.body, found.source, found.said_at) == (body, source, said_at)


def test_a_kind_is_named_once_and_without_a_dot() -> None:
    assert len(KINDS) == len(Body.__subclasses__())
    assert all("." not in kind and kind == kind.lower() for kind in KINDS)
    # The store writes this word over the kind of an erased event.
    assert "erased" not in KINDS


@given(text=st.text(alphabet=st.characters(categories=["Cs"]), min_size=1))
def test_text_that_is_no_unicode_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"message_added.*surrogate"):
        encode(MessageAdded(role="user", text=text))


# What is not ours -----------------------------------------------------------------------------------------------------


@given(kind=st.from_regex(r"[a-z]+\.[a-z.]+", fullmatch=True), fields=st.dictionaries(st.text(), JSON, max_size=4))
def test_a_foreign_kind_is_kept_to_the_byte(kind: str, fields: dict[str, Any]) -> None:
    fields = {name: value for name, value in fields.items() if name not in ("kind", "source", "said_at")}
    raw = msgspec.json.encode(fields).decode()
    body = draft(msgspec.json.encode({"kind": kind, **fields})).body
    assert body == Opaque(kind=kind, raw=raw)
    assert decode(kind, 1, encode(body).decode()) == body


@given(body=bodies(), extra=st.integers(1, 5))
def test_a_newer_version_of_our_kind_is_kept_verbatim(body: Body, extra: int) -> None:
    text = encode(body).decode()
    found = decode(body.kind, body.version + extra, text)
    assert found == Opaque(kind=body.kind, raw=text, version=body.version + extra)
    assert encode(found) == text.encode()


@given(kind=st.text(), version=st.integers(0, 9), text=st.text())
def test_an_unknown_kind_never_raises(kind: str, version: int, text: str) -> None:
    if kind not in KINDS:
        assert decode(kind, version, text) == Opaque(kind=kind, raw=text, version=version)


def test_an_older_version_is_brought_up_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageAdded, "version", 3)
    monkeypatch.setitem(UPCASTS, ("message_added", 1), lambda old: {"who": old["speaker"], "text": old["words"]})
    monkeypatch.setitem(UPCASTS, ("message_added", 2), lambda old: {"role": old["who"].lower(), "text": old["text"]})
    new = MessageAdded(role="user", text="hello")
    assert decode("message_added", 1, '{"speaker":"USER","words":"hello"}') == new
    assert decode("message_added", 2, '{"who":"USER","text":"hello"}') == new
    assert decode("message_added", 3, '{"role":"user","text":"hello"}') == new
    assert isinstance(decode("message_added", 4, '{"role":"user"}'), Opaque)


# What is wrong --------------------------------------------------------------------------------------------------------


# With lone surrogates, unlike the texts of the model's own shapes.
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters())
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = {name for body in KINDS.values() for name in body.__struct_fields__} | {"source", "said_at"}
KNOWN_KINDS = st.sampled_from([*sorted(KINDS), "my.kind", "nonsense"])
MAPPINGS = st.dictionaries(st.sampled_from(sorted(FIELDS)) | st.text(max_size=5), ANY_JSON, max_size=5)
WITH_KIND = st.builds(lambda fields, kind: {**fields, "kind": kind}, MAPPINGS, KNOWN_KINDS | ANY_JSON)


def check_draft(line: str | bytes | Mapping[str, Any]) -> None:
    """Either a draft that can be written down, or InvalidInput."""
    with suppress(InvalidInput):
        encode(draft(line).body)


@given(fields=MAPPINGS | WITH_KIND)
def test_any_mapping_is_a_draft_or_refused(fields: dict[str, Any]) -> None:
    check_draft(fields)


@given(fields=MAPPINGS | WITH_KIND)
def test_any_json_text_is_a_draft_or_refused(fields: dict[str, Any]) -> None:
    check_draft(json.dumps(fields))


@given(line=st.binary() | st.text() | st.text(alphabet=st.characters(categories=["Cs"])) | ANY_JSON.map(json.dumps))
def test_any_line_is_a_draft_or_refused(line: str | bytes) -> None:
    check_draft(line)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"kind":"call_made","call":"1","tool":"a","input":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        {"kind": "my.kind", "value": object()},
        {"kind": "my.kind", "value": {1, 2}},
        {"kind": "my.kind", "value": float("nan")},
        {("a", "b"): 1},
    ],
    ids=["nothing but depth", "a deep input", "an object", "a set", "not a number", "a tuple as a name"],
)
def test_a_hopeless_draft_is_refused(line: Any) -> None:
    check_draft(line)


def test_a_mapping_that_contains_itself_is_refused() -> None:
    fields: dict[str, Any] = {"kind": "my.kind"}
    fields["self"] = fields
    check_draft(fields)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", ["JSON object"]),
        ("[]", ["JSON object"]),
        ("{}", ["'kind'", "message_added"]),
        ('{"kind":"mesage_added"}', ["did you mean 'message_added'"]),
        ('{"kind":"frobnicated"}', ["known kinds", "myapp.frobnicated"]),
        ('{"kind":"message_added"}', ["message_added", "role"]),
        ('{"kind":"message_added","role":"user","txt":"a"}', ["'txt'", "text"]),
        ('{"kind":"message_added","role":7}', ["role", "str"]),
        ('{"kind":"my.kind","said_at":"noon"}', ["said_at", "int"]),
    ],
)
def test_a_refusal_says_what_was_expected(line: str, words: list[str]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        draft(line)
    assert [word for word in words if word not in str(refusal.value)] == []


# Events as JSON -------------------------------------------------------------------------------------------------------


@given(body=bodies(), source=st.none() | st.text(), said_at=st.none() | INTS)
def test_an_event_is_one_flat_object(body: Body, source: str | None, said_at: int | None) -> None:
    fields = json.loads(to_json(event_fields(stored(body, source=source, said_at=said_at))))
    assert (fields.pop("session"), fields.pop("seq"), fields.pop("at")) == ("0" * 20, 7, 1_000)
    assert (fields.pop("source", None), fields.pop("said_at", None)) == (source, said_at)
    written = json.loads(encode(body))
    # A body's own field of the same name would win; none may hide the envelope.
    assert not {"session", "seq", "kind", "at", "actor", "source", "said_at"} & set(written)
    assert {name: value for name, value in fields.items() if name not in ("kind", "actor")} == written


def test_removed_and_foreign_bodies_are_told_apart() -> None:
    assert event_fields(stored(Removed(kind="message_added", how="pruned")))["removed"] == "pruned"
    fields = json.loads(to_json(event_fields(stored(Opaque(kind="my.kind", raw='{"a":1}')))))
    assert (fields["kind"], fields["opaque"]) == ("my.kind", {"a": 1})


@given(body=bodies())
def test_the_objects_of_a_body_are_all_that_it_names(body: Body) -> None:
    def named(value: Any) -> list[str]:
        if isinstance(value, list):
            return [name for item in value for name in named(item)]
        if isinstance(value, dict):
            own = [value["blob"]] if value.get("blob") or (value.get("type") in ("image", "file")) else []
            own += [value["git"]] if value.get("git") else []
            return own + [name for key, item in value.items() if key not in ("blob", "git") for name in named(item)]
        return []

    if not isinstance(body, CallMade):
        fields = {
            name: value
            for name, value in json.loads(encode(body)).items()
            if not isinstance(getattr(body, name, None), msgspec.Raw)
        }
        assert sorted(objects_of(body)) == sorted(named(fields))
        others = {name: f"another {name}" for name in objects_of(body)}
        assert objects_of(with_objects(body, others)) == [others[name] for name in objects_of(body)]


def test_a_kind_names_objects_where_its_fields_are_declared_so() -> None:
    assert set(kinds_naming_objects()) == {
        "message_added", "call_returned", "artifact_saved", "workspace_snapshotted", "workspace_restored"
    }  # fmt: skip
    assert with_objects(ArtifactSaved(name="a", blob="1", size=1), {"1": "2"}).blob == "2"


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind": "message_added", "role": "user", "text": "\xff"}',
        b'{"kind": "my.note", "text": "\xff"}',
        b'{"kind": "message_added", "role": "user", "text": "", "source": "\xff"}',
        b'{"kind": "message\xff"}',
        b'{"kind": "call_made", "call": "1", "tool": "x", "input": {"a": "\xff"}}',
    ],
)
def test_a_line_that_is_not_utf_8_is_refused_in_words(line: bytes) -> None:
    with pytest.raises(InvalidInput, match="'utf-8' codec can't decode byte 0xff"):
        draft(line)


@pytest.mark.parametrize(
    "body",
    [
        CallMade(call="1", tool="x", input=msgspec.Raw(b'{\r\n  "a": [1,\n 2]\r}')),
        Opaque(kind="x.y", raw='{\n"a":\r1}'),
    ],
)
def test_an_event_is_one_line_whatever_lines_its_source_had(body: Body | Opaque) -> None:
    event = stored(body)
    text = to_json(event_fields(event))
    assert not {"\n", "\r"}.intersection(text)
    told = json.loads(text)
    assert told.get("input", told.get("opaque")) in ({"a": [1, 2]}, {"a": 1})
