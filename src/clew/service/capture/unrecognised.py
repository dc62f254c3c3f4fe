"""What is reported of files that no adapter recognises, and of files of which no record is known.

Such a file is never a silent success: the report names the program if its folder does, and says what to do.
"""

import os
from pathlib import PurePath

import msgspec

from clew.runtimes import names, runtime, runtimes
from clew.runtimes.contract import Runtime
from clew.runtimes.records import without_halves
from clew.service.capture.report import UNKNOWN, Captured
from clew.store import Store

# A larger document is not parsed only to tell whether it is damaged.
LARGEST_PARSED_BYTES = 64 * 1024 * 1024
# How many events of a session are looked at, and how many members of a document are named.
LOOKED_AT = 500
NAMED = 6
# Hidden folders that belong to the system, not to a program.
_SHARED = {".config", ".local", ".cache", ".git", ".var", ".tmp", ".venv"}


def why_unrecognised(path: str, printable: str) -> str:
    """Why a file that a person named cannot be captured, and what to do."""
    if damage := damage_of(path):
        return f"{printable} is damaged: {damage}; export or copy it again"
    program = program_of(path)
    of = f"; its folder is that of {program}, of which clew reads other files" if program else ""
    members = _members(path)
    shape = f" JSON with {', '.join(members)}, but" if members else ""
    return (
        f"{printable} is{shape} not a session file of any program that clew reads{of}; name the program that wrote it, "
        "if it is one of them"
    )


def damage_of(path: str) -> str:
    """What is wrong with a file that should be one JSON document; empty if nothing is, or if it is something else."""
    if not path.endswith(".json"):
        return ""
    try:
        if os.path.getsize(path) > LARGEST_PARSED_BYTES:
            return ""
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return ""
    if not data.strip():
        return "it is empty"
    if data.lstrip()[:1] not in (b"{", b"["):
        return "it does not begin as JSON does"
    try:
        msgspec.json.decode(without_halves(data), type=msgspec.Raw)
    except msgspec.DecodeError as error:
        return "it ends in the middle" if "truncated" in str(error) else f"it is not JSON ({error})"
    except RecursionError:
        return "it nests too deeply"
    return ""


def program_of(path: str) -> str:
    """The title of the program whose folder a file is in, or the name of another program's hidden folder."""
    folders = PurePath(path).parts[:-1]
    for program in runtimes():
        if any(_has(folders, PurePath(folder).parts) for folder in _own_folders(program)):
            return program.title
    hidden = [folder for folder in folders if folder.startswith(".") and len(folder) > 2 and folder not in _SHARED]
    return hidden[0].removeprefix(".") if hidden else ""


def note_unknown(store: Store, reports: list[Captured]) -> None:
    """Note in the reports of files that were read, now or before, when their reader knows none of their records."""
    for report in reports:
        read = report.status in ("new", "grown", "rewritten", "same") and not report.note and report.session
        if read and report.opaque and not report.events and not _is_bookkeeping(store, report):
            report.note = f"{UNKNOWN}{_note(report)}"


def _note(report: Captured) -> str:
    records = "its only record" if report.opaque == 1 else f"any of its {report.opaque:,} records"
    kept = "it is kept as it is"
    if report.runtime == "unknown":
        program = program_of(report.path)
        of = f"; its folder is that of {program}, of which clew reads other files" if program else ""
        return f"no reader knows {records}{of}; {kept}; name the program that wrote it, if clew reads that"
    known = runtime(report.runtime)
    tested = f" (known from {known.evidence})" if known.evidence else ""
    if known.proven:
        tested = f" (proven with {known.proven.version})"
    return (
        f"the reader of {known.title}{tested} does not know {records}; {kept}; the program may be newer than "
        "clew: update clew, then import the file again"
    )


def _is_bookkeeping(store: Store, report: Captured) -> bool:
    """Whether a session has nothing but records of which its program's reader knows that they say nothing."""
    if report.runtime not in names():
        return False
    known = {f"{report.runtime}.{kind}" for format in runtime(report.runtime).formats for kind in format.bookkeeping}
    if not known:
        return False
    kinds = {event.body.kind for event in store.read(store.session(report.session), limit=LOOKED_AT)}
    return all(kind in known for kind in kinds if "." in kind)


def _own_folders(program: Runtime) -> list[str]:
    """The folders that are a program's own: its home, or those that its patterns begin with."""
    if program.home:
        return [program.home]
    beginnings = (
        pattern.partition("*")[0].rpartition("/")[0] for format in program.formats for pattern in format.patterns
    )
    return [folder for folder in beginnings if "/" in folder and folder not in (".config", "Library")]


def _has(folders: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Whether these folders follow each other in a path."""
    size = len(wanted)
    return any(folders[at : at + size] == wanted for at in range(len(folders) - size + 1)) if wanted else False


def _members(path: str) -> list[str]:
    """The first members of a JSON document."""
    try:
        with open(path, "rb") as file:
            value = msgspec.json.decode(without_halves(file.read(LARGEST_PARSED_BYTES)))
    except (OSError, ValueError, RecursionError):
        return []
    first = value[0] if isinstance(value, list) and value else value
    shown = [f"`{name[:40]}`" for name in first if name.isprintable()] if isinstance(first, dict) else []
    return [*shown[:NAMED], *(["more"] if len(shown) > NAMED else [])]
