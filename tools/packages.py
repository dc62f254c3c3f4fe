"""Prints the packages of src/clew as a Markdown table: files, the median and the largest number of lines.

docs/architecture.md shows the table; make it again when rooms change.
"""

import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "src" / "clew"
# Rooms below these are packages of their own.
HOUSES = ("server", "service", "store")
SUFFIXES = {".py", ".sql"}


def package_of(path: Path) -> str:
    folders = path.relative_to(ROOT).parts[:-1]
    if not folders:
        return "clew"
    return ".".join(folders[:2] if folders[0] in HOUSES else folders[:1])


def lengths_by_package() -> dict[str, dict[Path, int]]:
    packages: dict[str, dict[Path, int]] = {}
    for path in sorted(ROOT.rglob("*")):
        if path.suffix in SUFFIXES and path.name != "__init__.py":
            packages.setdefault(package_of(path), {})[path] = len(path.read_bytes().splitlines())
    return packages


def main() -> None:
    print("| package | files | median lines | largest |\n| --- | --- | --- | --- |")
    for package, lengths in sorted(lengths_by_package().items()):
        largest = max(lengths, key=lambda path: lengths[path])
        median = round(statistics.median(lengths.values()))
        print(f"| `{package}` | {len(lengths)} | {median} | {lengths[largest]} (`{largest.name}`) |")


if __name__ == "__main__":
    main()
