"""Captures in the background, where nobody sees an error: their failures are kept in a file for `clew doctor`.

The file holds the last failure of each program. A capture of that program in which nothing fails removes its entry.
Paths and errors are masked before they are written.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from clew.model.errors import ClewError

# The longest text that is kept of an error.
LONGEST = 1000


class Failure(msgspec.Struct, frozen=True):
    """When the last background capture of a program (or of all) failed, its first failed file, and why."""

    runtime: str
    at: int
    path: str
    error: str
    files: int


def capture(
    call: Callable[..., Any], home: Path, runtime: str, on_reports: Callable[[list[Any]], None]
) -> list[Failure]:
    """Capture what is new of a program, or of all, and save the failures; `on_reports` gets reports as they come."""
    from clew.service.capture.changed_files import split_into_portions

    failed: dict[str, list[tuple[str, str]]] = {}
    try:
        for portion in split_into_portions(call("capture_find", runtime=runtime).changed):
            reports = call("capture", files=portion)
            for report in reports:
                if report.error:
                    failed.setdefault(report.runtime, []).append((report.path, report.error))
            on_reports(reports)
    except Exception as error:  # noqa: BLE001  # Nobody would see it; the next capture tries again.
        name = "" if isinstance(error, ClewError) else f"{type(error).__name__}: "
        failed.setdefault(runtime, []).append(("", f"{name}{error}"))
    now = time.time_ns() // 1000
    failures = [_masked(home, Failure(name, now, *files[0], len(files))) for name, files in failed.items()]
    save_failures(home, runtime, failures)
    return failures


def save_failures(home: Path, runtime: str, failures: list[Failure]) -> None:
    """Replace the saved failures of this program, or of all programs, by these."""
    before = load_failures(home)
    # A failure of all programs, such as a store out of reach, is over as soon as one program is captured.
    others = [failure for failure in before if runtime and failure.runtime not in (runtime, "")]
    if not failures and len(others) == len(before):
        return
    # `clew doctor` measures the disk itself.
    with suppress(ClewError, OSError):
        if failures or others:
            from clew.service.handover.program_files import replace

            replace(failures_path(home), msgspec.json.encode([*others, *failures]))
        else:
            failures_path(home).unlink(missing_ok=True)


def load_failures(home: Path) -> list[Failure]:
    """The last failure of each program."""
    try:
        return msgspec.json.decode(failures_path(home).read_bytes(), type=list[Failure])
    except (OSError, msgspec.DecodeError):
        return []


def describe(failure: Failure) -> str:
    """Which file failed, and why."""
    more = f" (and {failure.files - 1} more)" if failure.files > 1 else ""
    return f"{failure.path}{more}: {failure.error}" if failure.path else failure.error


def failures_path(home: Path) -> Path:
    """The file with the failures."""
    return home / "capture-failed.json"


def _masked(home: Path, failure: Failure) -> Failure:
    """The failure without secrets."""
    from clew.secrets.masking import Masker
    from clew.secrets.rules import bundled, with_own
    from clew.secrets.scanner import Scanner

    try:
        rules = with_own(home)
    except ClewError:
        rules = bundled()
    masker = Masker(Scanner(rules), b"")
    path, error = (
        masker.blanked(text.encode("utf-8", "replace")).decode("utf-8", "replace")
        for text in (failure.path, failure.error)
    )
    return msgspec.structs.replace(failure, path=path, error=error[:LONGEST])
