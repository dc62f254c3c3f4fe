"""The text of a file as a page shows it: a part that a browser lays out at once, line by line, with its colours."""

from typing import NamedTuple

from markupsafe import Markup

from clew.server.web.text.code import coloured_lines

# Characters and lines of one part.
PART, LINES = 200_000, 2_000
LANGUAGES = {
    "bash": "bash", "c": "c", "cc": "cpp", "cfg": "ini", "cpp": "cpp", "css": "css", "diff": "diff",
    "dockerfile": "dockerfile", "go": "go", "h": "c", "hpp": "cpp", "htm": "html", "html": "html", "ini": "ini",
    "java": "java", "js": "javascript", "json": "json", "jsx": "jsx", "kt": "kotlin", "lua": "lua",
    "makefile": "makefile", "mjs": "javascript", "nix": "nix", "patch": "diff", "php": "php", "ps1": "powershell",
    "py": "python", "pyi": "python", "rb": "ruby", "rs": "rust", "scala": "scala", "sh": "bash", "sql": "sql",
    "svg": "xml", "swift": "swift", "tf": "terraform", "toml": "toml", "ts": "typescript", "tsx": "tsx", "vue": "vue",
    "xml": "xml", "yaml": "yaml", "yml": "yaml", "zig": "zig",
}  # fmt: skip


class Shown(NamedTuple):
    """A part of a text: its lines, where it begins and ends, and the parts before and after it."""

    lines: list[Markup]
    first: int
    """The number of its first line; 0 within a line that is longer than a part."""
    begin: int
    end: int
    size: int
    earlier: int | None
    later: int | None


def shown_text(text: str, path: str, begin: int) -> Shown:
    """The part of a text that begins at a character."""
    begin = min(begin, max(0, len(text) - 1))
    end = _end(text, begin)
    is_within = begin > 0 and text[begin - 1] != "\n"
    name = path.rpartition("/")[2].lower()
    return Shown(
        coloured_lines(text[begin:end].removesuffix("\n").split("\n"), LANGUAGES.get(name.rpartition(".")[2], "")),
        0 if is_within else text.count("\n", 0, begin) + 1, begin, end, len(text),
        _before(text, begin) if begin else None, end if end < len(text) else None,
    )  # fmt: skip


def _end(text: str, begin: int) -> int:
    """Where a part ends: after a line, unless a single one is longer than a part."""
    limit = min(len(text), begin + PART)
    end = begin
    for _ in range(LINES):
        after = text.find("\n", end, limit) + 1
        if not after:
            return limit if limit == len(text) or end == begin else end
        end = after
    return end


def _before(text: str, begin: int) -> int:
    """Where the part before this one begins."""
    first = begin
    for _ in range(LINES):
        start = text.rfind("\n", 0, max(0, first - 1)) + 1
        if begin - start > PART or first == 0:
            break
        first = start
    return first if first < begin else max(0, begin - PART)
