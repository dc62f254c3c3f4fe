"""Which paths a folder or a pattern names: `src/`, `src/*.py`, `src/**/test_*.py`. Reads no file system.

`*` and `?` stay within a folder, `**` as a part of its own goes through any number of folders, `[ab]` is one of these
characters. A relative pattern can begin at any folder of a path, as the end of a path does for a file; an absolute one
begins where the path begins. Case and the kind of slash do not matter. Matching takes no more steps than the parts of
the pattern times those of the path, whatever the pattern is.
"""

import re
from collections.abc import Callable
from fnmatch import translate

_WILD = re.compile(r"[*?\[]")
_LITERAL = re.compile(r"[^*?\[\]\x80-\U0010ffff]+")
_ANY_FOLDERS = "**"


def is_pattern(path: str) -> bool:
    """Whether this names several files by itself: a folder with a slash at its end, or a pattern."""
    return path.endswith(("/", "\\")) or _WILD.search(path) is not None


def path_parts(path: str) -> list[str]:
    """The parts of a path, in lower case."""
    return [part for part in path.replace("\\", "/").casefold().split("/") if part not in ("", ".", "~")]


def is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\")) or path[1:2] == ":"


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a path is one of those that a folder or a pattern names."""
    expressions = [None if part == _ANY_FOLDERS else re.compile(translate(part)) for part in path_parts(pattern)]
    if pattern.endswith(("/", "\\")):
        expressions += [re.compile(""), None]  # At least one part is in the folder.
    starts_anywhere = not is_absolute(pattern)

    def matches(path: str) -> bool:
        parts = path_parts(path)
        if not starts_anywhere and not is_absolute(path):
            return False  # Nothing says which folder a relative path begins in.
        # The numbers of parts of the path that the parts of the pattern so far can have matched.
        ends = set(range(len(parts) + 1)) if starts_anywhere else {0}
        for expression in expressions:
            if not ends:
                return False
            if expression is None:
                ends = set(range(min(ends), len(parts) + 1))
            else:
                ends = {end + 1 for end in ends if end < len(parts) and expression.match(parts[end])}
        return len(parts) in ends and bool(expressions)

    return matches


def like(pattern: str) -> str:
    """A pattern for LIKE, with `\\` as its escape, that lower-case paths match if they match the pattern itself."""
    # Databases disagree on the case of what is no ASCII.
    literals = (text for part in path_parts(pattern) for text in _LITERAL.findall(re.sub(r"\[[^\]]*\]", "*", part)))
    longest = max(literals, key=len, default="")
    return "%" + re.sub(r"([%_\\])", r"\\\1", longest) + "%"
