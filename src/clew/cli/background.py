"""Captures in the background, where nobody sees an error: word of what failed is left in a file for `clew doctor`.

The file holds one failure for each program, the last; a capture of that program in which nothing fails takes it out
again. What went wrong is kept with its secrets crossed out.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from clew.app import Finding
from clew.cli.times import moment
from clew.model.errors import ClewError

# The longest text that is kept of an error.
LONGEST = 1000


class Failure(msgspec.Struct, frozen=True):
    """When the last capture of a program (or of all) in the background failed, in which file first, and why."""

    runtime: str
    at: int
    path: str
    error: str
    files: int


def capture(plane: Any, runtime: str, each: Callable[[list[Any]], None]) -> list[Failure]:
    """Capture what is new of a program, or of all, and leave word of what failed; `each` gets reports as they come."""
    from clew.service.capture.capture import chunks

    failed: dict[str, list[tuple[str, str]]] = {}
    try:
        for portion in chunks(plane.call("capture_find", runtime=runtime).changed):
            reports = plane.call("capture", files=portion)
            for one in reports:
                if one.error:
                    failed.setdefault(one.runtime, []).append((one.path, one.error))
            each(reports)
    except Exception as error:  # noqa: BLE001  # Nobody would see it; the next capture tries again.
        name = "" if isinstance(error, ClewError) else f"{type(error).__name__}: "
        failed.setdefault(runtime, []).append(("", f"{name}{error}"))
    home, now = plane.settings.home, time.time_ns() // 1000
    failures = [_crossed_out(home, Failure(name, now, *files[0], len(files))) for name, files in failed.items()]
    remember(home, runtime, failures)
    return failures


def remember(home: Path, runtime: str, failures: list[Failure]) -> None:
    """Put the failures of a capture of this program, or of all, in the place of those before."""
    before = failures_of(home)
    # That all failed, as when the store is out of reach, is over as soon as one program is captured.
    others = [one for one in before if runtime and one.runtime not in (runtime, "")]
    if not failures and len(others) == len(before):
        return
    # A disk that is full has a finding of its own.
    with suppress(ClewError, OSError):
        if failures or others:
            from clew.service.handover.program_files import replace

            replace(place(home), msgspec.json.encode([*others, *failures]))
        else:
            place(home).unlink(missing_ok=True)


def failures_of(home: Path) -> list[Failure]:
    """What failed last, by program."""
    try:
        return msgspec.json.decode(place(home).read_bytes(), type=list[Failure])
    except (OSError, msgspec.DecodeError):
        return []


def findings(home: Path) -> list[Finding]:
    """What `clew doctor` says about captures in the background."""
    failures = failures_of(home)
    if not failures:
        return [Finding(what="capture", ok=True, found="nothing failed in the background")]
    return [_finding(one) for one in failures]


def told(one: Failure) -> str:
    """Which file, and what is wrong with it."""
    more = f" (and {one.files - 1} more)" if one.files > 1 else ""
    return f"{one.path}{more}: {one.error}" if one.path else one.error


def _finding(one: Failure) -> Finding:
    program = f" of {one.runtime}" if one.runtime else ""
    command = f"clew capture --runtime {one.runtime}" if one.runtime else "clew capture"
    return Finding(
        what="capture",
        ok=False,
        found=f"a capture{program} in the background failed at {moment(one.at)}: {told(one)}",
        advice=f"run `{command}`: it tries again and says what is wrong with each file",
    )


def place(home: Path) -> Path:
    return home / "capture-failed.json"


def _crossed_out(home: Path, one: Failure) -> Failure:
    from clew.secrets.masking import Masker
    from clew.secrets.rules import bundled, with_own
    from clew.secrets.scanner import Scanner

    try:
        rules = with_own(home)
    except ClewError:
        rules = bundled()
    clean = Masker(Scanner(rules), b"").blanked
    path, error = (clean(text.encode("utf-8", "replace")).decode("utf-8", "replace") for text in (one.path, one.error))
    return msgspec.structs.replace(one, path=path, error=error[:LONGEST])
