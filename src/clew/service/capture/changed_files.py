"""Which session files of this machine have changed since they were captured.

A capture that finds nothing new needs no more than this: what captures a file is not imported here.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.runtimes import resolve
from clew.service.capture import discovery
from clew.service.capture.discovery import Discovery, SessionFile, printable_path
from clew.service.capture.report import Captured, report_unchanged
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.native_files.lookup import known_files
from clew.store.native_files.native_file import file_id_of, last_known_copy

# A portion of this many bytes is captured by one call.
PORTION_BYTES = 32 * 1024 * 1024


class FoundFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The session files of this machine: reports of the unchanged ones, and the files to capture.

    `fingerprints` are of everything on disk that this depends on, the store excepted. Of the other files below folders
    that a person named, `damaged` has reports of JSON that is not whole, and `foreign_json` counts JSON of no program.
    """

    unchanged: list[Captured]
    changed: list[SessionFile]
    fingerprints: discovery.Fingerprints = {}
    damaged: list[Captured] = []
    foreign_json: int = 0


@operation(right=Right.SEE, hidden=True)
def capture_find(
    context: Context,
    *,
    runtime: Annotated[str, msgspec.Meta(description="Only this runtime.")] = "",
    home: Annotated[str, msgspec.Meta(description="A home directory other than yours.")] = "",
    paths: Annotated[list[str], msgspec.Meta(description="Only these files and folders.")] | None = None,
) -> FoundFiles:
    """Find the session files of agent programs on this machine, and tell which have changed."""
    runtime = resolve(runtime) if runtime else ""
    discovered = (
        discovery.recognise_files(paths, runtime) if paths else discovery.discover(runtime_name=runtime, home=home)
    )
    unchanged, changed = _compare_fingerprints(context, discovered)
    if paths:
        from clew.service.capture.unrecognised import note_unknown  # As below.

        note_unknown(context.store, unchanged)
    documents = [path for path in discovered.unrecognised if path.endswith(".json")]
    damaged = _damaged(documents)
    return FoundFiles(
        unchanged=unchanged,
        changed=changed,
        fingerprints=discovered.fingerprints,
        damaged=damaged,
        foreign_json=len(documents) - len(damaged),
    )


def _damaged(paths: list[str]) -> list[Captured]:
    """The reports of documents that are not whole."""
    if not paths:
        return []
    from clew.service.capture.unrecognised import damage_of  # Only for folders that a person named.

    return [
        Captured(runtime="unknown", path=printable_path(path), status="failed", error=f"damaged: {damage}")
        for path in paths
        if (damage := damage_of(path))
    ]


def split_into_portions(
    files: Iterable[SessionFile], *, most_bytes: int = PORTION_BYTES, most_files: int = 200
) -> Iterator[list[SessionFile]]:
    """Split the files into portions, each small enough for one call of `capture`, which reports when it ends."""
    portion: list[SessionFile] = []
    size = 0
    for session_file in files:
        portion.append(session_file)
        size += session_file.size
        if size >= most_bytes or len(portion) >= most_files:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _compare_fingerprints(context: Context, discovered: Discovery) -> tuple[list[Captured], list[SessionFile]]:
    """Separate the files that look as they did when they were captured from those that do not."""
    known = known_files(context.store, context.machine)
    unchanged, changed = [], []
    for session_file in discovered.session_files:
        runtime, path = session_file.runtime, session_file.path
        stored = known.get(file_id_of(context.machine, runtime, path))
        if stored is None or stored.fingerprint != session_file.fingerprint:
            changed.append(session_file)
            continue
        report = Captured(runtime=runtime, path=printable_path(path))
        report_unchanged(report, last_known_copy(known, stored, context.machine, runtime))
        unchanged.append(report)
    return unchanged, changed
