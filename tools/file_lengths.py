"""Reports files that grew long: over 500 lines is a failure below src, a hint elsewhere; over 800 a failure anywhere.

A file is one concept. One that has outgrown a few screens usually holds two.
"""

import sys
from pathlib import Path

HINT = 500
LIMIT = 800
FOLDERS = ("src", "tests", "tools", "bench")
SUFFIXES = {".py", ".sql", ".sh", ".css", ".html", ".js"}


def line_count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def is_source(path: Path) -> bool:
    """Whether it is ours: what lies in a hidden folder was installed there."""
    return path.suffix in SUFFIXES and not any(part.startswith(".") for part in path.parts)


def limit_of(path: Path) -> int:
    return HINT if path.parts[0] == "src" else LIMIT


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    paths = (path.relative_to(root) for folder in FOLDERS for path in (root / folder).rglob("*"))
    lengths = {path: line_count(root / path) for path in paths if is_source(path)}
    for path, lines in sorted(lengths.items(), key=lambda item: -item[1]):
        if lines > HINT:
            limit = limit_of(path)
            print(f"{path}: {lines} lines" + (f", over the limit of {limit}: split it" if lines > limit else ""))
    return int(any(lines > limit_of(path) for path, lines in lengths.items()))


if __name__ == "__main__":
    sys.exit(main())
