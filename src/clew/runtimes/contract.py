"""What an adapter declares about one agent program. It knows the model only, does no I/O, and looks at no clock.

An adapter is one module with one `RUNTIME`. What its program cannot do is None; nothing here ever raises to say so.
The engine (service/capture/capture.py, service/resume.py) finds, tails, keeps, writes and runs.

Reading. A *record* is the smallest piece of a session that the program writes: a line, an element of a document, a row.
`Format.read` turns one record into drafts, in the order things happened:

* every record gives at least one draft; one that says nothing we have a word for gives an `Opaque` (see `opaque`);
* a draft's source is the record's own identity (`uuid`, message id ...), plus `/1`, `/2` ... for further drafts of the
  same record; a record without an identity uses the `key` it is handed (its place in the file);
* what must be remembered from one record to the next lives in `reading.state` and nowhere else, so that reading a file
  in a thousand pieces gives the same drafts as reading it at once;
* a record of an unexpected shape may raise `Unreadable`, ValueError, TypeError or LookupError: the engine keeps it as
  an Opaque.

Writing. `Writer.write` turns rounds (rounds.py) into the files of a native session. Foreign tool names, thinking,
missing results, images and other paths have been dealt with before (fit.py); a writer only puts things down.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.model.errors import InvalidInput
from clew.model.events import Draft, Opaque
from clew.runtimes.rounds import Round

if TYPE_CHECKING:
    from sqlite3 import Connection

S = TypeVar("S", bound=msgspec.Struct)


class Unreadable(InvalidInput):
    """A record whose shape the reader did not expect."""


class NoState(msgspec.Struct):
    """For readers that remember nothing."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a native session is. Must follow from the file's name and its first record, so that growth changes nothing.

    `parent` is the native id of the session that spawned this one (a subagent's), `call` the call that did. `fork_of`
    is the native id of the session whose first `fork_bytes` bytes this one goes on from without repeating them.
    """

    native: str
    project: str = ""
    agent: str = ""
    parent: str = ""
    call: str = ""
    fork_of: str = ""
    fork_bytes: int = 0


class Reading(Generic[S]):
    """One session while it is being read."""

    def __init__(self, runtime: str, native: str, state: S) -> None:
        self.runtime = runtime
        self.native = native
        self.state = state
        self.blobs: dict[str, bytes] = {}

    def blob(self, data: bytes) -> str:
        """The digest of bytes that a part names; they are saved before the event."""
        digest = blake3(data).hexdigest()
        self.blobs[digest] = data
        return digest


Record = tuple[str, bytes]
"""The key of a record and its JSON text."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a program keeps sessions: a file of lines, a document (`split`), or a database (`rows`).

    `recognises` and `identify` get the path and the beginning of the file (its first record, for `identify`).
    `mutable` says that a record can be written again with other content; its events then become revisions. `packed`
    says that the program packs files of lines with zstd and puts `.zst` behind their names; its patterns name both.
    """

    name: str
    patterns: tuple[str, ...]
    recognises: Callable[[PurePath, bytes], bool]
    identify: Callable[[PurePath, bytes], Identity]
    read: Callable[[bytes, str, Any], list[Draft]]
    state: type[msgspec.Struct] = NoState
    mutable: bool = False
    packed: bool = False
    split: Callable[[bytes], Iterable[Record]] | None = None
    rows: "Rows | None" = None


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """A format that is a SQLite database, read through a read-only connection.

    `sessions` lists what is there, each with a stamp that changes whenever anything of it does. `records` gives a
    session's records in order; secrets are never among them. `assemble` makes the program's own export from records.
    """

    sessions: Callable[["Connection"], Iterable[tuple[Identity, str]]]
    records: Callable[["Connection", str], Iterable[Record]]
    assemble: Callable[[str, list[Record]], bytes]


class Tool(msgspec.Struct, frozen=True):
    """A program's own name for a common tool, and its names for the common arguments."""

    name: str
    arguments: dict[str, str] = {}


# The common tools and their arguments; an adapter's `tools` maps these to its own.
COMMON_TOOLS = {
    "shell": ("command",),
    "read": ("path", "offset", "limit"),
    "write": ("path", "content"),
    "edit": ("path", "old", "new"),
    "list": ("path",),
    "glob": ("pattern", "path"),
    "search": ("pattern", "path"),
    "fetch": ("url",),
    "patch": ("patch",),
}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a native session is to be written: a fresh uuid for it, the directory it works in, the time in us.

    `blob` gives the bytes that a part names. `file` gives a file below the program's home, None when there is none: for
    programs that keep a register of directories.
    """

    id: str
    cwd: str
    at: int
    title: str = ""
    blob: Callable[[str], bytes]
    file: Callable[[str], bytes | None] = lambda path: None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a native session, named relative to the runtime's home."""

    path: str
    data: bytes


class Command(msgspec.Struct, frozen=True, kw_only=True):
    argv: list[str]
    env: dict[str, str] = {}


class Native(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the program's own form. `door` is the program's own import command, when it has to be used.

    In `door`, `{file}` stands for the path of the first file. `notes` are things a person has to know.
    """

    id: str
    files: list[Written]
    door: list[str] | None = None
    notes: list[str] = []


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """How a native session is made and resumed. `resume` gets the native id and the session's first file.

    `images` and `failures` say whether images, and the mark that a call failed, have a place in the form.
    """

    write: Callable[[list[Round], Target], Native]
    resume: Callable[[str, str], Command]
    images: bool = False
    failures: bool = True
    context_tokens: int = 150_000


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """How one settings file of the program connects it. `hook` is the command of clew's forwarder, `mcp` its server's.

    `add` gets the file as it is (None when missing) and returns it connected; `remove` undoes exactly that and returns
    None when nothing else is left. Both keep everything they do not know, and both may be applied twice.
    """

    path: str
    add: Callable[[bytes | None, list[str], list[str]], bytes]
    remove: Callable[[bytes], bytes | None]


class Connecting(msgspec.Struct, frozen=True, kw_only=True):
    """The settings edits that connect a program, and what the person has to do by hand (trust prompts ...)."""

    edits: tuple[Edit, ...]
    by_hand: str = ""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One agent program.

    `home` is its folder below the person's home. The environment variable `home_variable` names another, of which
    `home_below` is the part that is the program's own.
    """

    name: str
    title: str
    formats: tuple[Format, ...]
    home: str
    home_variable: str = ""
    home_below: str = ""
    binary: str = ""
    tools: dict[str, Tool] = {}
    writer: Writer | None = None
    connection: Connecting | None = None
    evidence: str = ""


# Beyond the year 9999 no program writes a time; a number like that is something else.
LATEST_MS = 253_402_300_800_000
_ODD = re.compile("[^a-zA-Z0-9_.-]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# All that a datetime can tell, in microseconds since 1970.
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta.resolution
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta.resolution


def opaque(kind: str, record: bytes, source: str, said_at: int | None = None) -> Draft:
    """A record kept verbatim. `kind` is the runtime's name, a dot, and what the program calls such a record."""
    kind = _ODD.sub("_", kind)[:80]
    return Draft(body=Opaque(kind=kind, raw=record.decode()), source=source, said_at=said_at)


def micros(time: str | float | None) -> int | None:
    """Microseconds since 1970 from ISO 8601 text, or from a number of milliseconds; None for what is neither."""
    if isinstance(time, int | float):
        return int(time * 1000) if abs(time) < LATEST_MS else None
    if not isinstance(time, str):
        return None
    try:
        return int(datetime.fromisoformat(time).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return None


def iso(at: int) -> str:
    """ISO 8601 with milliseconds and Z, as most programs write it, from microseconds."""
    # A provider's clock can be absurd, and what was said still has to be told.
    at = min(max(at, _EARLIEST), _LATEST)
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def raw(value: Any) -> Raw:
    """A value as verbatim JSON."""
    return Raw(msgspec.json.encode(value))


def project_of(cwd: str) -> str:
    """The project a directory stands for: its last name."""
    return PurePath(cwd.replace("\\", "/")).name or "default"
