"""Capture: take what agent programs wrote on this machine into the log, and only what is new.

A file that did not change is told by its stamp alone. One that grew is read from where the last reading ended. One that
was rewritten is read anew: records that are in the log already are recognised, changed ones become revisions. Whatever
is wrong with one file is reported for that file, and the others are captured.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, BinaryIO

import msgspec
from blake3 import blake3

from clew.capture_cache import stamp_of
from clew.model.access import Right
from clew.model.conversation import SPOKEN
from clew.model.errors import ClewError, Conflict, TooLarge
from clew.model.events import Draft, RuntimeAttached
from clew.model.session import Session, State
from clew.runtimes.contract import Format, Identity, Reading, Record, project_of
from clew.runtimes.records import (
    UNREADABLE,
    Translated,
    line_name,
    quarantine,
    read_lines,
    read_records,
    without_halves,
)
from clew.service.access.agents import agent_for
from clew.service.capture import discovery
from clew.service.capture.archived import follow, fork_archived, latest, original_in_use, restamp
from clew.service.capture.chunked_lines import all_drafts, edges_at, read_again, read_window, reading_of, window
from clew.service.capture.client_database import reading_only, row, told_by_sqlite
from clew.service.capture.discovery import SessionFile, open_file, shown
from clew.service.capture.identity import checked, identify, plain, project_name
from clew.service.capture.reconcile import (
    Shared,
    forking,
    is_spoken,
    reconcile,
    root_of,
    shared_with,
    sources_of,
    unsaid,
    unwritten,
)
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.privacy.mask_on_write import bytes_masked_if_required, keeps_no_secrets, masked_if_required
from clew.store.access.agents import Agent, list_agents
from clew.store.log.opening import Forking, Opening
from clew.store.native_files import native_files
from clew.store.native_files.native_files import Original, Take, edges_of, place_of
from clew.store.native_files.segments import SEGMENT_BYTES

# How much goes into one commit.
BATCH_BYTES = 8 * 1024 * 1024
# Of a file that grew, all that was kept is compared if it is not more than this, else its two ends.
COMPARED_BYTES = 32 * 1024 * 1024
# A document is read as a whole; a larger one is refused.
DOCUMENT_BYTES = 256 * 1024 * 1024

TORN = "the last record is only half there yet"
RACED = "captured by another process just now"
UNPACKED = "it is there unpacked, too, and is read there"
HALF_PACKED = "the packed file is damaged: it was read as far as it can be unpacked"
WAITS = "it forks from a session that is being captured just now, and follows next time"


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
    """What lies on the machine: files that were captured as they are, and files to capture.

    `seen` is all that this depends on, the store aside.
    """

    same: list[Captured]
    changed: list[SessionFile]
    seen: discovery.Seen = {}


@operation(right=Right.SEE, hidden=True)
def capture_find(
    context: Context,
    *,
    runtime: Annotated[str, msgspec.Meta(description="Only this runtime.")] = "",
    home: Annotated[str, msgspec.Meta(description="A home directory other than yours.")] = "",
    paths: Annotated[list[str], msgspec.Meta(description="Only these files and folders.")] | None = None,
) -> Finds:
    """Find the session files of agent programs on this machine, and tell which have changed."""
    seen: discovery.Seen = {}
    if paths:
        found = discovery.at(paths, runtime_name=runtime)
    else:
        found = discovery.find(runtime_name=runtime, home=home, seen=seen)
    known = native_files.known(context.store, context.machine)
    same, changed = [], []
    for one in found:
        there = known.get(place_of(context.machine, one.runtime, one.path))
        if there is None or there.stamp != one.stamp:
            changed.append(one)
            continue
        there = latest(known, there, context.machine, one.runtime)
        report = Captured(runtime=one.runtime, path=shown(one.path), session=there.session)
        _count(report, there.told, there.opaque, there.quarantined)
        same.append(report)
    return Finds(same=same, changed=changed, seen=seen)


@operation(right=Right.APPEND)
def capture(context: Context, *, files: list[SessionFile]) -> list[Captured]:
    """Capture the new part of these files."""
    work = _Capture(context)
    for one in files:
        work.add(one)
    work.finish()
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
        # Forks of sessions that may be among the files still to come.
        self._early: list[SessionFile] = []
        self._is_last_chance = False
        self._projects: dict[str, str] = {}
        self._known_agents: list[Agent] | None = None

    def _agents(self) -> list[Agent]:
        if self._known_agents is None:
            self._known_agents = list_agents(self._store)
        return self._known_agents

    def add(self, found: SessionFile) -> None:
        """Take in one file, or every session of one database."""
        report = Captured(runtime=found.runtime, path=shown(found.path), status="failed")
        try:
            format = discovery.format_of(found)
            if format.rows is not None:
                self._database(found, format)
                return
            self.reports.append(report)
            if format.split is not None:
                self._document(found, format, report)
            elif format.packed and found.path.endswith(".zst"):
                self._packed(found, format, report)
            else:
                self._lines(found, format, report)
        except _TooEarly:
            if self._is_last_chance:
                report.status, report.note = "new", WAITS
            else:
                self.reports.remove(report)
                self._early.append(found)
        except Exception as error:  # noqa: BLE001  # Whatever is wrong with one file must not keep the others out.
            if not any(one is report for one in self.reports):
                self.reports.append(report)
            report.status, report.error = "failed", _told(error)

    def finish(self) -> None:
        """Commit what was gathered, and then take in the forks that came before what they forked from."""
        self.flush()
        self._is_last_chance = True
        for found in self._early:
            self.add(found)
        self.flush()

    def flush(self) -> None:
        """Commit what was gathered."""
        if not self._waiting:
            return
        waiting, self._waiting, self._bytes, self._names = self._waiting, [], 0, set()
        outcomes = native_files.keep(self._store, [take for _, take in waiting], actor=self._context.principal)
        for (report, take), outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, Session):
                report.session = outcome.id
                _count(report, take.told, take.opaque, take.quarantined)
            elif type(outcome) is Conflict:
                self._raced(report, take.place)
            else:
                report.status, report.error = "failed", str(outcome)

    def _raced(self, report: Captured, place: bytes) -> None:
        """Another process was quicker: report what it made of the file."""
        report.status, report.note = "same", RACED
        if there := native_files.original(self._store, place):
            _same(report, there)

    # Lines ------------------------------------------------------------------------------------------------------------

    def _lines(self, found: SessionFile, format: Format, report: Captured, opened: BinaryIO | None = None) -> None:
        place = place_of(self._context.machine, found.runtime, found.path)
        with opened or open_file(found.path) as file:
            seen = os.fstat(file.fileno())
            size = seen.st_size
            before, identity, first = native_files.original(self._store, place), None, None
            if before is None:
                first = window(file, 0, size)
                if not first[0].strip():
                    report.status = "empty"
                    return
                identity = identify(format, found, first[0])
                self._wait_for_parent(found, identity)
                before = self._moved(found, format, identity.native, lambda one: self._begins_with(file, one, size))
            before, archived = original_in_use(self._store, before) if before else (None, None)
            if before is not None and before.erased:
                report.status, report.session = "erased", before.session
                return
            generation, there = (before.generation if before else 0), frozenset[bytes]()
            kept, taken = (before.kept, before.taken) if before else (0, 0)
            # A line that was torn was counted, and is counted again as what it has become.
            counts = (before.told, before.opaque, before.quarantined - (taken < kept)) if before else (0, 0, 0)
            report.status = "grown" if before else "new"
            if before is not None and not self._begins_with(file, before, size):
                if not size:
                    report.status, report.session = "empty", before.session
                    return
                report.status, generation, kept, taken, counts = (
                    "rewritten",
                    generation + 1,
                    0,
                    0,
                    (0, 0, 0),
                )
                there = frozenset(line_name(line) for line in native_files.lines(self._store, before))
            elif before is not None and size == before.kept:
                restamp(self._store, before, stamp_of(seen), place=place)
                _same(report, before)
                return
            elif before is not None and not before.stamp and generation:
                # Reading a rewritten file was cut off: the rest of it may be there already, too.
                last_one = msgspec.structs.replace(before, generation=generation - 1, taken=sys.maxsize)
                there = frozenset(line_name(line) for line in native_files.lines(self._store, last_one))
            if before is not None:
                before = fork_archived(self._context, before, archived) if archived else before
                place = before.place
            reading = reading_of(
                found.runtime, format, before, fresh=generation != (before.generation if before else 0)
            )
            reading.native = reading.native or (identity.native if identity else "")
            into: Session | Opening | Forking
            fork: Shared | None = None
            while True:
                # What was read to see whose it is need not be read again.
                data, last = first if first and not taken else window(file, taken, size)
                if not data:
                    break
                done = read_window(format, reading, data, taken, generation, there, last)
                counts = (counts[0] + done.told, counts[1] + done.opaque, counts[2] + done.quarantined)
                report.note = TORN if last and done.torn else ""
                if before is None and not done.records:
                    _count(report, 0, 0, bool(done.torn))
                    return
                drafts, written, root = done.drafts, "", ""
                if before is not None:
                    into = native_files.session_of(self._store, before)
                    permit(self._context, Right.APPEND, into)
                    drafts = unwritten(drafts, before.written)
                    if fork is None and into.parent and not before.stamp:
                        # Capturing it for the first time was cut off: it may still repeat what it forked from.
                        fork = Shared(into.upto, sources_of(self._store.read(into, upto=into.upto)))
                    if there and last and not taken:
                        drafts = reconcile(
                            self._store, into, drafts, generation, read_again(format, before.native, data, generation)
                        )
                else:
                    identity, root = identity or identify(format, found, data), root_of(drafts)
                    ahead = None if last else lambda: all_drafts(format, reading.native, found.runtime, file, size)
                    into, written, fork = self._into(found, format, identity, root, drafts, ahead)
                    drafts = unwritten(drafts, written)
                if fork is not None:
                    drafts = [draft for draft in drafts if draft.source not in fork.sources]
                new = data[max(0, kept - taken) :]
                start, kept, taken = kept, kept + len(new), done.end
                take = self._take(
                    found, format, before, into, drafts, reading, place=place, stamp=stamp_of(seen) if last else "",
                    data=new, start=start, generation=generation, taken=taken, edges=edges_at(file, kept, data),
                    told=counts[0], opaque=counts[1], quarantined=counts[2] + bool(report.note), root=root,
                    written=written,
                )  # fmt: skip
                self._queue(report, take)
                if last:
                    break
                self.flush()
                before = native_files.original(self._store, place)
                if report.error or report.note == RACED:
                    break
                if before is None or (before.generation, before.kept, before.taken) != (
                    generation,
                    kept,
                    taken,
                ):
                    self._raced(report, place)
                    break

    def _packed(self, found: SessionFile, format: Format, report: Captured) -> None:
        """Take in a file of lines that is packed: what is in it as the file that it was, and its bytes beside that."""
        from clew.service.capture.packed_files import Holding, unpacked

        plain = msgspec.structs.replace(found, path=os.path.splitext(found.path)[0])
        if os.path.lexists(plain.path):
            report.status, report.note = "same", UNPACKED
            return
        place = place_of(self._context.machine, found.runtime, found.path)
        before = native_files.original(self._store, place)
        with open_file(found.path) as file:
            seen = os.fstat(file.fileno())
            if seen.st_size > DOCUMENT_BYTES:
                raise TooLarge(f"a packed file of {seen.st_size:,} bytes; up to {DOCUMENT_BYTES:,} are read")
            data = file.read()
        lines, whole = unpacked(data)
        size = os.fstat(lines.fileno()).st_size
        self._lines(plain, format, report, lines)
        self.flush()
        report.note = report.note if whole else HALF_PACKED
        there = native_files.original(self._store, place_of(self._context.machine, found.runtime, plain.path))
        if report.error or report.status == "erased" or there is None:
            return
        there, _ = original_in_use(self._store, there)
        into = native_files.session_of(self._store, there)
        if not self._may_keep_packed(there, into, before):
            data = b""
        take = Take(
            place=place, machine=self._context.machine, runtime=found.runtime, format=format.name,
            path=shown(found.path), native=there.native, stamp=stamp_of(seen), before=before, into=into, drafts=[],
            data=data, start=0, generation=before.generation + 1 if before else 0, taken=len(data),
            edges=edges_of(data, data), state=msgspec.json.encode(Holding(size)).decode(), told=report.events,
            opaque=report.opaque, quarantined=report.quarantined, only_latest=True,
        )  # fmt: skip
        [outcome] = native_files.keep(self._store, [take], actor=self._context.principal)
        if isinstance(outcome, ClewError) and type(outcome) is not Conflict:
            raise outcome

    def _may_keep_packed(self, there: Original, into: Session, before: Original | None) -> bool:
        """Whether the packed bytes can be kept beside the lines that they hold, and go when those go."""
        if before is not None and before.session_key != into.key:
            return False  # Their row is the archived session's.
        if sum(length for _, length, _ in native_files.digests(self._store, there)) < there.kept:
            return False  # The lines were removed by a retention policy.
        return not keeps_no_secrets(self._context, into.project)  # Secrets cannot be crossed out in packed bytes.

    def _begins_with(self, file: BinaryIO, before: Original, size: int) -> bool:
        """Whether the file still begins with what was kept of it."""
        if size < before.kept or edges_at(file, before.kept) != before.edges:
            return False
        if size > before.kept > COMPARED_BYTES:
            return True
        for start, length, digest in native_files.digests(self._store, before):
            file.seek(start)
            if not self._is_kept(before, file.read(length), digest):
                return False
        return True

    def _is_kept(self, before: Original, data: bytes, digest: bytes) -> bool:
        """Whether these bytes are what was kept of them, as they are or with their secrets crossed out."""
        if blake3(data).digest() == digest:
            return True
        masked = bytes_masked_if_required(self._context, native_files.session_of(self._store, before).project, data)
        return masked != data and blake3(masked).digest() == digest

    def _is_same(self, before: Original, data: bytes) -> bool:
        masked_if_required = native_files.digests(self._store, before)
        return bool(masked_if_required) and all(
            self._is_kept(before, data[at : at + size], digest) for at, size, digest in masked_if_required
        )

    def _moved(
        self, found: SessionFile, format: Format, native: str, is_it: Callable[[Original], bool]
    ) -> Original | None:
        """The original that this file was under another name, if that one is gone and this one goes on from it."""
        if native in self._names:
            self.flush()
        for one in native_files.claimants(self._store, found.runtime, native):
            is_ours = one.machine == self._context.machine and one.format == format.name
            # A path of odd bytes is only spelled out, and cannot be looked for.
            gone = is_ours and "\\x" not in one.path and not os.path.lexists(one.path)
            if gone and is_it(one):
                native_files.move(self._store, one, machine=one.machine, path=found.path, stamp="")
                follow(self._store, one, found.path)
                return native_files.original(self._store, place_of(one.machine, found.runtime, found.path))
        return None

    def _wait_for_parent(self, found: SessionFile, identity: Identity) -> None:
        """A fork of what was not captured yet gets another chance at the end."""
        parent = identity.fork_of
        if not parent or self._is_last_chance or parent in self._names:
            return
        if not native_files.claimants(self._store, found.runtime, parent):
            raise _TooEarly

    def _refuse_part(self, one: Original) -> None:
        """Nothing forks from a session of which only a part is there, if the rest is going to come."""
        if not one.stamp and one.machine == self._context.machine and os.path.lexists(one.path):
            raise _TooEarly

    # Documents and databases ------------------------------------------------------------------------------------------

    def _document(self, found: SessionFile, format: Format, report: Captured) -> None:
        with open_file(found.path) as file:
            seen = os.fstat(file.fileno())
            if seen.st_size > DOCUMENT_BYTES:
                raise TooLarge(f"a document of {seen.st_size:,} bytes; up to {DOCUMENT_BYTES:,} are read")
            data = file.read()
        if not data.strip():
            report.status = "empty"
            return
        if format.split is None:
            raise AssertionError("a document is split")
        try:
            records: list[Record] | None = list(format.split(data))
        except UNREADABLE:
            records = None
        if records is None and is_cut_off(data):
            # It is being written just now: what was whole before stays as it is.
            place = place_of(self._context.machine, found.runtime, found.path)
            there = native_files.original(self._store, place)
            report.session = there.session if there else ""
            report.status, report.note = "grown" if there else "new", TORN
            _count(report, 0, 0, 1)
            return
        identity = identify(format, found, data)
        self._whole(found, format, report, identity, records, data, stamp_of(seen), found.path)

    def _database(self, found: SessionFile, format: Format) -> None:
        if format.rows is None:
            raise AssertionError("a database has rows")
        with reading_only(found.path) as (connection, refuse_if_written):
            # No statement stays open while something else is done: it would hold up the program that owns this.
            for named, stamp in list(format.rows.sessions(connection)):
                identity = checked(named, found)
                path = f"{found.path}#{identity.native}"
                report = Captured(runtime=found.runtime, path=shown(path), status="failed")
                self.reports.append(report)
                try:
                    there = native_files.original(self._store, place_of(self._context.machine, found.runtime, path))
                    if there is not None and there.stamp == stamp:
                        _same(report, there)
                        continue
                    with told_by_sqlite():
                        records = list(format.rows.records(connection, named.native))
                    refuse_if_written()
                    data = b"".join(row(key, one) for key, one in records)
                    self._whole(found, format, report, identity, records, data, stamp, path)
                except (ClewError, *UNREADABLE) as error:
                    report.status, report.error = "failed", _told(error)

    def _whole(
        self, found: SessionFile, format: Format, report: Captured, identity: Identity, records: list[Record] | None,
        data: bytes, stamp: str, path: str,
    ) -> None:  # fmt: skip
        """Take in something that is read as a whole each time; the log keeps what is new in it."""
        place = place_of(self._context.machine, found.runtime, path)
        before = native_files.original(self._store, place)
        reading = Reading(found.runtime, identity.native, format.state())
        if records is None:
            done = Translated(drafts=[quarantine(data, 0, "not a document of this kind", "whole@")], quarantined=1)
        else:
            done = read_records(format, reading, records)
        root = root_of(done.drafts)
        if before is None and format.rows is None and root:
            before = self._moved(found, format, identity.native, lambda one: one.root == root)
        before, archived = original_in_use(self._store, before) if before else (None, None)
        if before is not None and before.erased:
            report.status, report.session = "erased", before.session
            return
        if before is not None and before.kept == len(data) and self._is_same(before, data):
            restamp(self._store, before, stamp, place=place)
            _same(report, before)
            return
        if before is not None and archived is not None:
            before = fork_archived(self._context, before, archived)
        report.status = "grown" if before else "new"
        generation = before.generation + 1 if before else 0
        written, drafts = "", done.drafts
        into: Session | Opening | Forking
        if before is not None:
            into = native_files.session_of(self._store, before)
            permit(self._context, Right.APPEND, into)
            now = masked_if_required(self._context, into.project, unwritten(drafts, before.written))
            # A continuation inherits what its file begins with.
            drafts = reconcile(self._store, into, now if before.place == place else unsaid(self._store, into, now),
                             generation, now)  # fmt: skip
            place = before.place
        else:
            into, written, _ = self._into(found, format, identity, root, drafts)
            drafts = unwritten(drafts, written)
        take = self._take(
            found, format, before, into, drafts, reading, place=place, path=shown(path), stamp=stamp, data=data,
            start=0, generation=generation, taken=len(data), edges=edges_of(data, data), told=done.told,
            opaque=done.opaque, quarantined=done.quarantined, root=root, written=written,
            only_latest=records is not None,
        )  # fmt: skip
        self._queue(report, take)

    # Into the log -----------------------------------------------------------------------------------------------------

    def _take(
        self, found: SessionFile, format: Format, before: Original | None, into: Session | Opening | Forking,
        drafts: list[Draft], reading: Reading[Any], *, path: str = "", **more: Any,
    ) -> Take:  # fmt: skip
        for blob in reading.blobs.values():
            self._store.save_blob(blob)
        reading.blobs.clear()
        project = into.parent.project if isinstance(into, Forking) else into.project
        if keeps_no_secrets(self._context, project):
            # By the segments that it is kept in: what is compared with the file later are those.
            parts = range(0, len(more["data"]), SEGMENT_BYTES)
            more["data"] = b"".join(
                bytes_masked_if_required(self._context, project, more["data"][at : at + SEGMENT_BYTES]) for at in parts
            )
        return Take(
            machine=self._context.machine, runtime=found.runtime, format=format.name, path=path or shown(found.path),
            native=reading.native, before=before, into=into,
            drafts=masked_if_required(self._context, project, drafts),
            state=msgspec.json.encode(reading.state).decode(), **more,
        )  # fmt: skip

    def _into(
        self, found: SessionFile, format: Format, identity: Identity, root: str, drafts: list[Draft],
        ahead: "Callable[[], Iterable[Draft]] | None" = None,
    ) -> "tuple[Session | Opening | Forking, str, Shared | None]":  # fmt: skip
        """The session of a new file, the sources of what clew wrote in it, and what it shares with its parent.

        It goes on from a session that clew wrote for this program, it forks from one whose beginning it shares or
        names, or it is a session of its own. `ahead` gives all drafts of a file that is read in several windows.
        """
        if {identity.fork_of, root, identity.native} & self._names:
            self.flush()
        self._names |= {root, identity.native} - {""}
        about = {"runtime": found.runtime, "native": identity.native, "machine": self._context.machine}
        about |= {"parent": identity.parent} if identity.parent else {}
        about |= {"call": identity.call} if identity.call else {}
        metadata = msgspec.json.encode(about).decode()
        best: tuple[Shared, Session] | None = None
        for one in native_files.relatives(self._store, found.runtime, root) if root else []:
            if one.erased:
                continue
            parent = native_files.session_of(self._store, one)
            if one.written:
                permit(self._context, Right.APPEND, parent)
                return self._continued(one, parent, metadata), one.written, None
            # Only lines have identities of their own that a program's fork repeats.
            if format.split is None and format.rows is None:
                self._refuse_part(one)
                shared = shared_with(self._store.read(parent), ahead() if ahead else drafts)
                if shared and (best is None or len(shared.sources) > len(best[0].sources)):
                    best = shared, parent
        if best is not None:
            return self._forking(best[1], best[0].at, metadata), "", best[0]
        for one in native_files.claimants(self._store, found.runtime, identity.fork_of) if identity.fork_of else []:
            self._refuse_part(one)
            if not one.erased and (at := self._read_upto(format, one, identity.fork_bytes)):
                return self._forking(native_files.session_of(self._store, one), at, metadata), "", None
        silent = not any(is_spoken(draft) for draft in drafts)
        for one in native_files.claimants(self._store, found.runtime, identity.native):
            # A program may leave a second file with nothing said in it: it belongs to the session it names.
            if not one.erased and one.machine == self._context.machine:
                twin = native_files.session_of(self._store, one)
                if silent or not self._store.read_kinds(twin, [body.kind for body in SPOKEN]):
                    permit(self._context, Right.APPEND, twin)
                    return self._open(twin, metadata), "", None
        attached = [draft.body for draft in drafts if isinstance(draft.body, RuntimeAttached)]
        cwd = next((one.cwd for one in attached if one.cwd), "")
        project = plain(self._project(identity.project) or (project_of(cwd) if cwd else ""))
        project = project or "default"
        own = agent_for(self._agents(), project=project, runtime=found.runtime, path=cwd, name=identity.agent)
        opening = Opening(project=project, agent=own or identity.agent or found.runtime, metadata=metadata)
        permit(self._context, Right.APPEND, opening.project)
        return opening, "", None

    def _project(self, folder: str) -> str:
        if folder not in self._projects:
            self._projects[folder] = project_name(folder)
        return self._projects[folder]

    def _forking(self, session: Session, at: int, metadata: str) -> Forking:
        """A fork of whichever ancestor wrote the event."""
        permit(self._context, Right.APPEND, session)
        return forking(self._store, session, at, metadata)

    def _continued(self, one: Original, child: Session, metadata: str) -> Session | Forking:
        """The fork that was opened for what clew wrote; another one if that has gone on elsewhere already."""
        others = [file for file in native_files.originals(self._store, child) if file.key != one.key]
        if not others or child.parent is None:
            return self._open(child, metadata)
        return self._forking(self._store.session(child.parent), child.upto, metadata)

    def _open(self, session: Session, metadata: str) -> Session | Forking:
        """A session that takes events; of an archived one, a fork."""
        head = self._store.head(session)
        return session if head.state != State.ARCHIVED else self._forking(session, head.head, metadata)

    def _read_upto(self, format: Format, one: Original, end: int) -> int:
        """The last event that came from the first bytes of an original."""
        reading = Reading(one.runtime, one.native, format.state())
        done = read_lines(format, reading, native_files.load(self._store, one)[:end])
        sources = {draft.source for draft in done.drafts}
        events = self._store.read(native_files.session_of(self._store, one))
        return max((event.seq for event in events if event.source in sources), default=0)

    def _queue(self, report: Captured, take: Take) -> None:
        self._waiting.append((report, take))
        self._bytes += len(take.data)
        if self._bytes >= BATCH_BYTES:
            self.flush()


class _TooEarly(Exception):
    """What a file forks from has to be captured first."""


def _same(report: Captured, there: Original) -> None:
    report.status, report.session = "same", there.session
    _count(report, there.told, there.opaque, there.quarantined)


def _told(error: Exception) -> str:
    if isinstance(error, ClewError):
        return str(error)
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"


def chunks(
    found: list[SessionFile], *, most_bytes: int = 4 * BATCH_BYTES, most: int = 200
) -> Iterator[list[SessionFile]]:
    """Files in portions that are worth a report."""
    portion: list[SessionFile] = []
    size = 0
    for one in found:
        portion.append(one)
        size += one.size
        if size >= most_bytes or len(portion) >= most:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def is_cut_off(data: bytes) -> bool:
    """Whether a JSON document ends in the middle."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(without_halves(data), type=msgspec.Raw)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except RecursionError:
        pass
    return False
