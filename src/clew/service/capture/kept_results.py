"""Whole results of calls that a program kept in files of its own: they become artifacts of the session.

A program that shortens a result in its session may keep the whole beside it, and delete both after some weeks. The file
is looked for in the session's own folder, whatever path the session names.
"""

import os
from pathlib import Path
from typing import Any

from clew.model.events import ArtifactSaved, CallReturned, Draft
from clew.runtimes.contract import Reading
from clew.service.capture.choose_session import Choice
from clew.service.capture.discovery import open_file
from clew.service.capture.prepare import project_of
from clew.service.capture.run import CaptureRun, Source
from clew.service.privacy.mask_on_write import bytes_masked_if_required

# A larger one is named with its size, and not kept.
LARGEST = 64 * 1024 * 1024


def with_kept_results(
    run: CaptureRun, source: Source, reading: Reading[Any], choice: Choice, drafts: list[Draft]
) -> list[Draft]:
    """The drafts, each result that was shortened followed by an artifact with the whole of it."""
    kept_in = source.format.kept_in
    if kept_in is None:
        return drafts
    found: list[Draft] = []
    for draft in drafts:
        found.append(draft)
        name = kept_in(draft.body) if isinstance(draft.body, CallReturned) else ""
        path = _path(source.path, name) if name else None
        if path is not None:
            body = _artifact(run, reading, choice, name, path)
            found.append(Draft(body=body, source=f"{draft.source}/kept", said_at=draft.said_at))
    return found


def _path(session_path: str, name: str) -> Path | None:
    """Where the file is: in the folder named by the session, or in that of the session that called a subagent."""
    session = Path(session_path)
    for folder in (session.with_suffix(""), session.parent.parent):
        path = folder / name
        if path.is_file() and not path.is_symlink() and not path.parent.is_symlink():
            return path
    return None


def _artifact(run: CaptureRun, reading: Reading[Any], choice: Choice, name: str, path: Path) -> ArtifactSaved:
    with open_file(str(path)) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read() if size <= LARGEST else b""
    if not data:
        return ArtifactSaved(name=name, blob="", size=size)
    blob = reading.blob(bytes_masked_if_required(run.context, project_of(choice.into), data))
    return ArtifactSaved(name=name, blob=blob, size=len(data), media_type="text/plain")
