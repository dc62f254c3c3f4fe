"""The changes that a call made to a file, as the lines of a diff, from the inputs that programs commonly write."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

# A diff takes time in proportion to the product of both lengths; longer texts are shown as removed and added.
MOST_COMPARED_LINES = 1_000
PATHS = (
    "file_path", "path", "filePath", "absolute_path", "notebook_path", "target_file", "filename", "file", "dir_path",
    "directory_path",
)  # fmt: skip
_OLD_NEW = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("oldString", "newString"), ("oldText", "newText"),
    ("old", "new"),
)  # fmt: skip
_CONTENTS = ("content", "contents", "file_text", "code_edit", "new_source")
_PATCHES = ("patch", "patchText", "diff", "input", "command", "cmd")
_PATCH = re.compile(r"^(\*\*\* Begin Patch|--- .*\n\+\+\+ |<<<<<<< SEARCH|-{7} SEARCH)", re.MULTILINE)


class Line(msgspec.Struct, frozen=True):
    """One line; its block says whether it is cut or wrapped."""

    text: str
    style: str = ""


_ELSEWHERE = Line("⋯", "dim")


def changes_of(values: dict[str, Any]) -> list[Line]:
    """The changes that a call made to a file, as the lines of a diff; empty if there are none."""
    pairs = [pair for edit in _edits(values) if (pair := _old_new(edit))]
    if pairs:
        hunks = [_compared(old, new) for old, new in pairs]
        return [line for i, hunk in enumerate(hunks) for line in ([_ELSEWHERE] if i else []) + hunk]
    if patch := patch_of(values):
        names = ("--- ", "+++ ")
        return [Line(line, "dim") if line.startswith(names) else _changed(line) for line in lines_of(patch)]
    content = values.get(named(values, _CONTENTS))
    if not named(values, PATHS) or not isinstance(content, str):
        return []
    return [Line(f"+{line}", "added") for line in lines_of(content)]


def _edits(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The edits of a call: those in a list, the one in a field of its own, or the call itself."""
    edits = next((values[name] for name in ("edits", "changes", "edit") if values.get(name)), None)
    if isinstance(edits, list):
        return [edit for edit in edits if isinstance(edit, dict)]
    return [edits if isinstance(edits, dict) else values]


def patch_of(values: dict[str, Any]) -> str:
    """The text of a patch, without a shell command before it."""
    given = (values[name] for name in _PATCHES if values.get(name))
    texts = ("\n".join(map(str, value)) if isinstance(value, list) else str(value) for value in given)
    return next((text[match.start() :] for text in texts if (match := _PATCH.search(text))), "")


def _old_new(values: dict[str, Any]) -> tuple[str, str] | None:
    for old, new in _OLD_NEW:
        before, after = values.get(old), values.get(new, "")
        if isinstance(before, str) and isinstance(after, str):
            return before, after
    inserted = values.get("insert_text", values.get("new_str")) if values.get("command") == "insert" else None
    return ("", inserted) if isinstance(inserted, str) else None


def _compared(old: str, new: str) -> list[Line]:
    before, after = (text.replace("\r\n", "\n").split("\n") if text else [] for text in (old, new))
    if max(len(before), len(after)) > MOST_COMPARED_LINES:
        differences = [f"-{line}" for line in before] + [f"+{line}" for line in after]
    else:
        # Without the names and the first line numbers, which are those of a piece and not of the file.
        differences = list(difflib.unified_diff(before, after, lineterm=""))[3:]
    lines = [_ELSEWHERE if line.startswith("@@") else _changed(line) for line in differences]
    return lines or [Line("no line is another", "dim")]


def _changed(line: str) -> Line:
    styles = {"+": "added", "-": "removed", "@": "dim", "*": "dim"}
    return Line(line, styles.get(line[:1], "output"))


def count_of(changes: list[Line]) -> str:
    styles = Counter(line.style for line in changes)
    counts = (f"{sign}{styles[style]:,}" for sign, style in (("+", "added"), ("-", "removed")) if styles[style])
    return " ".join(counts)


def named(values: dict[str, Any], names: Iterable[str]) -> str:
    """The first of these names that has a text, or a list of words; none is the empty name."""
    return next((name for name in names if isinstance(value := values.get(name), str | list) and value), "")


def lines_of(text: str) -> list[str]:
    text = text.replace("\r\n", "\n").rstrip("\n")
    return text.split("\n") if text.strip() else []
