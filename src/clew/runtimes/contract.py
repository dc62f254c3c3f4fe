"""What an adapter declares about one agent program. It imports only the model, does no I/O, and reads no clock.

An adapter is one module with one `RUNTIME`. What its program cannot do is None; nothing here raises for it.
The engine (service/capture, service/handover) finds and tails files, archives them, writes them and runs programs.

Reading. A *record* is the smallest piece of a session that the program writes: a line, an element of a document, a row.
`Format.read` turns one record into drafts, in the order things happened:

* every record gives at least one draft; a record for which there is no event kind gives an `Opaque` (see `opaque`);
* a draft's source is the record's own identity (`uuid`, message id ...), plus `/1`, `/2` ... for further drafts of the
  same record; a record without an identity uses the `key` that `read` receives (its offset in the file);
* a reader keeps what it must remember from one record to the next in `reading.state` only, so that reading a file in a
  thousand pieces gives the same drafts as reading it at once;
* a record of an unexpected shape may raise `Unreadable`, ValueError, TypeError or LookupError: the engine stores
  the record as an Opaque.

Writing. `Writer.write` turns rounds (rounds.py) into the files of a native session. Foreign tool names, thinking,
missing results, images and other paths are already converted (fit.py); a writer only serialises.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from blake3 import blake3
from msgspec import Raw

from clew.model.errors import InvalidInput
from clew.model.events import CallReturned, Draft, Opaque, ThinkingPart
from clew.model.ids import plain_kind
from clew.runtimes.rounds import Round

if TYPE_CHECKING:
    from sqlite3 import Connection

S = TypeVar("S", bound=msgspec.Struct)


class Unreadable(InvalidInput):
    """A record has a shape that the reader did not expect."""


class NoState(msgspec.Struct):
    """The state of a reader that remembers nothing."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a native session. The file's name and first record decide it, so growth does not change it.

    `parent` is the native id of the session that spawned this one (a subagent), `call` the call that spawned it.
    `fork_of` is the native id of the session that this one continues: its first `fork_bytes` bytes are not repeated
    here.

    `folder` is where the program worked, if its file or path says so; `folder_file` the path of a file that says so;
    `repository` the URL of a remote there. `project` is what the program calls the folder, such as `-home-me-app`; or
    a name of a project that `is_chosen`.
    """

    native: str
    project: str = ""
    is_chosen: bool = False
    folder: str = ""
    folder_file: str = ""
    repository: str = ""
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
        """Keep the bytes that a part names, and return their digest; the engine saves them before the event."""
        digest = blake3(data).hexdigest()
        self.blobs[digest] = data
        return digest


Record = tuple[str, bytes]
"""The key of a record and its JSON text."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a program stores sessions: a file of lines, a document (`split`), or a database (`rows`).

    `recognises` gets the path and the beginning of the file, `identify` the path and the first record.
    `mutable`: the program can write a record again with other content; the later events are revisions. `packed`: the
    program compresses files of lines with zstd and appends `.zst` to their names; its patterns name both. `elsewhere`:
    for an environment variable that names another folder with sessions, the patterns below that folder. `sessions`:
    a document holds many sessions (an export); it gives each with its own bytes, which `split` takes apart.
    `bookkeeping`: the kinds of opaque records that say nothing, so that a file of nothing else is no surprise.
    `kept_in`: the file in which the program kept the whole of a result that it shortened, relative to the folder that
    is named like the session's file without its suffix; "" if there is none.
    `reopen`: how a program whose sessions clew does not write resumes one of its own, by its native id.
    """

    name: str
    patterns: tuple[str, ...]
    elsewhere: dict[str, tuple[str, ...]] = {}
    recognises: Callable[[PurePath, bytes], bool]
    identify: Callable[[PurePath, bytes], Identity]
    read: Callable[[bytes, str, Any], list[Draft]]
    state: type[msgspec.Struct] = NoState
    mutable: bool = False
    packed: bool = False
    bookkeeping: frozenset[str] = frozenset()
    kept_in: Callable[[CallReturned], str] | None = None
    split: Callable[[bytes], Iterable[Record]] | None = None
    sessions: Callable[[bytes], Iterable[tuple[Identity, bytes]]] | None = None
    rows: "Rows | None" = None
    reopen: "Callable[[str], Command] | None" = None


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """A format that is a SQLite database, read through a read-only connection.

    `sessions` lists the sessions, each with a stamp that changes whenever anything in the session changes. `records`
    gives a session's records in order, without the program's credentials. `assemble` builds the program's own export
    from records.
    """

    sessions: Callable[["Connection"], Iterable[tuple[Identity, str]]]
    records: Callable[["Connection", str], Iterable[Record]]
    assemble: Callable[[str, list[Record]], bytes]


class Tool(msgspec.Struct, frozen=True):
    """A program's own name for a common tool, and its names for the common arguments."""

    name: str
    arguments: dict[str, str] = {}


# The common tools and their arguments; an adapter's `tools` maps these to the names of its program.
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
    """Where a native session is written: a fresh uuid for it, its working directory, the time in microseconds.

    `blob` returns the bytes that a part names. `file` returns a file below the program's home, None if it does not
    exist: some programs keep a register of directories.
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
    """A session in the program's own form. `notes` are for the person who resumes the session."""

    id: str
    files: list[Written]
    notes: list[str] = []


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """How a native session is made and resumed. `resume` gets the native id and the session's first file.

    `prepare`: the commands that come before `resume`, in order, such as the program's own import; in them `{file}`
    stands for the path of the first file.

    `images` and `failures`: the format can store images, and the mark that a call failed. `takes_thought`: whether the
    program's provider takes back a thought that an llm of this name had in this program. `longest_result`: the program
    itself cuts results of more characters when it sends them.
    """

    write: Callable[[list[Round], Target], Native]
    resume: Callable[[str, str], Command]
    prepare: tuple[tuple[str, ...], ...] = ()
    images: bool = False
    failures: bool = True
    takes_thought: Callable[[ThinkingPart, str], bool] | None = None
    context_tokens: int = 150_000
    longest_result: int | None = None


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """The change to one settings file that connects the program to clew.

    `add` gets the file (None if it is missing), the command of clew's forwarder and the command of its MCP server, and
    returns the changed file. `remove` undoes exactly that, and returns None when nothing else is left. Both keep
    everything they do not know, and both are idempotent.
    """

    path: str
    add: Callable[[bytes | None, list[str], list[str]], bytes]
    remove: Callable[[bytes], bytes | None]


class Connecting(msgspec.Struct, frozen=True, kw_only=True):
    """The settings edits that connect a program, and what a person has to do by hand (trust prompts ...).

    `when_silent` is what to do if its hooks never run.
    """

    edits: tuple[Edit, ...]
    by_hand: str = ""
    when_silent: str = ""


class Proven(msgspec.Struct, frozen=True):
    """The newest version of a program that was run against a scripted model, and the day."""

    version: str
    on: str


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One agent program.

    `home` is its folder below the person's home. The environment variable `home_variable` names another folder; the
    program's own part of it is `home_below`. `unsent`: the reasons (`TurnEnded.stop_reason`, up to a colon) that end an
    answer which the program does not send to its llm again.
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
    unsent: frozenset[str] = frozenset()
    evidence: str = ""
    proven: Proven | None = None

    @property
    def variables(self) -> list[str]:
        """The environment variables that name folders of the program."""
        named = [self.home_variable, *(variable for format in self.formats for variable in format.elsewhere)]
        return [variable for variable in named if variable]


# No program writes a time after the year 9999; such a number is something else.
LATEST_MS = 253_402_300_800_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The range of a datetime, in microseconds since 1970.
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta.resolution
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta.resolution


def opaque(kind: str, record: bytes, source: str, said_at: int | None = None) -> Draft:
    """A record stored verbatim. `kind` is the runtime's name, a dot, and the program's name for such a record."""
    return Draft(body=Opaque(kind=plain_kind(kind)[:80], raw=record.decode()), source=source, said_at=said_at)


def micros(time: str | float | None) -> int | None:
    """Microseconds since 1970 from ISO 8601 text, or from a number of milliseconds; None for anything else."""
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
    # A provider's clock can be absurd; the message must be written all the same.
    at = min(max(at, _EARLIEST), _LATEST)
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def from_seconds(seconds: float | None) -> int | None:
    """Microseconds since 1970 from seconds; None for none, 0, and what no clock says."""
    return int(seconds * 1_000_000) if seconds and abs(seconds) < LATEST_MS / 1000 else None


def raw(value: Any) -> Raw:
    """A value as verbatim JSON."""
    return Raw(msgspec.json.encode(value))


def project_of(cwd: str) -> str:
    """The project of a directory: the last name in its path."""
    return PurePath(cwd.replace("\\", "/")).name or "default"


def identity_in(cwd: str, native: str, *, parent: str = "") -> Identity:
    """The identity of a session that worked in a directory, if that is known."""
    return Identity(native=native, parent=parent, folder=cwd, project=project_of(cwd) if cwd else "")
