"""Changes between two points, for people: what happened to each path, and the lines of a text that are others."""

import difflib

import msgspec

from clew.model.file_tree import FILE, FOLDER, LARGE, LINK, Entry, shown
from clew.service.workspaces.comparing import Difference
from clew.service.workspaces.who_changed import FileCause
from clew.store import Store

WORDS = {FILE: "file", LARGE: "file", LINK: "link", FOLDER: "folder"}


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A path that is another."""

    path: str
    change: str
    """added, removed, changed, mode (only its mode is another) or kind (a file became a link or a folder)."""
    kind: str
    """file, link or folder."""
    before: int | None
    """Its size before; None where there was no file."""
    after: int | None
    mode: str = ""
    """The new mode, if it is another."""
    note: str = ""
    """Why there are no lines: binary, or too large."""
    lines: str = ""
    """The difference of a text, as a unified diff."""
    before_digest: str = ""
    """The digest of the file before, and after; empty where there was no file."""
    after_digest: str = ""
    causes: tuple[FileCause, ...] | None = None
    """Which calls changed it, newest first. None when it was not looked for: in two forks, or in too many files."""


def changed(store: Store, difference: Difference, *, note: str = "", lines: str = "") -> Changed:
    """A difference as surfaces show it."""
    before, after = difference.before, difference.after
    entry = after or before
    if entry is None:
        raise AssertionError("a difference has a side")
    is_new_mode = before is not None and after is not None and before.mode != after.mode
    return Changed(
        path=shown(difference.path),
        change=_word(before, after),
        kind=WORDS[entry.kind],
        before=_size(before),
        after=_size(after),
        before_digest=_digest(before),
        after_digest=_digest(after),
        mode=f"{after.mode:o}" if is_new_mode and after is not None else "",
        note=note,
        lines=lines,
    )


def _size(entry: Entry | None) -> int | None:
    return None if entry is None or entry.kind == FOLDER else entry.size


def _digest(entry: Entry | None) -> str:
    return "" if entry is None or entry.kind == FOLDER else entry.digest.hex()


def _word(before: Entry | None, after: Entry | None) -> str:
    if before is None or after is None:
        return "added" if before is None else "removed"
    if WORDS[before.kind] != WORDS[after.kind]:
        return "kind"
    if (before.digest, before.target) == (after.digest, after.target) or before.kind == FOLDER:
        return "mode"
    return "changed"


def unified(before: str, after: str, path: str) -> str:
    """The lines that are others, as a unified diff."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
