"""A table as comma-separated values."""

import csv
import sys
from typing import Any

from clew.model.plain import plain


def print_csv(rows: list[list[Any]]) -> None:
    """Print the rows, the names of the columns first."""
    output = csv.writer(sys.stdout, lineterminator="\n")
    for row in rows:
        output.writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in row])


def _harmless(text: str) -> str:
    """The text of a cell, changed so that no spreadsheet takes it for a formula."""
    text = plain(text)
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text
