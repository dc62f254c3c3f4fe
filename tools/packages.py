"""The packages of src/clew as a Markdown table: files, the median and the largest number of lines.

    python tools/packages.py            print the table
    python tools/packages.py --write    write it into docs/architecture.md

A test compares the page with the tree: the same packages, and about the same numbers.
"""

import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "clew"
PAGE = ROOT / "docs" / "architecture.md"
TITLE = "| package | files | median lines | largest |"
# Rooms below these are packages of their own.
HOUSES = ("server", "service", "store")
SUFFIXES = {".py", ".sql"}


def package_of(path: Path) -> str:
    folders = path.relative_to(SOURCE).parts[:-1]
    if not folders:
        return "clew"
    return ".".join(folders[:2] if folders[0] in HOUSES else folders[:1])


def lengths_by_package() -> dict[str, dict[Path, int]]:
    packages: dict[str, dict[Path, int]] = {}
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in SUFFIXES and path.name != "__init__.py":
            packages.setdefault(package_of(path), {})[path] = len(path.read_bytes().splitlines())
    return packages


def table() -> str:
    lines = [TITLE, "| --- | --- | --- | --- |"]
    for package, lengths in sorted(lengths_by_package().items()):
        largest = max(lengths, key=lambda path: lengths[path])
        median = round(statistics.median(lengths.values()))
        lines.append(f"| `{package}` | {len(lengths)} | {median} | {lengths[largest]} (`{largest.name}`) |")
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:] != ["--write"]:
        print(table())
        return
    page = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(rf"{re.escape(TITLE)}\n(?:\|.*\n?)*", f"{table()}\n", page), "utf-8")


if __name__ == "__main__":
    main()
