"""Looks for secrets in files that are known to hold few or none, to judge the alarms by eye.

    .venv/bin/python tools/false_alarms.py ~/.claude/projects [--home ~/.clew] [--each 5]

Prints, by rule, how many findings there are and some of them, masked, then findings per MB. With --home, the rules of
that home (secrets.toml) count too. Nothing is changed, and no secret is printed.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from clew.model.plain import plain
from clew.secrets.escapes import unescaped
from clew.secrets.masking import Masker
from clew.secrets.rules import with_own
from clew.secrets.scanner import Scanner

AROUND = 50


def files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


def context(masker: Masker, data: bytes, start: int, end: int) -> str:
    """What stands around a finding: everything else that may be a secret in it masked, too."""
    before, behind = data[max(0, start - 4 * AROUND) : start], data[end : end + 4 * AROUND]
    seen = [
        masker.mask(unescaped(text).decode(errors="replace"))[0].replace("\n", " ") for text in (before, behind)
    ]  # fmt: skip
    return f"{seen[0][-AROUND:]} <{end - start} characters> {seen[1][:AROUND]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--home", default="", help="rules of this home count, too")
    parser.add_argument("--each", type=int, default=5, help="how many findings of a rule to show")
    given = parser.parse_args()
    scanner = Scanner(with_own(given.home))
    masker = Masker(scanner, b"")
    size, found, shown = 0, Counter[str](), Counter[str]()
    for path in files(given.paths):
        data = path.read_bytes()
        size += len(data)
        for one in scanner.find(data):
            found[one.rule] += 1
            if shown[one.rule] < given.each:
                shown[one.rule] += 1
                print(f"{one.rule}: {path.name}: {plain(context(masker, data, one.start, one.end))}")
    for rule, times in found.most_common():
        print(f"{rule:30} {times:6,}")
    print(f"{found.total():,} findings in {size / 1e6:,.1f} MB: {found.total() / max(size / 1e6, 1e-6):.2f} per MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
