"""Capture: take what agent programs wrote on this machine into the log, and only what is new.

A file that did not change is told by its stamp alone. One that grew is read from where the last reading ended. One that
was rewritten is read anew: records that are in the log already are recognised, changed ones become revisions. Whatever
is wrong with one file is reported for that file, and the others are captured.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import PurePath
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote

import msgspec

from clew.model.access import Right
from clew.model.conversation import SPOKEN
from clew.model.conversation import identity as identity_of
from clew.model.errors import ClewError, Conflict
from clew.model.events import Draft, RuntimeAttached
from clew.model.session import Session
from clew.runtimes.contract import Format, Identity, Reading, Record, project_of
from clew.runtimes.records import SHAPE_ERRORS, Translated, quarantine, read_lines, read_records
from clew.service import finding
from clew.service.finding import Found
from clew.service.registry import Context, operation, permit
from clew.store import originals
from clew.store.originals import EDGE_BYTES, Opening, Original, Take, edges_of, place_of
from clew.store.prepare import LARGEST_BYTES

# How much of a file is read at a time, and how much goes into one commit.
WINDOW_BYTES = 8 * 1024 * 1024
BATCH_BYTES = 8 * 1024 * 1024


class Captured(msgspec.Struct, kw_only=True):
    """What became of one file. Of its records, `events` gave events, the rest are kept as opaque or quarantined."""

    runtime: str
    path: str
    session: str = ""
    records: int = 0
    events: int = 0
    opaque: int = 0
    quarantined: int = 0
    error: str | None = None
    status: str = "same"
    note: str = ""


class Finds(msgspec.Struct, frozen=True, kw_only=True):
    """What lies on the machine: files that were captured as they are, and files to capture."""

    same: list[Captured]
    changed: list[Found]


@operation(right=Right.SEE)
def capture_find(
    context: Context,
    *,
    runtime: Annotated[str, msgspec.Meta(description="Only this runtime.")] = "",
    home: Annotated[str, msgspec.Meta(description="A home directory other than yours.")] = "",
    paths: Annotated[list[str], msgspec.Meta(description="Only these files and folders.")] | None = None,
) -> Finds:
    """Find the session files of agent programs on this machine, and tell which have changed."""
    found = finding.at(paths, runtime_name=runtime) if paths else finding.find(runtime_name=runtime, home=home)
    known = originals.known(context.store, context.machine)
    same, changed = [], []
    for one in found:
        there = known.get(place_of(context.machine, one.runtime, one.path))
        if there is None or there.stamp != one.stamp:
            changed.append(one)
            continue
        report = Captured(runtime=one.runtime, path=one.path, session=there.session)
        _count(report, there.told, there.opaque, there.quarantined)
        same.append(report)
    return Finds(same=same, changed=changed)


@operation(right=Right.APPEND)
def capture(context: Context, *, files: list[Found]) -> list[Captured]:
    """Capture the new part of these files."""
    work = _Capture(context)
    for one in files:
        work.add(one)
    work.flush()
    return work.reports


def _count(report: Captured, told: int, opaque: int, quarantined: int) -> None:
    report.records = told + opaque + quarantined
    report.events, report.opaque, report.quarantined = told, opaque, quarantined


class _Capture:
    """One run over some files: takes are gathered until a commit is worth it."""

    def __init__(self, context: Context) -> None:
        self.reports: list[Captured] = []
        self._context = context
        self._store = context.store
        self._waiting: list[tuple[Captured, Take]] = []
        self._bytes = 0
        # Sessions that are on their way into the log and cannot be looked up there yet.
        self._names: set[str] = set()

    def add(self, found: Found) -> None:
        """Take in one file, or every session of one database."""
        report = Captured(runtime=found.runtime, path=found.path, status="failed")
        try:
            format = finding.format_of(found)
            if format.rows is not None:
                self._database(found, format)
                return
            self.reports.append(report)
            if format.split is not None:
                self._document(found, format, report)
            else:
                self._lines(found, format, report)
        except (OSError, ClewError, sqlite3.Error, MemoryError) as error:
            if not self.reports or self.reports[-1] is not report:
                self.reports.append(report)
            report.error = f"{getattr(error, 'strerror', None) or error}"

    def flush(self) -> None:
        """Commit what was gathered."""
        if not self._waiting:
            return
        waiting, self._waiting, self._bytes, self._names = self._waiting, [], 0, set()
        outcomes = originals.keep(self._store, [take for _, take in waiting], actor=self._context.principal)
        for (report, take), outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, Conflict):
                report.status, report.note = "same", str(outcome)
            elif isinstance(outcome, ClewError):
                report.status, report.error = "failed", str(outcome)
            else:
                report.session = outcome.id
                _count(report, take.told, take.opaque, take.quarantined + bool(report.note == TORN))

    # Lines ------------------------------------------------------------------------------------------------------------

    def _lines(self, found: Found, format: Format, report: Captured) -> None:
        place = place_of(self._context.machine, found.runtime, found.path)
        with open(found.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            before = originals.original(self._store, place)
            if before is None and (moved := self._moved(file, found, format, size)):
                before = moved
            if before is not None and before.erased:
                report.status, report.session = "erased", before.session
                return
            generation, there = (before.generation if before else 0), frozenset[bytes]()
            kept, taken = (before.kept, before.taken) if before else (0, 0)
            report.status = "grown" if before else "new"
            if before is not None and not _has_grown(file, before, size):
                whole = originals.load(self._store, before)
                if size == before.kept and file.seek(0) == 0 and file.read(size) == whole:
                    originals.restamp(self._store, before, found.stamp)
                    report.status, report.session = "same", before.session
                    _count(report, before.told, before.opaque, before.quarantined)
                    return
                report.status, generation, there = "rewritten", generation + 1, frozenset(whole.split(b"\n"))
                kept = taken = 0
            fresh = generation != (before.generation if before else 0)
            reading = _reading(found.runtime, format, before, fresh=fresh)
            counts = (0, 0, 0) if before is None or fresh else (before.told, before.opaque, before.quarantined)
            while True:
                data, last = _window(file, taken, size)
                if not data:
                    break
                done = self._read(format, reading, data, taken, found, generation, there, last)
                counts = (counts[0] + done.told, counts[1] + done.opaque, counts[2] + done.quarantined)
                report.note = TORN if last and done.torn else ""
                new = data[max(0, kept - taken) :]
                if before is None and not done.records:
                    _count(report, 0, 0, bool(done.torn))
                    break
                start, kept, taken = kept, kept + len(new), done.end
                take = self._take(found, format, before, done, reading, data)
                take = msgspec.structs.replace(
                    take, place=place, data=new, start=start, generation=generation, taken=taken,
                    edges=_edges(file, kept), told=counts[0], opaque=counts[1], quarantined=counts[2],
                )  # fmt: skip
                self._queue(report, take)
                if last:
                    break
                self.flush()
                if report.error:
                    break
                before = originals.original(self._store, place)
            if size == 0:
                report.status = "empty"

    def _read(
        self, format: Format, reading: Reading[Any], data: bytes, at: int, found: Found, generation: int,
        there: frozenset[bytes], last: bool,
    ) -> Translated:  # fmt: skip
        if not reading.native:
            reading.native = _identity(format, found, data).native
        done = read_lines(format, reading, data, at, generation=generation, there=there)
        if not last and done.end == at:
            # One line longer than anything the log takes: it is in the original, and an event says where.
            done.drafts.append(quarantine(data, at, f"a line of more than {LARGEST_BYTES:,} bytes"))
            done.quarantined, done.end = done.quarantined + 1, at + len(data)
        return done

    def _moved(self, file: BinaryIO, found: Found, format: Format, size: int) -> Original | None:
        """The original that this file was under another name, if that one is gone and this one begins like it."""
        first, _ = _window(file, 0, size)
        native = _identity(format, found, first).native
        if native in self._names:
            self.flush()
        for one in originals.claimants(self._store, found.runtime, native):
            if one.machine == self._context.machine and not os.path.exists(one.path) and _has_grown(file, one, size):
                originals.move(self._store, one, machine=one.machine, path=found.path, stamp="")
                return originals.original(self._store, place_of(one.machine, found.runtime, found.path))
        return None

    # Documents and databases ------------------------------------------------------------------------------------------

    def _document(self, found: Found, format: Format, report: Captured) -> None:
        with open(found.path, "rb") as file:
            data = file.read()
        if format.split is None:
            raise AssertionError("a document is split")
        try:
            records: list[Record] | None = list(format.split(data))
        except (*SHAPE_ERRORS, msgspec.DecodeError, RecursionError):
            records = None
        self._whole(found, format, report, _identity(format, found, data), records, data, found.stamp, found.path)

    def _database(self, found: Found, format: Format) -> None:
        if format.rows is None:
            raise AssertionError("a database has rows")
        with _read_only(found.path) as connection:
            for identity, stamp in format.rows.sessions(connection):
                report = Captured(runtime=found.runtime, path=f"{found.path}#{identity.native}", status="failed")
                self.reports.append(report)
                try:
                    there = originals.original(self._store, place_of(self._context.machine, found.runtime, report.path))
                    if there is not None and there.stamp == stamp:
                        report.status, report.session = "same", there.session
                        _count(report, there.told, there.opaque, there.quarantined)
                        continue
                    records = list(format.rows.records(connection, identity.native))
                    data = b"".join(msgspec.json.encode([key, msgspec.Raw(one)]) + b"\n" for key, one in records)
                    self._whole(found, format, report, identity, records, data, stamp, report.path)
                except (ClewError, *SHAPE_ERRORS) as error:
                    report.error = str(error)

    def _whole(
        self, found: Found, format: Format, report: Captured, identity: Identity, records: list[Record] | None,
        data: bytes, stamp: str, path: str,
    ) -> None:  # fmt: skip
        """Take in something that is read as a whole each time; the log keeps what is new in it."""
        place = place_of(self._context.machine, found.runtime, path)
        before = originals.original(self._store, place)
        if before is not None and before.erased:
            report.status, report.session = "erased", before.session
            return
        report.status = "grown" if before else "new"
        reading = _reading(found.runtime, format, None, fresh=True)
        reading.native = identity.native
        if records is None:
            done = Translated(drafts=[quarantine(data, 0, "not a document of this kind", "whole@")], quarantined=1)
        else:
            done = read_records(format, reading, records)
        take = self._take(found, format, before, done, reading, data, identity)
        generation = before.generation + 1 if before else 0
        take = msgspec.structs.replace(
            take, place=place, path=path, stamp=stamp, data=data, start=0, generation=generation, taken=len(data),
            edges=edges_of(data, data), told=done.told, opaque=done.opaque, quarantined=done.quarantined,
            only_latest=True,
        )  # fmt: skip
        self._queue(report, take)

    # Into the log -----------------------------------------------------------------------------------------------------

    def _take(
        self, found: Found, format: Format, before: Original | None, done: Translated, reading: Reading[Any],
        data: bytes, identity: Identity | None = None,
    ) -> Take:  # fmt: skip
        for blob in reading.blobs.values():
            self._store.save_blob(blob)
        reading.blobs.clear()
        root, written, drafts = "", "", done.drafts
        into: Session | Opening
        if before is not None:
            into = originals.session_of(self._store, before)
            drafts = _unwritten(drafts, before.written)
        else:
            identity = identity or _identity(format, found, data)
            root = next((identity_of(one.source) for one in drafts if one.source and "@" not in one.source), "")
            if identity.fork_of in self._names:
                self.flush()
            if root in self._names or identity.native in self._names:
                self.flush()
            self._names |= {root, identity.native} - {""}
            into, drafts, written = self._into(found, format, identity, root, drafts)
        return Take(
            place=b"", machine=self._context.machine, runtime=found.runtime, format=format.name, path=found.path,
            native=reading.native, stamp=found.stamp, before=before, into=into, drafts=drafts, data=b"", start=0,
            generation=0, taken=0, edges=b"", state=msgspec.json.encode(reading.state).decode(), told=0, opaque=0,
            quarantined=0, root=root, written=written,
        )  # fmt: skip

    def _into(
        self, found: Found, format: Format, identity: Identity, root: str, drafts: list[Draft]
    ) -> tuple[Session | Opening, list[Draft], str]:
        """The session of a new file, the drafts that are its own, and the sources of those that clew wrote.

        It goes on from a session that clew wrote for this program, it forks from one whose beginning it shares or
        names, or it is a session of its own.
        """
        for one in originals.relatives(self._store, found.runtime, root) if root else []:
            if one.erased or (one.native == identity.native and not one.written):
                continue
            parent = originals.session_of(self._store, one)
            permit(self._context, Right.APPEND, parent)
            if one.written:
                return self._continued(one, parent), _unwritten(drafts, one.written), one.written
            if shared := _shared(self._context, parent, drafts):
                return self._store.fork(parent, actor=self._context.principal, at=shared[0]), shared[1], ""
        for one in originals.claimants(self._store, found.runtime, identity.fork_of) if identity.fork_of else []:
            if not one.erased and (at := self._read_upto(format, one, identity.fork_bytes)):
                parent = originals.session_of(self._store, one)
                permit(self._context, Right.APPEND, parent)
                return self._store.fork(parent, actor=self._context.principal, at=at), drafts, ""
        silent = not any(isinstance(draft.body, SPOKEN) for draft in drafts)
        for one in originals.claimants(self._store, found.runtime, identity.native):
            # A program may leave a second file with nothing said in it: it belongs to the session it names.
            if not one.erased and one.machine == self._context.machine:
                twin = originals.session_of(self._store, one)
                if silent or not self._store.read_kinds(twin, [body.kind for body in SPOKEN]):
                    return twin, drafts, ""
        attached = [draft.body for draft in drafts if isinstance(draft.body, RuntimeAttached)]
        cwd = next((one.cwd for one in attached if one.cwd), "")
        about = {"runtime": found.runtime, "native": identity.native, "machine": self._context.machine}
        about |= {"parent": identity.parent} if identity.parent else {}
        about |= {"call": identity.call} if identity.call else {}
        opening = Opening(
            project=project_name(identity.project) or project_of(cwd) if identity.project or cwd else "default",
            agent=identity.agent or found.runtime,
            metadata=msgspec.json.encode(about).decode(),
        )
        permit(self._context, Right.APPEND, opening.project)
        return opening, drafts, ""

    def _continued(self, one: Original, child: Session) -> Session:
        """The fork that was opened for what clew wrote; another one if that has gone on elsewhere already."""
        others = [file for file in originals.originals(self._store, child) if file.key != one.key]
        if not others or child.parent is None:
            return child
        parent = self._store.session(child.parent)
        return self._store.fork(parent, actor=self._context.principal, at=child.upto)

    def _read_upto(self, format: Format, one: Original, end: int) -> int:
        """The last event that came from the first bytes of an original."""
        reading = _reading(one.runtime, format, None, fresh=True)
        reading.native = one.native
        done = read_lines(format, reading, originals.load(self._store, one)[:end])
        sources = {draft.source for draft in done.drafts}
        events = self._store.read(originals.session_of(self._store, one))
        return max((event.seq for event in events if event.source in sources), default=0)

    def _queue(self, report: Captured, take: Take) -> None:
        self._waiting.append((report, take))
        self._bytes += len(take.data)
        if self._bytes >= BATCH_BYTES:
            self.flush()


TORN = "the last record is only half there yet"


def _reading(runtime: str, format: Format, before: Original | None, *, fresh: bool) -> Reading[Any]:
    if before is None or fresh:
        return Reading(runtime, before.native if before else "", format.state())
    return Reading(runtime, before.native, msgspec.json.decode(before.state, type=format.state))


def _identity(format: Format, found: Found, data: bytes) -> Identity:
    first = next((line for line in data.split(b"\n", 64) if line.strip()), b"") if format.split is None else data
    try:
        identity = format.identify(PurePath(found.path), first)
    except SHAPE_ERRORS:
        identity = Identity(native="")
    # A hostile id must not become a path or a page of text.
    native = re.sub(r"[^\w.:#@+-]", "_", identity.native)[:200] or PurePath(found.path).stem[:200] or "session"
    return msgspec.structs.replace(identity, native=native, project=identity.project[:200])


def _window(file: BinaryIO, at: int, size: int) -> tuple[bytes, bool]:
    """The next bytes up to a line's end, and whether they are the last; longer only when one line is."""
    wanted = WINDOW_BYTES
    while True:
        file.seek(at)
        data = file.read(min(wanted, size - at))
        if at + len(data) >= size or len(data) < min(wanted, size - at):
            return data, True
        if (end := data.rfind(b"\n")) >= 0:
            return data[: end + 1], False
        if wanted > LARGEST_BYTES:
            return data, False
        wanted *= 2


def _has_grown(file: BinaryIO, before: Original, size: int) -> bool:
    """Whether the file still begins with what was kept, by its two ends, and is longer."""
    return size > before.kept and _edges(file, before.kept) == before.edges


def _edges(file: BinaryIO, kept: int) -> bytes:
    file.seek(0)
    first = file.read(min(EDGE_BYTES, kept))
    file.seek(max(0, kept - EDGE_BYTES))
    return edges_of(first, file.read(min(EDGE_BYTES, kept)))


def _unwritten(drafts: list[Draft], written: str) -> list[Draft]:
    """The drafts that did not come from what clew itself wrote into the file."""
    if not written:
        return drafts
    ours = set(msgspec.json.decode(written, type=list[str]))
    return [draft for draft in drafts if identity_of(draft.source) not in ours]


def _shared(context: Context, parent: Session, drafts: list[Draft]) -> tuple[int, list[Draft]] | None:
    """Up to which event of a parent the drafts only repeat it, and the drafts that are new."""
    seqs = {event.source: event.seq for event in context.store.read(parent) if event.source}
    last = 0
    for i, draft in enumerate(drafts):
        if draft.source not in seqs and draft.source and "@" not in draft.source:
            return (last, [one for one in drafts[i:] if one.source not in seqs]) if last else None
        last = max(last, seqs.get(draft.source or "", 0))
    return (last, []) if last else None


def project_name(folder: str) -> str:
    """The project behind a folder name such as `-home-me-my-app`: the directory's own name if it is still there."""
    if not re.fullmatch(r"-[A-Za-z0-9-]+", folder):
        return folder
    return _walk("/", folder[1:]) or folder.strip("-")


def _walk(root: str, rest: str) -> str:
    """Follow a path whose separators and odd characters were all written as `-`."""
    try:
        names = os.listdir(root)
    except OSError:
        return ""
    for name in sorted(names, key=len, reverse=True):
        written = re.sub("[^a-zA-Z0-9]", "-", name)
        if rest == written:
            return name
        if rest.startswith(written + "-") and os.path.isdir(deeper := os.path.join(root, name)):
            found = _walk(deeper, rest[len(written) + 1 :])
            if found:
                return found
    return ""


class _read_only:  # reads like the function it is
    """A client's database, read without a trace: no lock that could disturb it, no file beside it."""

    def __init__(self, path: str) -> None:
        wal = f"{path}-wal"
        still = not os.path.exists(wal) or os.path.getsize(wal) == 0
        options = "mode=ro&immutable=1" if still else "mode=ro"
        self._connection = sqlite3.connect(f"file:{quote(path)}?{options}", uri=True, timeout=5)

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def chunks(found: list[Found], *, most_bytes: int = 4 * BATCH_BYTES, most: int = 200) -> Iterator[list[Found]]:
    """Files in portions that are worth a report."""
    portion: list[Found] = []
    size = 0
    for one in found:
        portion.append(one)
        size += one.size
        if size >= most_bytes or len(portion) >= most:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
