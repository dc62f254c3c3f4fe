"""The operation `blame`: which call of which session last wrote each line of a file."""

import os
import stat
from collections.abc import Sequence
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import InvalidInput, NotFound
from clew.model.file_tree import FILE, FOLDER, LARGE, LINK, Entry, shown
from clew.model.session import Session
from clew.model.steps import end_step
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.workspaces.causes import UNCLEAR, Cause, Causes
from clew.service.workspaces.content import IN_MEMORY_BYTES, content_of, is_binary, lines_of, read_entry
from clew.service.workspaces.file_history import FileHistory, Step, Version
from clew.service.workspaces.points import point_at
from clew.service.workspaces.ran_calls import RanCall
from clew.service.workspaces.same_lines import same_lines
from clew.store.log.rows import EVERYTHING
from clew.views.points import FolderPoint

# A file with more lines is blamed as a whole.
MOST_LINES = 50_000
# So many versions with other content are compared; a hostile history is longer.
MOST_VERSIONS = 2_000


class BlamedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that can have written the lines."""

    session: str
    seq: int
    call: str
    tool: str
    at: int


class BlamedRange(msgspec.Struct, frozen=True, kw_only=True):
    """Lines with one cause, from `first` to `last`, counted from 1.

    `why` says how the call is known: `input` (it names the file or quotes the line, and its input has it), `named` (it
    names the file), `only` (no other call ran), `several` (one of `calls`), `unclear` (`calls` ran, and their inputs
    do not have the lines), `outside` (no call ran: a person or another program), `hidden` (a session that you cannot
    see), `before` (older than the first snapshot). Without one certain call, session, call and seq are empty.
    """

    first: int
    last: int
    why: str
    session: str = ""
    seq: int = 0
    call: str = ""
    tool: str = ""
    agent: str = ""
    runtime: str = ""
    person: str = ""
    at: int = 0
    """When the call was made; otherwise when the snapshot was taken that first has the lines."""
    snapshot_session: str = ""
    """The session and the event of the snapshot that first has the lines; empty for the file as it is now."""
    snapshot_seq: int = 0
    path: str = ""
    """The path that the file had then."""
    before: str = ""
    """The digest of the file before this change, and after it; empty where there was no file."""
    after: str = ""
    commit: str = ""
    """The git commit that the folder stood at in that snapshot."""
    calls: tuple[BlamedCall, ...] = ()
    text: str = ""


class Blamed(msgspec.Struct, frozen=True, kw_only=True):
    """A file, and the cause of each of its lines. Of a binary or large file, one range stands for all of it."""

    path: str
    session: str
    seq: int
    """The snapshot that is shown; 0 for the file as it is now."""
    lines: int
    note: str
    """Why there are no lines, or why some have no cause."""
    ranges: list[BlamedRange]


@operation(right=Right.READ, route="GET /blame", filters_by_reach=True, reads_views=True)
def blame(
    context: Context,
    path: Annotated[
        str, msgspec.Meta(description="The file: of this machine, or with a session below its folder.", min_length=1)
    ],
    *,
    session: Session | None = None,
    at: Annotated[int, msgspec.Meta(ge=1, description="As the file was at this event. [default: the last snapshot]")]
    | None = None,
    with_text: Annotated[bool, msgspec.Meta(description="Also the text of the lines.")] = False,
) -> Blamed:
    """Tell which call of which session last wrote each line of a file.

    It follows the snapshots of the folder back through all sessions that worked in it, through forks, restores and
    renames. Lines that no call can have written are not blamed on an agent.
    """
    context.views.catch_up()
    history = FileHistory(context, session)
    if session is None:
        version, data, changed_at = _live(context, history, path, at)
    else:
        version, data, changed_at = _kept(context, history, session, path, at)
    causes = Causes(context, history, live_changed_at=changed_at)
    live = path if session is None else ""
    note = _why_whole(data, version.entry)
    if note:
        ranges, lines = [_whole(history, causes, version, live)], []
    else:
        lines = lines_of(data or b"")
        ranges, note = _ranges(context, history, causes, version, lines, live)
    if with_text and lines:
        ranges, hidden_text = _with_text(context, ranges, data or b"")
        note = note or hidden_text
    return Blamed(
        path=shown(version.path) if session is not None else path, session=session.id if session is not None else "",
        seq=version.point.seq, lines=len(lines), note=note, ranges=ranges,
    )  # fmt: skip


# The file -------------------------------------------------------------------------------------------------------------


def _kept(
    context: Context, history: FileHistory, session: Session, path: str, at: int | None
) -> tuple[Version, bytes | None, int]:
    """A file in a snapshot of a session, and its bytes, if they fit into memory."""
    seq = point_at(context, session, at).seq
    point = next(point for point in history.points_of(session) if point.seq == seq)
    name = history.path_of(point, _below(point, path))
    if not name:
        raise NotFound(f"{path} is not in the snapshot at event {seq} of session {session.id}", path=path)
    entry = history.entry(point, name)
    if entry is None or entry.kind == FOLDER:
        raise InvalidInput(f"{path} is a folder; name a file in it", path=path)
    data = content_of(context.store, entry) if entry.kind != LINK and entry.size <= IN_MEMORY_BYTES else None
    return Version(point, name, entry), data, 0


def _below(point: FolderPoint, path: str) -> str:
    """A path below the folder of a point; an absolute one may name it with the folder."""
    plain = os.path.normpath(path)
    below = plain.removeprefix(point.folder.rstrip("/") + "/")
    if below.startswith(("/", "..")) or below == ".":
        raise InvalidInput(f"{path!r} is not below {point.folder or 'the folder of the snapshot'}", path=path)
    return below


def _live(
    context: Context, history: FileHistory, path: str, at: int | None
) -> tuple[Version, bytes | None, int]:  # fmt: skip
    """A file of this machine as it is now."""
    if context.answers_leave_machine or at is not None:
        raise InvalidInput("name the session in whose snapshot the file is: its id is missing", path=path)
    folder, name = os.path.split(os.path.abspath(os.fsencode(os.path.expanduser(path))))
    whole = os.path.join(os.path.realpath(folder), name)
    try:
        status = os.lstat(whole)
    except OSError as error:
        raise NotFound(
            f"{path} cannot be read: {error.strerror}; name a session to see it as it was", path=path
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path} is not a file", path=path)
    now = context.store.now()
    point = FolderPoint(0, 0, EVERYTHING, now, now, context.machine, "/", "", 0, 0, "")
    below = whole.lstrip(b"/")
    if history.newest(context.machine, shown(whole)) is None:
        raise NotFound(
            f"no snapshot of a session that you may read has {path}; take one of its folder, or switch on those after "
            "each turn with the setting `workspaces`",
            path=path,
        )
    entry, data = read_entry(whole)
    return Version(point, below, entry), data, status.st_ctime_ns // 1000


def _why_whole(data: bytes | None, entry: Entry | None) -> str:
    """Why a file is not blamed line by line; empty if it is."""
    if entry is not None and entry.kind == LINK:
        return "a link has no lines"
    if data is None:
        size = entry.size if entry is not None else 0
        return f"the file has {size:,} bytes; up to {IN_MEMORY_BYTES:,} are blamed line by line"
    if is_binary(data):
        return "the file is binary"
    lines = data.count(b"\n")
    return f"the file has {lines:,} lines; up to {MOST_LINES:,} are blamed line by line" if lines > MOST_LINES else ""


# Its lines ------------------------------------------------------------------------------------------------------------


def _whole(history: FileHistory, causes: Causes, version: Version, live: str) -> BlamedRange:
    """The last change of a file."""
    step = next(history.steps(version, live))
    return _range(1, 1, step, causes.of_file(step), history)


def _ranges(
    context: Context, history: FileHistory, causes: Causes, version: Version, lines: Sequence[bytes], live: str
) -> tuple[list[BlamedRange], str]:
    """The ranges of lines with one cause each."""
    found: list[tuple[Step, Cause] | None] = [None] * len(lines)
    # Where each line of the version that is looked at is in the file that is asked about; -1 for one that is not.
    places = list(range(len(lines)))
    current, left, note = lines, len(lines), ""
    for number, step in enumerate(history.steps(version, live)):
        if not left:
            break
        if number == MOST_VERSIONS:
            note = f"only the last {MOST_VERSIONS:,} changes of the file were compared; older lines have no cause"
            for place in places:
                if place >= 0:
                    found[place] = (step, Cause(UNCLEAR))
            break
        older = _lines_of(context, step.older)
        kept = [-1] * len(older)
        begin = 0
        for old_at, new_at, size in [*same_lines(older, current), (len(older), len(current), 0)]:
            left -= _give(found, step, current, places, range(begin, new_at), causes)
            kept[old_at : old_at + size] = places[new_at : new_at + size]
            begin = new_at + size
        places, current = kept, older
        end_step()
    return _joined(found, history), note


def _lines_of(context: Context, version: Version | None) -> Sequence[bytes]:
    """The lines of a version; none of one that cannot be compared."""
    entry = version.entry if version is not None else None
    if entry is None or entry.kind not in (FILE, LARGE) or entry.size > IN_MEMORY_BYTES:
        return ()
    data = content_of(context.store, entry)
    return () if is_binary(data) or data.count(b"\n") > MOST_LINES else lines_of(data)


def _give(
    found: list[tuple[Step, Cause] | None],
    step: Step,
    current: Sequence[bytes],
    places: list[int],
    changed: range,
    causes: Causes,
) -> int:
    """Give changed lines that are one after the other their cause; returns how many of them had none before."""
    rows = [row for row in changed if places[row] >= 0]
    if rows:
        for row, cause in zip(rows, causes.of_lines(step, [current[row] for row in rows]), strict=True):
            found[places[row]] = (step, cause)
    return len(rows)


def _joined(found: list[tuple[Step, Cause] | None], history: FileHistory) -> list[BlamedRange]:
    ranges: list[BlamedRange] = []
    first = 0
    for number, held in enumerate(found):
        if held is None:
            raise AssertionError("every line has a cause")
        if number + 1 < len(found) and found[number + 1] == held:
            continue
        ranges.append(_range(first + 1, number + 1, *held, history))
        first = number + 1
    return ranges


def _range(first: int, last: int, step: Step, cause: Cause, history: FileHistory) -> BlamedRange:
    point, call = step.newer.point, cause.call
    is_kept = point.session != 0
    row = {
        "session": call.session.id, "seq": call.seq, "call": call.made.call, "tool": call.made.tool,
        "agent": call.session.agent, "runtime": call.runtime, "person": call.row.person, "at": call.began_at,
    } if call is not None else {"at": point.at}  # fmt: skip
    return BlamedRange(
        first=first, last=last, why=cause.why, path=shown(step.newer.path) if is_kept else "",
        snapshot_session=history.session_of(point).id if is_kept else "", snapshot_seq=point.seq, commit=point.commit,
        before=_digest(step.older), after=_digest(step.newer),
        calls=tuple(_blamed(other) for other in cause.others), **row,
    )  # fmt: skip


def _digest(version: Version | None) -> str:
    return version.entry.digest.hex() if version is not None and version.entry is not None else ""


def _blamed(call: RanCall) -> BlamedCall:
    return BlamedCall(session=call.session.id, seq=call.seq, call=call.made.call, tool=call.made.tool, at=call.began_at)


def _with_text(context: Context, ranges: list[BlamedRange], data: bytes) -> tuple[list[BlamedRange], str]:
    """The ranges with their text; secrets are masked in the whole file, before it is cut."""
    text = data
    if context.masks_answers:
        from clew.service.privacy.masking import masker

        text = masker(context)(data)
    lines = lines_of(text)
    if len(lines) != len(lines_of(data)):
        return ranges, "the text is left out: a secret in it goes over several lines"
    return [
        msgspec.structs.replace(part, text=b"\n".join(lines[part.first - 1 : part.last]).decode("utf-8", "replace"))
        for part in ranges
    ], ""
