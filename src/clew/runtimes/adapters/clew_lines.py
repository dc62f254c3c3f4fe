"""clew's own JSON lines: every event of a session as one flat object, and back into equal drafts.

Events that clew's operations wrote (opened, paused, leases ...) happened to the exported session, not to the session
that reads them: the reader stores them verbatim, with a kind that begins with `clew.`. It does the same with a removed
body, and with a body that a newer clew wrote. Seqs in a body are those of the exported session.

A page for people (Markdown, HTML) has the same lines, compressed, in a comment at its end, so that clew can read it.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

import msgspec
import zstandard
from msgspec import Raw

from clew.model import codec
from clew.model.events import KINDS, Compacted, Draft, Event, Opaque, Rewound
from clew.model.ids import ALPHABET, LENGTH, plain_kind
from clew.model.source import identity
from clew.runtimes.base64_pieces import encoded
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime, Unreadable, opaque

NAME = "clew"
# The fields of an event that its draft lacks.
ENVELOPE = ("session", "seq", "at", "actor", "position")
LARGEST_INTEGER = 2**63 - 1
# A page has this mark at its beginning if it holds a session.
_PAGE = b"<!-- clew:session -->"
_MARK = b"clew:events"
_EMBEDDED = re.compile(rb"<!-- clew:events ([A-Za-z0-9+/=]+) -->\s*\Z")
# What a page of any size may unpack to, and how many times its own size a larger one.
SMALL_PAGE = 16 * 1024 * 1024
MOST_TIMES = 200
# The envelope of an event alone is longer.
SHORTEST_EVENT = 64
LARGEST_WINDOW = 2**27
LARGEST_PAGE = 1024 * 1024 * 1024
_AN_ID = re.compile(f"[{ALPHABET}]{{{LENGTH}}}")
_AN_EVENT = re.compile(rb'\s*\{"session":\s*"[^"]+",\s*"seq":\s*\d+,\s*"kind":\s*"')


class Envelope(msgspec.Struct):
    session: str
    seq: int
    kind: str
    at: int | None = None
    source: str | None = None
    said_at: int | None = None


class State(msgspec.Struct, omit_defaults=True):
    """The local names for sources of other sessions: a fork's file has sources of its ancestors."""

    others: dict[str, str] = {}


_envelope = msgspec.json.Decoder(Envelope).decode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode


def lines(events: Iterable[Event]) -> Iterator[bytes]:
    """The events, one per line."""
    for event in events:
        yield codec.on_one_line(msgspec.json.encode(codec.event_fields(event))) + b"\n"


def embed(page: Iterable[bytes], events: Iterable[Event]) -> Iterator[bytes]:
    """The pieces of a page with the events in it, for programs; the page does not show them."""
    ending = b""
    for piece in page:
        piece = ending + piece
        text = piece.rstrip(b"\n")
        ending = piece[len(text) :]
        yield text
    yield b"\n<!-- %s " % _MARK
    yield from encoded(_packed(lines(events)))
    yield b" -->\n"


def _packed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zstandard.ZstdCompressor(level=9).compressobj()
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def embedded(page: bytes) -> list[Record]:
    """The events in a page."""
    match = _EMBEDDED.search(page, max(0, page.rfind(b"<!-- ")))
    if match is None:
        raise Unreadable("the page holds no session")
    try:
        packed = base64.b64decode(match[1], validate=True)
        most = min(LARGEST_PAGE, SMALL_PAGE + MOST_TIMES * len(packed))
        lines = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).stream_reader(packed).read(most + 1)
    except (ValueError, zstandard.ZstdError) as error:
        raise Unreadable(f"the session in the page is damaged: {error}") from error
    # A few bytes can unpack to more than memory holds, and short lines take many times their length as records.
    if len(lines) > most or lines.count(b"\n") > 1000 + len(lines) // SHORTEST_EVENT:
        raise Unreadable("the session in the page is damaged: it unpacks to more than a session of its size can hold")
    return [(f"line{number}", line) for number, line in enumerate(lines.split(b"\n")) if line]


def is_page(path: PurePath, head: bytes) -> bool:
    return path.suffix in (".md", ".html") and _PAGE in head


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    event = _envelope(record)
    source = _source(event, reading)
    said_at = event.said_at if event.said_at is not None else event.at
    if said_at is not None and abs(said_at) > LARGEST_INTEGER:
        raise Unreadable(f"{said_at} is not a valid time in microseconds")
    fields = {name: value for name, value in _fields(record).items() if name not in ENVELOPE}
    if "opaque" in fields and "." in event.kind:
        body = Opaque(kind=plain_kind(event.kind), raw=bytes(fields["opaque"]).decode())
        return [Draft(body=body, source=source, said_at=said_at)]
    if "opaque" in fields or "removed" in fields or event.kind not in KINDS or KINDS[event.kind].reserved:
        return [opaque(f"{NAME}.{event.kind}", record, source, said_at)]
    draft = codec.imported_draft(fields)
    return [msgspec.structs.replace(_with_local_sources(draft, reading.state), source=source, said_at=said_at)]


def _source(event: Envelope, reading: Reading[State]) -> str:
    """The event's own source, or its session and seq. Two sessions can share a source: another session's is renamed."""
    if not event.source:
        return f"{event.session}:{event.seq}"
    others = reading.state.others
    if event.session == reading.native:
        others.pop(identity(event.source), None)
        return event.source
    others[identity(event.source)] = f"{event.session}/{identity(event.source)}"
    return f"{event.session}/{event.source}"


def _with_local_sources(draft: Draft, state: State) -> Draft:
    """The draft with its references to sources renamed to the local names."""
    body = draft.body
    if isinstance(body, Rewound) and identity(body.to) in state.others:
        body = msgspec.structs.replace(body, to=state.others[identity(body.to)])
    elif isinstance(body, Compacted) and identity(body.keep) in state.others:
        body = msgspec.structs.replace(body, keep=state.others[identity(body.keep)])
    return msgspec.structs.replace(draft, body=body)


def recognises(path: PurePath, head: bytes) -> bool:
    first = head.split(b"\n", 1)[0]
    if _AN_EVENT.match(first):
        return True
    try:
        _envelope(first)
    except (ValueError, RecursionError):
        return False
    return True


def identify(path: PurePath, first: bytes) -> Identity:
    """The file's name is the session's id, else the first event has it; in a fork's file that is the ancestor's."""
    try:
        native = path.stem if _AN_ID.fullmatch(path.stem) else _envelope(first).session
        fields = _fields(first)
    except RecursionError as error:
        raise Unreadable("the first event nests too deeply to be read") from error
    return Identity(native=native, project=_text(fields, "project"), is_chosen=True, agent=_text(fields, "agent"))


def identify_page(path: PurePath, page: bytes) -> Identity:
    """The identity of a page is that of the lines in it."""
    return identify(path, embedded(page)[0][1])


def _text(fields: dict[str, Raw], name: str) -> str:
    value = msgspec.json.decode(fields[name]) if name in fields else ""
    return value if isinstance(value, str) else ""


RUNTIME = Runtime(
    name=NAME,
    title="clew",
    home="",
    formats=(
        Format(name="lines", patterns=(), recognises=recognises, identify=identify, read=read, state=State),
        Format(
            name="page", patterns=(), recognises=is_page, identify=identify_page, read=read, state=State, split=embedded
        ),
    ),
    evidence="clew's own export, read back over every kind",
)
