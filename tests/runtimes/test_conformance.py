"""The conformance suite: all our own adapters pass it, and it catches each way to break one."""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from clew.model.events import CallMade, Draft, MessageAdded, Opaque, SessionClosed
from clew.runtimes import MODULES, runtime
from clew.runtimes.conformance import check
from clew.runtimes.conformance.declaration import check_glance, format_of
from clew.runtimes.conformance.writing import llm_input
from clew.runtimes.contract import Command, Format, Identity, NoState, Reading, Runtime, Tool, Written, opaque
from clew.runtimes.rounds import Answer, Prompt, Results
from support.samples import samples

PAGE = Path(__file__).parent.parent.parent / "docs" / "adapters.md"
SAMPLES = {
    "chats/one.jsonl": b"\n".join(
        [
            b'{"type":"chat","id":"0","text":"/home/me/app"}',
            b'{"type":"user","id":"1","time":"2026-11-16T10:00:00Z","text":"list"}',
            b'{"type":"assistant","id":"2","turn":"t","text":"I look."}',
            b'{"type":"call","id":"3","turn":"t","call":"c","tool":"squawk","input":{"words":"ls"}}',
            b'{"type":"result","id":"4","call":"c","text":"a.txt"}',
            b'{"type":"molt","feathers":[1,2]}',
            b"",
        ]
    )
}


def example() -> str:
    """The adapter that the page about adapters shows."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]


def parrot() -> Runtime:
    held: dict[str, Any] = {}
    exec(compile(example(), str(PAGE), "exec"), held)  # noqa: S102  # the page's own words
    found = held["RUNTIME"]
    assert isinstance(found, Runtime)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_our_own_adapters_keep_the_contract(name: str) -> None:
    check(runtime(name), samples(name))


def test_there_is_a_sample_for_every_format() -> None:
    for name in MODULES:
        found = {format_of(runtime(name), path, data).name for path, data in samples(name).items()}
        assert found == {format.name for format in runtime(name).formats}, name


def test_the_example_of_the_page_keeps_the_contract_and_is_short() -> None:
    check(parrot(), SAMPLES)
    assert len(example().splitlines()) < 100


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("first", [b'{"k\xff":1}', b'{"type":"\xff"}', b'{"a":' * 5000, b"[" * 5000, b'{"type":{}}'])
def test_no_file_upsets_the_search_for_its_program(name: str, first: bytes) -> None:
    for format in runtime(name).formats:
        for path in ("x.jsonl", "agent-x.jsonl", "x.json", "wire.jsonl", "events.jsonl"):
            check_glance(format, path, first)


# Broken on purpose ----------------------------------------------------------------------------------------------------


class Counting(msgspec.Struct):
    count: int = 0


GOOD = parrot()
READ = GOOD.formats[0].read
WRITER = GOOD.writer
assert WRITER is not None
WRITE = WRITER.write


def with_format(**changes: Any) -> Runtime:
    return msgspec.structs.replace(GOOD, formats=(msgspec.structs.replace(GOOD.formats[0], **changes),))


def with_read(change: Callable[[list[Draft], bytes, Reading[Any]], list[Draft]], **changes: Any) -> Runtime:
    return with_format(read=lambda record, key, reading: change(READ(record, key, reading), record, reading), **changes)


def with_body(body: Any) -> Runtime:
    return with_read(lambda drafts, record, reading: [msgspec.structs.replace(drafts[0], body=body)])


def with_writer(**changes: Any) -> Runtime:
    return msgspec.structs.replace(GOOD, writer=msgspec.structs.replace(WRITER, **changes))


def with_file(path: str) -> Runtime:
    def write(rounds: Any, target: Any) -> Any:
        native = WRITE(rounds, target)
        return msgspec.structs.replace(native, files=[Written(path=path, data=native.files[0].data)])

    return with_writer(write=write)


def crooked(record: bytes, key: str, reading: Reading[Any]) -> list[Draft]:
    """A reader that gives up in a way of its own."""
    if not isinstance(msgspec.json.decode(record, type=dict[str, Any]).get("turn", ""), str):
        raise RuntimeError("what is this?")
    return READ(record, key, reading)


def loose(record: bytes, key: str, reading: Reading[Any]) -> list[Draft]:
    """A reader that takes a value for what it should be."""
    line = json.loads(record)
    if line.get("type") != "user":
        return [opaque("parrot.x", record, line.get("id") or key)]
    return [Draft(body=MessageAdded(role="user", text=line["text"]), source=str(line["id"]) or key)]


COUNT = itertools.count()


def remembers_outside(drafts: list[Draft], record: bytes, reading: Reading[Any]) -> list[Draft]:
    return [msgspec.structs.replace(draft, source=f"{draft.source}-{next(COUNT)}") for draft in drafts]


def counts_calls(drafts: list[Draft], record: bytes, reading: Reading[Any]) -> list[Draft]:
    """Remembers in an attribute that no one stores."""
    reading.seen = getattr(reading, "seen", 0) + 1  # type: ignore[attr-defined]  # the mistake
    return [msgspec.structs.replace(drafts[0], source=f"{drafts[0].source}-{reading.seen}")]  # type: ignore[attr-defined]


def identity_of_last(path: PurePath, first: bytes) -> Identity:
    return Identity(native=str(next(COUNT)))


def raises(*_: Any) -> Any:
    raise KeyError("nobody catches this")


BROKEN: dict[str, tuple[Runtime, str]] = {
    "a name in capitals": (msgspec.structs.replace(GOOD, name="Parrot"), "not lower-case words"),
    "no title": (msgspec.structs.replace(GOOD, title=""), "title is empty"),
    "no format": (msgspec.structs.replace(GOOD, formats=()), "no format"),
    "an absolute home": (msgspec.structs.replace(GOOD, home="/root"), "relative to a person's home"),
    "a pattern that climbs": (with_format(patterns=("../*.jsonl",)), "leaves the home"),
    "one name for two": (msgspec.structs.replace(GOOD, formats=GOOD.formats * 2), "two formats have one name"),
    "a tool nobody has": (msgspec.structs.replace(GOOD, tools={"fly": Tool("fly")}), "not a valid common tool"),
    "an argument nobody has": (
        msgspec.structs.replace(GOOD, tools={"shell": Tool("x", {"volume": "v"})}),
        r"maps \['volume'\]",
    ),
    "recognises nothing": (with_format(recognises=lambda path, head: False), "no format of parrot recognises"),
    "recognises and raises": (with_format(recognises=raises), "which nothing catches"),
    "recognises no bool": (with_format(recognises=lambda path, head: head[:1] or True), "not a bool"),
    "identifies by chance": (with_format(identify=identity_of_last), "another identity each time"),
    "identifies nobody": (with_format(identify=lambda path, first: Identity(native="")), "gives no native id"),
    "drops a record": (with_read(lambda drafts, *_: []), "at least one draft"),
    "no source": (
        with_read(lambda drafts, *_: [msgspec.structs.replace(drafts[0], source=None)]),
        "without a source",
    ),
    "one source for two drafts": (with_read(lambda drafts, *_: drafts * 2), "two drafts one source"),
    "one source for two records": (
        with_read(lambda drafts, *_: [msgspec.structs.replace(drafts[0], source="x")]),
        "two drafts that differ have the source",
    ),
    "another source each time": (with_read(remembers_outside), "gives other drafts than reading it whole"),
    "memory outside the state": (with_read(counts_calls), "gives other drafts than reading it whole"),
    "a state that JSON changes": (
        with_read(lambda drafts, record, reading: (setattr(reading.state, "count", "x"), drafts)[1], state=Counting),
        "cannot be kept",
    ),
    "raises what nobody expects": (with_format(read=crooked), "raises RuntimeError"),
    "takes values for granted": (with_format(read=loose), "cannot be kept"),
    "a kind without a dot": (with_body(Opaque(kind="parrot", raw="{}")), "needs a dot"),
    "what is no JSON": (with_body(Opaque(kind="a.b", raw="{")), "cannot be kept"),
    "a kind of clew's own": (with_body(SessionClosed()), "written by clew alone"),
    "a call with bad input": (with_body(CallMade(call="c", tool="t", input=Raw(b"{"))), "cannot be kept"),
    "a time beyond time": (
        with_read(lambda drafts, *_: [msgspec.structs.replace(drafts[0], said_at=10**30)]),
        "fits 64 bits",
    ),
    "an image nobody has": (
        with_body(msgspec.json.decode(b'{"role":"user","parts":[{"type":"image","blob":"00"}]}', type=MessageAdded)),
        "names blobs",
    ),
    "nothing understood": (
        with_format(read=runtime("unknown").formats[0].read),
        "nothing in the samples was understood",
    ),
    "writes by chance": (
        with_writer(write=lambda rounds, target: msgspec.structs.replace(WRITE(rounds, target), id=str(next(COUNT)))),
        "the same twice",
    ),
    "writes nothing": (
        with_writer(write=lambda rounds, target: msgspec.structs.replace(WRITE(rounds, target), files=[])),
        "no file was written",
    ),
    "writes outside": (with_file("../x.jsonl"), "outside the runtime's home"),
    "writes to the root": (with_file("/chats/x.jsonl"), "outside the runtime's home"),
    "writes where nobody looks": (with_file("elsewhere/x.jsonl"), "never be captured back"),
    "writes an endless name": (with_file(f"chats/{'x' * 300}.jsonl"), "no file system takes"),
    "loses the last round": (
        with_writer(write=lambda rounds, target: WRITE(rounds[:-1] or rounds, target)),
        "reads back as something else",
    ),
    "says things twice": (
        with_writer(write=lambda rounds, target: WRITE(rounds * 2, target)),
        "reads back as something",
    ),
    "a writer that raises": (with_writer(write=raises), "which nothing catches"),
    "a command that is a string": (
        with_writer(resume=lambda native, file: Command(argv=[PurePath(file)])),  # type: ignore[list-item]
        "not a list of words",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_adapter_is_caught(how: str) -> None:
    broken, says = BROKEN[how]
    with pytest.raises(AssertionError, match=says):
        check(broken, SAMPLES)


def test_a_format_without_a_sample_is_named() -> None:
    other = Format(
        name="second", patterns=(), recognises=lambda path, head: False, identify=GOOD.formats[0].identify, read=READ
    )
    with pytest.raises(AssertionError, match=r"no sample for the formats \['second'\] of parrot"):
        check(msgspec.structs.replace(GOOD, formats=(*GOOD.formats, other)), SAMPLES)


def test_a_document_that_cannot_be_split_in_an_expected_way_is_caught() -> None:
    def split(data: bytes) -> list[tuple[str, bytes]]:
        if not data.startswith(b'{"type":"chat"'):
            raise OSError("not for a reader")
        return [(str(i), line) for i, line in enumerate(data.splitlines())]

    with pytest.raises(AssertionError, match=r"split.*raises OSError"):
        check(with_format(split=split, state=NoState), SAMPLES)


def test_what_is_heard_does_not_depend_on_ids_or_on_how_texts_are_cut() -> None:
    from clew.model.events import CallReturned, TextPart

    def talk(call: str, *texts: str) -> list[Any]:
        made = CallMade(call=call, tool="t", input=Raw(b'{"a": 1}'))
        return [
            Prompt(key="1", at=1, parts=tuple(TextPart(text=text) for text in texts)),
            Answer(key="2", at=1, parts=(made,)),
            Results(key="3", at=1, returns=(CallReturned(call=call, output=Raw(b'"x"')),)),
        ]

    assert llm_input(talk("one", "a", "b")) == llm_input(talk("other", "a\nb"))
    assert llm_input(talk("one", "a")) != llm_input(talk("one", "b"))
