"""What hooks have reported (clew/hook.py), captured in the background: one process at a time, until nothing is left."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from clew.hook import brief_name
from clew.model.errors import ClewError
from clew.service.capture import in_background
from clew.service.handover.program_files import replace


class Note(msgspec.Struct):
    runtime: str
    transcript_path: str = ""


def drain(plane: Any) -> None:
    """Capture the sessions that notes in the spool name. Returns at once if another process is doing it."""
    folder = plane.settings.home / "spool"
    lock = _lock(folder)
    while lock is not None:
        sessions: set[str] = set()
        while notes := sorted(folder.glob("*.json")):
            sessions |= _capture(plane, notes)
        # Only once the burst is over: a snapshot for each call would be one too many.
        _keep_workspaces(plane, sessions)
        fcntl.flock(lock, fcntl.LOCK_UN)
        # A note that came just before the unlock started no process.
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
    """Save the brief of each session for the next session in its directory; clew/hook.py prints it."""
    for session in {report.session for report in reports if report.session and report.status in ("new", "grown")}:
        brief = plane.call("brief", session=session)
        if brief.cwd:
            replace(plane.settings.home / "briefs" / brief_name(brief.cwd), brief.text.encode())


def _keep_workspaces(plane: Any, sessions: set[str]) -> None:
    """Keep the files of these sessions, where their project wants that. If this fails, the next turn tries again."""
    if sessions:
        with suppress(ClewError):
            plane.call("workspace_keep", sessions=sorted(sessions))


def _capture(plane: Any, notes: list[Path]) -> set[str]:
    """Capture every program that a note names; returns the sessions in which something is new.

    Notes are removed first, so a later note starts a new capture.
    """
    captured: set[str] = set()

    def take(reports: list[Any]) -> None:
        captured.update(report.session for report in reports if report.session and report.status in ("new", "grown"))
        _brief(plane, reports)

    notes_read = []
    for path in notes:
        # Another process may have removed the note, or it may not be a note; then it is ignored.
        with suppress(OSError, msgspec.DecodeError):
            notes_read.append(msgspec.json.decode(path.read_bytes(), type=Note))
        path.unlink(missing_ok=True)
    for runtime in sorted({note.runtime for note in notes_read}):
        in_background.capture(plane.call, plane.settings.home, runtime, take)
    # If this fails, the next reader of a view updates it.
    with suppress(ClewError):
        plane.call("views_step", limit=100_000)
    return captured
