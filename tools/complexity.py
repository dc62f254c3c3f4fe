"""Fails when a function of src/ has a cyclomatic complexity over 15, as radon counts it.

Adapters are exempt: what a program's records can be is a long list of cases, and reads best as one. radon counts
every decision (`and`, `or`, comprehensions and conditions in expressions), which the linter does not.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from radon.complexity import cc_visit

LIMIT = 15
FREE = Path("src/clew/runtimes/adapters")


def functions_of(path: Path) -> Iterator[tuple[str, int, int]]:
    """The name, line and complexity of every function and method of a file."""
    for block in cc_visit(path.read_text("utf-8")):
        if type(block).__name__ == "Function":
            yield block.fullname, block.lineno, block.complexity


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    over_limit = [
        f"{path.relative_to(root)}:{line}: {name} has a complexity of {complexity}, over the limit of {LIMIT}"
        for path in sorted((root / "src").rglob("*.py"))
        if not path.is_relative_to(root / FREE)
        for name, line, complexity in functions_of(path)
        if complexity > LIMIT
    ]
    print("\n".join(over_limit) or f"no function has a complexity over {LIMIT}")
    return int(bool(over_limit))


if __name__ == "__main__":
    sys.exit(main())
