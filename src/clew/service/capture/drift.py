"""What programs write that no reader knows yet: counted while a session is captured, shown by `clew runtimes --drift`.

The counts are in a file in clew's home, because they are about the programs on this machine. A kind is counted for
every record that is stored verbatim. Fields are looked at in the first and the last records of what is captured at a
time: a new field is in most records of a kind.
"""

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from clew.model.access import Right
from clew.model.events import Draft, Opaque, RuntimeAttached
from clew.model.plain import plain
from clew.runtimes import names, runtime
from clew.runtimes.shapes import known_shapes, new_in, redacted, shape_of
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation

NAME = "drift.json"
MOST = 500
# How many records at each end are looked at for fields, and how long such a record may be.
SAMPLED = 5
LONGEST = 256 * 1024


class Drift(msgspec.Struct, kw_only=True):
    """Something new in a program's sessions: a kind of records, a field, or a version of the program.

    With `what` "more" it stands for everything new of the program that came after the limit (`MOST`) was reached.
    `since` is the time of the first such record, or else when it was first seen, in microseconds; `example` is one
    record without anything that a person, a tool or an llm wrote.
    """

    runtime: str
    what: str
    name: str
    count: int
    since: int
    example: str = ""


class DriftCounts:
    """What is new in the records of one capture."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], Drift] = {}

    def count(self, runtime_name: str, drafts: Iterable[Draft], data: bytes) -> None:
        """Count what is new in drafts, and in the first and last lines of the data that they come from."""
        known = known_shapes().get(runtime_name)
        if known is None:
            return
        for draft in drafts:
            body = draft.body
            if type(body) is Opaque:
                self._count_kind(runtime_name, body.raw)
            elif type(body) is RuntimeAttached and body.runtime == runtime_name:
                self._count_version(runtime_name, body.runtime_version, draft.said_at)
        for line in _sampled(data):
            shape = shape_of(line)
            for what, name in new_in(shape, known) if shape else ():
                if what == "field" and shape:
                    self._add(runtime_name, what, name, shape.at, line)

    def _count_kind(self, runtime_name: str, record: str) -> None:
        shape = shape_of(record)
        if shape is not None and shape.kind not in known_shapes()[runtime_name].kinds:
            self._add(runtime_name, "kind", shape.kind, shape.at, record)

    def _count_version(self, runtime_name: str, version: str, at: int | None) -> None:
        proven = runtime(runtime_name).proven
        if proven is not None and version != proven.version and _is_newer(version, proven.version):
            self._add(runtime_name, "version", plain(version)[:40], at, b"")

    def _add(self, runtime_name: str, what: str, name: str, at: int | None, record: bytes | str) -> None:
        key = (runtime_name, what, name)
        known = self.found.get(key)
        if known is None:
            since = at or time.time_ns() // 1000
            self.found[key] = Drift(
                runtime=runtime_name, what=what, name=name, count=1, since=since, example=redacted(record)
            )
        else:
            known.count += 1
            known.since = min(known.since, at or known.since)

    def save(self, home: str) -> None:
        """Add the counts to those in the home."""
        if not self.found or not home or not Path(home).is_dir():
            return
        from clew.service.handover import program_files  # Few captures find anything new.

        saved = {(one.runtime, one.what, one.name): one for one in load(Path(home))}
        if len(saved) + len(self.found) > MOST:
            saved = {key: one for key, one in saved.items() if _is_new(one)}
        room = MOST - sum(what != "more" for _, what, _ in saved)
        for key, new in self.found.items():
            room -= key not in saved
            if key not in saved and room < 0:
                key = (new.runtime, "more", "")
                new = msgspec.structs.replace(new, what="more", name="", example="")
            if key in saved:
                new = msgspec.structs.replace(
                    saved[key], count=saved[key].count + new.count, since=min(saved[key].since, new.since)
                )
            saved[key] = new
        program_files.replace(Path(home) / NAME, msgspec.json.encode(list(saved.values())))
        self.found = {}


def _sampled(data: bytes) -> list[bytes]:
    """The first and the last lines of data."""
    first = data[:LONGEST].split(b"\n")
    # The first piece of the end is the rest of a line, or a line that is looked at already.
    last = data[-LONGEST:].split(b"\n")[1:] if len(data) > LONGEST else first[SAMPLED:]
    return [line for line in (*first[:SAMPLED], *last[-SAMPLED:]) if line]


def load(home: Path) -> list[Drift]:
    """What was counted so far."""
    try:
        return msgspec.json.decode((home / NAME).read_bytes(), type=list[Drift])
    except (OSError, msgspec.DecodeError):
        return []


@operation(right=Right.SEE, hidden=True)
def drift(context: Context) -> list[Drift]:
    """Show what agent programs on this machine write that no reader of clew knows yet, the newest first."""
    found = [one for one in load(Path(context.home)) if context.home and one.runtime in names() and _is_new(one)]
    return sorted(found, key=lambda one: (-one.since, one.runtime, one.what, one.name))


def _is_newer(version: str, than: str) -> bool:
    from clew.service.capture.installed import is_newer  # It looks for programs, which takes much to import.

    return is_newer(version, than)


def _is_new(one: Drift) -> bool:
    """Whether the reader did not learn it since."""
    known = known_shapes().get(one.runtime)
    if one.what == "more":
        return one.runtime in names()
    if one.what == "version":
        proven = runtime(one.runtime).proven
        return proven is None or _is_newer(one.name, proven.version)
    return known is not None and one.name not in (known.kinds if one.what == "kind" else known.fields)
