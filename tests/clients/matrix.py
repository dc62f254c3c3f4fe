"""The table of who went on with whose session."""

import os
from pathlib import Path
from typing import NamedTuple

from clew.runtimes import runtime
from clients.drivers import CLIENTS

BEGIN, END = "<!-- matrix: written by make test-clients -->", "<!-- end of matrix -->"
PAGE = f"""\
# Which client goes on with whose session

{BEGIN}
{END}
"""


class Cell(NamedTuple):
    source: str
    target: str
    ok: bool
    seconds: float


def versions() -> list[str]:
    """The installed version of each client, and the pinned one if it is another."""
    lines = []
    for name, client in CLIENTS.items():
        proven = runtime(name).proven
        pinned = proven.version if proven else "none"
        lines.append(f"{name} {client.version}" + (f" (pinned: {pinned})" if client.version != pinned else ""))
    return lines


def as_table(cells: list[Cell]) -> str:
    """A table in Markdown: a row per source, a column per target."""
    by_pair = {(cell.source, cell.target): cell for cell in cells}
    rows = [["from \\ to", *CLIENTS]]
    for source in CLIENTS:
        row = [by_pair.get((source, target)) for target in CLIENTS]
        rows.append([source, *("-" if cell is None else _said(cell) for cell in row)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _said(cell: Cell) -> str:
    return f"ok {cell.seconds:.1f}" if cell.ok else "FAILED"


def write(cells: list[Cell], page: Path) -> str:
    """Put a whole matrix on its page, if CLEW_WRITE_MATRIX says so; tell what was done."""
    if not os.environ.get("CLEW_WRITE_MATRIX"):
        return ""
    if len({(cell.source, cell.target) for cell in cells}) < len(CLIENTS) ** 2:
        return f"{page.name} is as it was: this was not the whole matrix"
    text = page.read_text(encoding="utf-8") if page.exists() else PAGE
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    versions = ", ".join(f"{runtime} {client.version}" for runtime, client in CLIENTS.items())
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{before}{BEGIN}\n\n{as_table(cells)}\n\nClients: {versions}.\n\n{END}{after}", encoding="utf-8")
    return f"wrote {page.name}"
