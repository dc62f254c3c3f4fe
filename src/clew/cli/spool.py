"""What hooks have reported (clew/hook.py), captured in the background: one process at a time, until nothing is left."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from clew.cli import background
from clew.hook import brief_name
from clew.model.errors import ClewError
from clew.service.handover.program_files import replace


class Note(msgspec.Struct):
    runtime: str
    transcript_path: str = ""


def drain(plane: Any) -> None:
    """Capture the sessions that notes in the spool name. Returns at once if another process does so already."""
    folder = plane.settings.home / "spool"
    lock = _lock(folder)
    while lock is not None:
        while notes := sorted(folder.glob("*.json")):
            _capture(plane, notes)
        fcntl.flock(lock, fcntl.LOCK_UN)
        # A note that came just before the lock was given up started nobody.
        if not any(folder.glob("*.json")) or not _take(lock):
            return


def _lock(folder: Path) -> int | None:
    inherited = os.environ.get("CLEW_SPOOL_LOCK", "")
    if inherited.isdecimal():
        return int(inherited)
    if not folder.is_dir():
        return None
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    return lock if _take(lock) else None


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _brief(plane: Any, reports: list[Any]) -> None:
    """Leave the brief of each session for the next one in its directory; the forwarder hands it out."""
    for session in {report.session for report in reports if report.session and report.status in ("new", "grown")}:
        brief = plane.call("brief", session=session)
        if brief.cwd:
            replace(plane.settings.home / "briefs" / brief_name(brief.cwd), brief.text.encode())


def _capture(plane: Any, notes: list[Path]) -> None:
    """Capture all that the programs of these notes have; the notes go first, so that a later one counts again."""
    told = []
    for path in notes:
        # Somebody else may have taken it, or written something else: there is nothing to learn from it then.
        with suppress(OSError, msgspec.DecodeError):
            told.append(msgspec.json.decode(path.read_bytes(), type=Note))
        path.unlink(missing_ok=True)
    for runtime in sorted({note.runtime for note in told}):
        background.capture(plane, runtime, lambda reports: _brief(plane, reports))
    # Whoever reads the views next would take in what is left.
    with suppress(ClewError):
        plane.call("views_step", limit=100_000)
