"""The report about one file: what became of it, and how many of its records became events."""

from typing import Protocol

import msgspec

from clew.model.errors import ClewError
from clew.store.native_files.native_file import KnownFile, NativeFile

TORN = "the last record is only half written yet"
RACED = "another process captured it just now"
IS_UNPACKED_TOO = "the unpacked file is there as well, and is captured instead"
PARTLY_UNPACKED = "the packed file is damaged: only its undamaged beginning was captured"
COPY_OF = "a copy of "
UNKNOWN = "nothing in it is understood: "
WAITS_FOR_PARENT = "it forks from a session that is being captured just now; the next capture includes it"

NOTHING_SAID = "nothing was said in it yet, and it does not say where its program works; a later capture includes it"


class Captured(msgspec.Struct, kw_only=True):
    """The report about one file. `events` of its records gave events; the others are opaque or quarantined."""

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


class Counts(msgspec.Struct, frozen=True):
    """How many records of a file gave events, were kept as opaque, and were quarantined."""

    translated: int = 0
    opaque: int = 0
    quarantined: int = 0


class _Counted(Protocol):
    """Anything that has the three counts of a file."""

    @property
    def translated(self) -> int: ...
    @property
    def opaque(self) -> int: ...
    @property
    def quarantined(self) -> int: ...


def add_counts(left: _Counted, right: _Counted) -> Counts:
    return Counts(left.translated + right.translated, left.opaque + right.opaque, left.quarantined + right.quarantined)


def report_counts(report: Captured, counts: _Counted) -> None:
    """Write the counts of a file into its report."""
    report.events, report.opaque, report.quarantined = counts.translated, counts.opaque, counts.quarantined
    report.records = report.events + report.opaque + report.quarantined


def report_unchanged(report: Captured, stored: KnownFile | NativeFile) -> None:
    """Report a file whose content is already stored."""
    report.status, report.session = "same", stored.session
    report_counts(report, stored)


def report_copy(report: Captured, original: NativeFile) -> None:
    """Report a file that says nothing which was not captured from another one."""
    report.status, report.session = "same", original.session
    report.note = f"{COPY_OF}{original.path}"


def report_error(report: Captured, error: Exception) -> None:
    """Report that a file failed, and why."""
    report.status, report.error = "failed", _error_text(error)


def _error_text(error: Exception) -> str:
    if isinstance(error, ClewError):
        return str(error)
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
