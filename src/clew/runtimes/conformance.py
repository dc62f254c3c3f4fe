"""What every adapter has to hold, as checks that its author can run: `check(RUNTIME, {path: bytes})`.

A sample is a small session file as the program writes it, under the path it has below the runtime's home; a database is
given as the bytes of its file. There has to be one for each format. A check that fails raises an AssertionError that
says which rule was broken, where, and by what. Nothing here does I/O.
"""

import json
import random
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import PurePath, PurePosixPath
from typing import Any, NoReturn

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.model import codec
from clew.model.conversation import conversation, model_view
from clew.model.errors import InvalidInput
from clew.model.events import (
    KINDS,
    CallMade,
    CallReturned,
    Draft,
    Event,
    ImagePart,
    MessageAdded,
    Opaque,
    RuntimeAttached,
    TextPart,
    blobs_of,
)
from clew.runtimes.contract import (
    COMMON_TOOLS,
    Format,
    Identity,
    Native,
    Reading,
    Record,
    Runtime,
    Target,
    Tool,
    Writer,
)
from clew.runtimes.fit import fit
from clew.runtimes.records import DAMAGE, SHAPE_ERRORS, Translated, read_lines, read_records
from clew.runtimes.rounds import Answer, Prompt, Round, output_text, rounds

SQLITE = b"SQLite format 3\0"
HEAD_BYTES = 64 * 1024
LARGEST_INTEGER = 2**63 - 1
# What a document's `split` may raise; the engine then keeps the document as one damaged piece.
NO_DOCUMENT = (*SHAPE_ERRORS, *DAMAGE)
SESSION_ID = "0c3e0a52-7a3b-4e0e-9d55-3f1f2a6f8b10"
CWD = "/home/me/app"
AT = 1_794_823_200_000_000
# Values that no program should write where another belongs, and some do.
ODD: tuple[Any, ...] = (
    None, True, -1, 1e308, 10**30, "", "x\0", "~", "x" * 2000, ["x"], [None], {}, {"type": "text"},
    [{"type": "text", "text": None}],
)  # fmt: skip
# Whole records and files of no shape at all.
JUNK = (
    b"", b"\n\n", b"null", b"0", b'"x"', b"[]", b"[1]", b"{}", b"{", b"\xff\xfe\x00", b"\0" * 64, b'{"type":{}}',
    b'{"k\xff":1}', b"[" * 5000, b'{"a":' * 5000, b"[" * 5000 + b"]" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"a":"\\ud800"}',
)  # fmt: skip


def check(runtime: Runtime, samples: dict[str, bytes]) -> None:
    """Check an adapter against everything the contract asks."""
    check_shape(runtime)
    formats = check_recognition(runtime, samples)
    understood = not any(format.patterns for format in runtime.formats)
    for path, data in samples.items():
        drafts = check_reading(runtime, formats[path], path, data)
        understood = understood or not all(isinstance(draft.body, Opaque) for draft in drafts)
        check_rewriting(runtime, drafts, path)
    _claim(understood, "nothing in the samples was understood; are they sessions?")
    check_hostile(runtime, samples)
    if runtime.writer is not None:
        check_writing(runtime)


# The shape of the declaration -----------------------------------------------------------------------------------------


def check_shape(runtime: Runtime) -> None:
    """The declaration is complete and consistent."""
    _claim(isinstance(runtime, Runtime), f"RUNTIME is a {type(runtime).__name__}, not a Runtime")
    _claim(re.fullmatch("[a-z][a-z0-9-]*", runtime.name), f"the name {runtime.name!r} is not lower-case words with -")
    _claim(runtime.title, "the title is empty; it is what people read")
    _claim(_is_below(runtime.home or "x"), f"the home {runtime.home!r} has to be relative to a person's home")
    _claim(runtime.formats, "there is no format: what does the program write?")
    names = [format.name for format in runtime.formats]
    _claim(len({*names}) == len(names), f"two formats have one name: {names}")
    for format in runtime.formats:
        where = f"format {format.name!r}"
        _claim(format.split is None or format.rows is None, f"{where} is a document or a database, not both")
        for pattern in format.patterns:
            _claim(_is_below(pattern), f"{where}: the pattern {pattern!r} leaves the home")
        _check_state(format.state(), format, "a fresh one")
    for common, tool in runtime.tools.items():
        _claim(common in COMMON_TOOLS, f"{common!r} is no common tool; these are: {', '.join(COMMON_TOOLS)}")
        _claim(isinstance(tool, Tool), f"tools[{common!r}] is not a Tool with a name")
        odd = tool.arguments.keys() - {*COMMON_TOOLS[common]}
        _claim(not odd, f"tools[{common!r}] maps {sorted(odd)}, but its arguments are {COMMON_TOOLS[common]}")
    for edit in runtime.connection.edits if runtime.connection else ():
        _claim(_is_below(edit.path), f"the settings file {edit.path!r} leaves the home")
        added = edit.add(None, ["clew-hook"], ["clew", "mcp"])
        _claim(edit.add(added, ["clew-hook"], ["clew", "mcp"]) == added, f"{edit.path}: connecting twice changes more")
        _claim(edit.remove(added) is None, f"{edit.path}: disconnecting leaves something behind")


def check_recognition(runtime: Runtime, samples: dict[str, bytes]) -> dict[str, Format]:
    """Every sample is recognised by one format and named the same each time; junk is looked at without raising."""
    found: dict[str, Format] = {}
    for path, data in samples.items():
        _claim(_is_below(path), f"the sample's path {path!r} has to be relative to the runtime's home")
        found[path] = format_of(runtime, path, data)
        identity = identify(found[path], path, data)
        _claim(identity.native, f"{path}: identify gives no native id")
        _claim(identity == identify(found[path], path, data), f"{path}: identify gives another identity each time")
        if found[path].split is None and found[path].rows is None:
            grown = data + b'{"one":"more"}\n'
            _claim(identify(found[path], path, grown) == identity, f"{path}: the identity changes when the file grows")
    missing = [one.name for one in runtime.formats if one not in found.values()]
    _claim(not missing, f"there is no sample for the formats {missing} of {runtime.name}")
    for format in runtime.formats:
        for path in ("x.jsonl", "x.json", "x", *samples):
            for junk in (*JUNK, *(data[:cut] for data in samples.values() for cut in (1, 40, 400))):
                check_glance(format, path, junk)
    return found


def check_glance(format: Format, path: str, data: bytes) -> None:
    """Whether a file is recognised and who it is can be asked of any bytes."""
    where = f"format {format.name!r}: recognises({path!r}, {_shown(data)})"
    with _guarded(where):
        answer: object = format.recognises(PurePath(path), data)
    _claim(isinstance(answer, bool), f"{where} gives {answer!r}, not a bool")
    try:
        identity = format.identify(PurePath(path), data)
    except SHAPE_ERRORS:
        return
    except Exception as error:  # noqa: BLE001  # whatever it is, the engine does not expect it
        _escaped(f"format {format.name!r}: identify({path!r}, {_shown(data)})", error)
    _claim(isinstance(identity, Identity), f"format {format.name!r}: identify gives {identity!r}, not an Identity")
    words = (identity.native, identity.project, identity.agent, identity.parent, identity.call, identity.fork_of)
    _claim(all(isinstance(word, str) for word in words), f"format {format.name!r}: {identity} is not all text")


def format_of(runtime: Runtime, path: str, data: bytes) -> Format:
    """The format that recognises a file."""
    for format in runtime.formats:
        if data.startswith(SQLITE) != (format.rows is not None):
            continue
        with _guarded(f"recognises({path!r})"):
            if format.recognises(PurePath(path), data[:HEAD_BYTES]):
                return format
    raise AssertionError(f"no format of {runtime.name} recognises {path!r}, which begins with {_shown(data)}")


def identify(format: Format, path: str, data: bytes) -> Identity:
    """Who a file is, told as the engine asks: a file of lines by its first, a document as a whole."""
    first = data if format.split or format.rows else next((one for one in data.split(b"\n") if one.strip()), b"")
    try:
        return format.identify(PurePath(path), first)
    except SHAPE_ERRORS:
        return Identity(native="")


# Reading --------------------------------------------------------------------------------------------------------------


def check_reading(runtime: Runtime, format: Format, path: str, data: bytes) -> list[Draft]:
    """Everything in a sample is accounted for, and however it is cut, it says the same."""
    drafts: list[Draft] = []
    if format.split is None and format.rows is None:
        drafts = check_bytes(runtime, format, path, data, cuts=_cuts(data))
        expected = sum(bool(line.strip()) for line in data.split(b"\n"))
        done = translate(runtime, format, path, data)
        _claim(done.quarantined == 0, f"{path}: {done.quarantined} records of the sample are taken for damage")
        _claim(
            done.records == expected and not done.torn,
            f"{path}: {expected} records were written, {done.records} are accounted for",
        )
    for records in sessions_of(format, path, data):
        _claim(records, f"{path}: a session without a record")
        keys = [key for key, _ in records]
        _claim(len({*keys}) == len(keys), f"{path}: two records have one key")
        drafts += check_records(runtime, format, path, records)
    bodies: dict[str, Draft] = {}
    for draft in drafts:
        same = bodies.setdefault(draft.source or "", draft)
        _claim(
            codec.encode(same.body) == codec.encode(draft.body),
            f"{path}: two things that differ have the source {draft.source!r}",
        )
    return drafts


def check_bytes(runtime: Runtime, format: Format, path: str, data: bytes, *, cuts: Iterable[int] = ()) -> list[Draft]:
    """Read any bytes as a file of lines or a document: nothing escapes, and the pieces say what the whole says."""
    if format.split is not None:
        try:
            records = list(format.split(data))
        except NO_DOCUMENT:
            return []
        except Exception as error:  # noqa: BLE001  # whatever it is, the engine does not expect it
            _escaped(f"{path}: split({_shown(data)})", error)
        return check_records(runtime, format, path, records)
    whole = translate(runtime, format, path, data)
    _claim(0 <= whole.end <= len(data), f"{path}: reading ended at {whole.end} of {len(data)} bytes")
    _check_pieces(runtime, format, path, data, [cut for cut in sorted(cuts) if _is_fair(data, cut)], whole)
    return whole.drafts


def check_records(runtime: Runtime, format: Format, path: str, records: list[Record]) -> list[Draft]:
    """Read the records of a document or a database: nothing escapes, each is accounted for, and twice is the same."""
    native = identify(format, path, b"").native or "native"
    done, again = (
        read_records(_watched(format, set()), Reading(runtime.name, native, format.state()), records) for _ in range(2)
    )
    _claim(done.records == len(records), f"{path}: {len(records)} records gave {done.records}")
    _claim(_same(done.drafts, again.drafts), f"{path}: reading the records twice gives other drafts")
    return done.drafts


def translate(runtime: Runtime, format: Format, path: str, data: bytes) -> Translated:
    """Read a whole file of lines, every draft looked at."""
    native = identify(format, path, data).native or "native"
    return read_lines(_watched(format, set()), Reading(runtime.name, native, format.state()), data)


def _check_pieces(runtime: Runtime, format: Format, path: str, data: bytes, cuts: list[int], whole: Translated) -> None:
    native = identify(format, path, data).native or "native"
    state = msgspec.json.encode(format.state())
    drafts: list[Draft] = []
    records = end = 0
    watched = _watched(format, set())
    for cut in [*cuts, len(data)]:
        reading = Reading(runtime.name, native, msgspec.json.decode(state, type=format.state))
        done = read_lines(watched, reading, data[end:cut], end)
        drafts += done.drafts
        records, end = records + done.records, done.end
        state = msgspec.json.encode(reading.state)
    at = next((i for i, pair in enumerate(zip(drafts, whole.drafts, strict=False)) if not _same(*pair)), len(drafts))
    _claim(
        _same(drafts, whole.drafts) and records == whole.records,
        f"{path}: read in {len(cuts) + 1} pieces it is not what it is as a whole: {len(drafts)} drafts and "
        f"{len(whole.drafts)}, different from draft {at} on. What a reader remembers lives in reading.state only. "
        f"{_shown_drafts(drafts, at)} is not {_shown_drafts(whole.drafts, at)}",
    )


def _watched(format: Format, blobs: set[str]) -> Format:
    """The format, with every draft it gives looked at; `blobs` are those there already."""

    # Where a record may be written again, the same source twice is a newer revision of one thing.
    revised = format.mutable or format.split is not None or format.rows is not None

    def read(record: bytes, key: str, reading: Reading[Any]) -> list[Draft]:
        try:
            drafts = format.read(record, key, reading)
        except (*SHAPE_ERRORS, *DAMAGE):
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the engine does not expect it
            _escaped(f"format {format.name!r}: read({_shown(record)})", error)
        where = f"format {format.name!r}: the record {_shown(record)}"
        _claim(drafts, f"{where} gives {drafts!r}: each gives at least one draft")
        blobs.update(reading.blobs)
        sources = [draft.source for draft in drafts]
        _claim(revised or len({*sources}) == len(sources), f"{where} gives two drafts one source: {sources}")
        for draft in drafts:
            _check_draft(draft, where, blobs)
        _check_state(reading.state, format, where)
        return drafts

    return msgspec.structs.replace(format, read=read)


def _check_draft(draft: Draft, where: str, blobs: set[str]) -> None:
    _claim(isinstance(draft, Draft), f"{where} gives a {type(draft).__name__}, not a Draft")
    _claim(draft.source, f"{where} gives a {draft.body.kind} without a source")
    at = draft.said_at
    _claim(
        at is None or abs(at) <= LARGEST_INTEGER,
        f"{where}: said_at {at!r} is no time in microseconds that fits 64 bits",
    )
    body = draft.body
    if isinstance(body, Opaque):
        _claim("." in body.kind, f"{where}: the kind {body.kind!r} of an Opaque needs a dot; use `opaque`")
    else:
        _claim(body.kind in KINDS and not body.reserved, f"{where}: {body.kind} is written by clew alone")
    try:
        text = codec.encode(body).decode()
        back = codec.decode(body.kind, body.version, text)
    except (InvalidInput, msgspec.DecodeError) as error:
        raise AssertionError(f"{where} gives a {body.kind} that cannot be kept: {error}") from error
    except Exception as error:  # noqa: BLE001  # whatever it is, the engine does not expect it
        _escaped(f"{where}: encoding its {body.kind}", error)
    _claim(codec.encode(back).decode() == text, f"{where} gives a {body.kind} that comes back as another")
    missing = [blob for blob in blobs_of(body) if blob not in blobs]
    _claim(not missing, f"{where} names blobs that reading.blob never got: {missing}")


def _check_state(state: msgspec.Struct, format: Format, where: str) -> None:
    try:
        text = msgspec.json.encode(state)
        back = msgspec.json.decode(text, type=format.state)
    except Exception as error:  # whatever it is, the state cannot be kept
        raise AssertionError(f"the state of format {format.name!r} after {where} cannot be kept: {error!r}") from error
    _claim(back == state, f"the state of format {format.name!r} after {where} comes back as {back}, not as {state}")


def sessions_of(format: Format, path: str, data: bytes) -> list[list[Record]]:
    """The records of each session in a database, or of the one in a document; none for a file of lines."""
    if format.rows is not None:
        return [records for _, records in database_of(format, data)]
    if format.split is None:
        return []
    with _guarded(f"split({path!r})"):
        return [list(format.split(data))]


def database_of(format: Format, data: bytes) -> list[tuple[Identity, list[Record]]]:
    """The sessions of a database and their records; `assemble` is tried on each."""
    if format.rows is None:
        raise AssertionError(f"format {format.name!r} is no database")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data)
        connection.execute("PRAGMA query_only = 1")
        sessions = list(format.rows.sessions(connection))
        _claim(sessions, f"format {format.name!r} finds no session in its sample")
        _claim(
            sessions == list(format.rows.sessions(connection)), f"format {format.name!r}: stamps change by themselves"
        )
        found = [(identity, list(format.rows.records(connection, identity.native))) for identity, _ in sessions]
    for identity, records in found:
        made = format.rows.assemble(identity.native, records)
        _claim(isinstance(made, bytes), f"format {format.name!r}: assemble gives no bytes")
    return found


# Hostile shapes -------------------------------------------------------------------------------------------------------


def check_hostile(runtime: Runtime, samples: dict[str, bytes]) -> None:
    """Whatever a record looks like, nothing but the errors of the contract leaves a reader."""
    seen: set[str] = set()
    for path, data in samples.items():
        format = format_of(runtime, path, data)
        if format.split is None and format.rows is None:
            lines = [*(odd for line in data.split(b"\n") for odd in _odd(line, seen)), *JUNK]
            for odd in lines:
                translate(runtime, format, path, odd + b"\n")
            translate(runtime, format, path, b"\n".join([*lines, b""]))
            continue
        for whole in (*JUNK, *_odd(data, seen, deep=2), *(data[:cut] for cut in _cuts(data)[:20])):
            if format.split is not None:
                check_bytes(runtime, format, path, whole)
        for key, record in (record for session in sessions_of(format, path, data) for record in session):
            check_records(runtime, format, path, [(key, odd) for odd in (*_odd(record, seen), *JUNK)])


def _odd(record: bytes, seen: set[str], deep: int = 99) -> Iterator[bytes]:
    """A record with one value at a time replaced, or left out; each place of each kind of record once."""
    try:
        value = json.loads(record)
    except ValueError:
        return
    kind = str(value.get("type")) + str(value.get("role")) if isinstance(value, dict) else ""
    for holder, name, place in list(_places(value, kind)):
        if place in seen or place.count("/") > deep:
            continue
        seen.add(place)
        was = holder[name]
        for odd in ODD:
            holder[name] = odd
            yield json.dumps(value).encode()
        if isinstance(holder, dict):
            del holder[name]
            yield json.dumps(value).encode()
        holder[name] = was


def _places(value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Every place in a value, the elements of a list taken for one."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        place = (
            f"{path}/{name if isinstance(value, dict) else ''}:{inner.get('type') if isinstance(inner, dict) else ''}"
        )
        yield value, name, place
        yield from _places(inner, place)


# Writing --------------------------------------------------------------------------------------------------------------


def check_writing(runtime: Runtime) -> None:
    """A made-up conversation, and a hostile one, come through the writer and back."""
    check_rewriting(runtime, _story(runtime), "a made-up session")
    check_rewriting(runtime, _hostile_story(), "a made-up session with odd texts", tools=False)


def check_rewriting(
    runtime: Runtime, drafts: list[Draft], where: str, *, tools: bool = True, exactly: bool = True
) -> None:
    """Write what was read, and read it again: the conversation is the same, and so is the file the next time."""
    writer = runtime.writer
    if writer is None:
        return
    with _guarded(f"{where}: fitting"):
        talk = fit(events_of(drafts), runtime, tools={runtime.name: runtime.tools}).rounds
    for target in TARGETS if talk else ():
        with _guarded(f"{where}: writing"):
            native, again = writer.write(talk, target), writer.write(talk, target)
        _check_native(runtime, writer, native, where)
        _claim(native == again, f"{where}: writing the same twice gives other files; derive ids from target.id")
        if exactly:
            back = heard(rounds(model_view(events_of(read_written(runtime, native)))), tools=tools)
            told = heard(talk, tools=tools)
            _claim(back == told, f"{where}: what was written reads back as something else: {_first_change(told, back)}")


def check_talk(runtime: Runtime, drafts: list[Draft], target: Runtime) -> None:
    """Whatever was read can be talked about: it has a conversation, and the target's writer takes it."""
    events = events_of(drafts)
    with _guarded("conversation() or rounds()"):
        rounds(conversation(events, sides=True))
        rounds(model_view(events))
    check_rewriting(target, drafts, f"a session of {runtime.name} for {target.name}", exactly=False)


def _check_native(runtime: Runtime, writer: Writer, native: Native, where: str) -> None:
    _claim(native.id, f"{where}: write gives no Native with an id")
    _claim(native.files, f"{where}: no file was written")
    for file in native.files:
        _claim(_is_below(file.path), f"{where}: the file {file.path!r} would be outside the runtime's home")
        _claim(isinstance(file.data, bytes), f"{where}: the data of {file.path!r} is no bytes")
        longest = max(len(name.encode()) for name in PurePosixPath(file.path).parts)
        _claim(longest <= 255, f"{where}: {file.path!r} holds a name of {longest} bytes, which no file system takes")
    first = native.files[0].path
    command = writer.resume(native.id, f"{CWD}/{first}")
    _claim(
        command.argv and all(isinstance(word, str) for word in command.argv),
        f"{where}: the resume command {command.argv!r} is no list of words",
    )
    _claim(
        all(isinstance(word, str) for pair in command.env.items() for word in pair),
        f"{where}: the environment of the resume command {command.env!r} is not text",
    )
    if native.door is not None:
        _claim("{file}" in native.door, f"{where}: the import command {native.door!r} does not name {{file}}")
        return
    patterns = [pattern for format in runtime.formats for pattern in format.patterns]
    _claim(
        any(_matches(pattern, first) for pattern in patterns),
        f"{where}: {first!r} would never be captured back: no pattern of {patterns} matches it",
    )


def read_written(runtime: Runtime, native: Native) -> list[Draft]:
    """What the runtime's own reader makes of what its writer wrote."""
    file = native.files[0]
    format = format_of(runtime, file.path, file.data)
    return check_bytes(runtime, format, file.path, file.data, cuts=_cuts(file.data)[:5])


def _picture(digest: str) -> bytes:
    """Some bytes for any digest: a writer only passes them on."""
    return b"\x89PNG\r\n\x1a\n" + digest.encode()


def _target(cwd: str, title: str) -> Target:
    return Target(id=SESSION_ID, cwd=cwd, at=AT, title=title, blob=_picture)


LONG = "/long-names" * 20
TARGETS = (_target(CWD, "A title"), _target("/../../../x", "../../../x"), _target(f"/é ü{LONG}", ""))


def events_of(drafts: Iterable[Draft]) -> list[Event]:
    """Drafts as a log would hold them: the same source twice is one event."""
    found: dict[str, Event] = {}
    for draft in drafts:
        seq = len(found) + 1
        event = Event("s", seq, seq, AT + seq, draft.said_at, "person:x", draft.source, b"", draft.body)
        found.setdefault(draft.source or f"~{seq}", event)
    return list(found.values())


def heard(talk: list[Round], *, tools: bool = True) -> list[tuple[Any, ...]]:
    """What a model hears of a conversation: texts, images, calls and results in order, calls by their number.

    Without `tools` the names of tools are left out: a provider may not take every name.
    """
    found: list[tuple[Any, ...]] = []
    numbers: dict[str, int] = {}

    def says(who: str, text: str) -> None:
        if found and found[-1][0] == who:
            text = f"{found.pop()[1]}\n{text}"
        found.append((who, text))

    for one in talk:
        if isinstance(one, Prompt | Answer):
            who = "user" if isinstance(one, Prompt) else "assistant"
            for part in one.parts:
                if isinstance(part, CallMade):
                    numbers[part.call] = len(numbers)
                    found.append(
                        ("call", numbers[part.call], part.tool if tools else "", msgspec.json.decode(part.input))
                    )
                elif isinstance(part, TextPart):
                    says(who, part.text)
                elif isinstance(part, ImagePart):
                    found.append((who, "an image"))
        else:
            backs = sorted(one.returns, key=lambda back: numbers.get(back.call, -1))
            found += [("result", numbers.get(back.call, -1), output_text(back)) for back in backs]
    return found


def _story(runtime: Runtime) -> list[Draft]:
    """A conversation with everything a writer has to carry: parallel calls, a failure, an image, Unicode."""
    shell = runtime.tools.get("shell", Tool("run", {"command": "command"}))
    command = shell.arguments.get("command", "command")
    picture = _picture("")
    blob = blake3(picture).hexdigest()

    def call(id: str, words: str, message: str) -> CallMade:
        return CallMade(call=id, tool=shell.name, input=Raw(json.dumps({command: words}).encode()), message=message)

    bodies: list[Any] = [
        RuntimeAttached(runtime=runtime.name, native="n", cwd=CWD),
        MessageAdded(role="user", text="list the files für mich 🧵\nand tell me"),
        MessageAdded(role="assistant", text="I look.", message="m1", model="a-model"),
        call("call_1", "ls", "m1"),
        call("call_2", "cat nothing", "m1"),
        CallReturned(call="call_1", output=Raw(b'"a.txt\\n\\u00fcber.txt"')),
        CallReturned(call="call_2", output=Raw(b'"no such file"'), failed=True),
        MessageAdded(role="assistant", text="Two files.", message="m2"),
        call("call_3", "true", "m2"),
        CallReturned(call="call_3", output=Raw(b'"done"')),
        MessageAdded(role="assistant", text='Done: {"a": "<b>"} \\ \t.', message="m3"),
        MessageAdded(role="user", parts=(TextPart(text="and this?"), ImagePart(blob=blob, media_type="image/png"))),
        MessageAdded(role="assistant", text="A picture.", message="m4"),
    ]
    return [Draft(body=body, source=f"s{i}", said_at=AT + i * 1000) for i, body in enumerate(bodies)]


def _hostile_story() -> list[Draft]:
    """Texts, names and ids that a file name, a terminal or a format could trip over."""
    odd = ["../../x", "a\0b", "\x1b[31m", "\u2028\r\n", "ü" * 300, "~", "-rf", "]]>", "```"]
    bodies: list[Any] = []
    for i, word in enumerate(odd):
        bodies += [
            MessageAdded(role="user" if i % 3 else "system", text=word),
            MessageAdded(role="assistant", text=word, message=f"m{i}"),
            CallMade(call=word, tool=word, input=Raw(json.dumps([word]).encode()), message=f"m{i}"),
            CallReturned(call=word, output=Raw(json.dumps({word: word}).encode())),
        ]
    return [Draft(body=body, source=f"s{i}", said_at=0 if i else -1) for i, body in enumerate(bodies)]


# Small things ---------------------------------------------------------------------------------------------------------


def _claim(holds: object, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _escaped(where: str, error: Exception) -> NoReturn:
    raise AssertionError(
        f"{where} raises {error!r}; a reader may raise ValueError, TypeError, LookupError or Unreadable only"
    ) from error


@contextmanager
def _guarded(where: str) -> Iterator[None]:
    """Nothing may raise here."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{where} raises {error!r}, and nobody is there to catch it") from error


def _is_below(path: str) -> bool:
    """Whether a relative path stays where it begins."""
    return not path.startswith("/") and "\0" not in path and ".." not in PurePosixPath(path).parts and path != ""


def _matches(pattern: str, path: str) -> bool:
    """Whether glob would find the path."""
    words = (re.escape(word).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for word in pattern.split("**/"))
    return re.fullmatch("(?:.*/)?".join(words), path) is not None


def _cuts(data: bytes) -> list[int]:
    """Places to cut at: the same ones each time, in lines and in characters."""
    draw = random.Random(len(data))  # noqa: S311  # no secret
    return [draw.randrange(len(data) + 1) for _ in range(min(200, len(data)))]


def _is_fair(data: bytes, cut: int) -> bool:
    """Whether nobody could take what lies before the cut for a whole record: a line is one JSON object."""
    start = data.rfind(b"\n", 0, cut) + 1
    if not data[start:cut].strip():
        return start == cut
    try:
        msgspec.json.decode(data[start:cut], type=Raw)
    except DAMAGE:
        return True
    return data[cut : cut + 1] in (b"\n", b"")


def _same(one: Any, other: Any) -> bool:
    """Equal, verbatim JSON compared by its bytes."""
    if isinstance(one, list):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return bool(
        (one.source, one.said_at) == (other.source, other.said_at)
        and one.body.kind == other.body.kind
        and codec.encode(one.body) == codec.encode(other.body)
    )


def _first_change(told: list[Any], back: list[Any]) -> str:
    at = next(
        (i for i, (one, other) in enumerate(zip(told, back, strict=False)) if one != other), min(len(told), len(back))
    )
    return f"at {at}, {_shown(told[at : at + 2])} became {_shown(back[at : at + 2])}"


def _shown_drafts(drafts: list[Draft], at: int) -> str:
    return _shown([(draft.source, draft.body) for draft in drafts[at : at + 1]])


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-90:]}"
