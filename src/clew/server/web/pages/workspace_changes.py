"""What differs between the files of two points, with the lines of as many files as a page can show."""

from typing import Any, NamedTuple

from clew.model.errors import TooLarge
from clew.runtimes.changes import Line
from clew.server.web.page_request import PageRequest
from clew.service.workspaces.changes import Changed
from clew.service.workspaces.looking import FileDifference

# So many names are listed, so many files have their lines, and so many lines has each; one alone has more of them.
NAMES, FILES, LINES, LINES_ALONE, LONGEST_LINE = 2_000, 20, 200, 2_000, 1_000
STYLES = {"+": "added", "-": "removed", "@": "dim", "\\": "dim"}
SIGNS = {"added": "+", "removed": "-", "changed": "~", "mode": "m", "kind": "!"}


class FileChange(NamedTuple):
    """A file that differs, with its lines."""

    change: Changed
    lines: list[Line]
    rest: str


class Changes(NamedTuple):
    left_seq: int
    right_seq: int
    names: list[Changed]
    files: list[FileChange]
    refusal: str = ""
    """Why the names are not all."""


def changes_between(
    request: PageRequest, *, left: str, right: str, base: int, at: int, path: str, is_other: bool
) -> Changes:
    asked = {"left": left, "right": right if is_other or base else None, "at": base or None, "upto": at or None}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    try:
        flat: FileDifference = request.call("workspace_diff", **given, flat=True, limit=NAMES)
    except TooLarge as error:
        if not path:
            return Changes(base, at, [], [], request.told(error))
        flat = request.call("workspace_diff", **given, path=path, flat=True, limit=NAMES)
    names = [change for change in flat.changes if change.kind != "folder"] or flat.changes
    return Changes(flat.left_seq, flat.right_seq, names, _with_lines(request, names, given, path))


def _with_lines(request: PageRequest, names: list[Changed], given: dict[str, Any], path: str) -> list[FileChange]:
    """The first files, or those below a path, with their lines."""
    chosen = [change.path for change in names if not path or _is_below(change.path, path)][:FILES]
    most = LINES_ALONE if len(chosen) == 1 else LINES
    files = []
    for one in chosen:
        # A file that became a folder differs below its path, too.
        found: FileDifference = request.call("workspace_diff", **given, path=one, limit=NAMES)
        files += [_cut(change, most) for change in found.changes if change.path == one]
    return files


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _cut(change: Changed, most: int) -> FileChange:
    # The first two lines name the file, which its heading does.
    lines = change.lines.split("\n")[2:-1]
    shown = [
        Line(line[:LONGEST_LINE] + ("…" if len(line) > LONGEST_LINE else ""), STYLES.get(line[:1], ""))
        for line in lines[:most]
    ]
    return FileChange(change, shown, f"{len(lines) - most:,} more lines" if len(lines) > most else "")
