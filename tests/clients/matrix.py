"""The tables of who went on with whose session, and with whose hard conversations."""

import os
from pathlib import Path
from typing import NamedTuple

from clew.runtimes import runtime
from clients.drivers import CLIENTS

BEGIN, END = "<!-- matrix: written by make test-clients -->", "<!-- end of matrix -->"
HARD_BEGIN, HARD_END = "<!-- hard: written by make test-clients HARD=all -->", "<!-- end of hard -->"
PAGE = f"""\
# Which client goes on with whose session

{BEGIN}
{END}
"""


class HardCell(NamedTuple):
    source: str
    kind: str
    target: str
    ok: bool


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
    return _table(rows)


def as_hard_table(cells: list[HardCell]) -> str:
    """A row per source, a column per kind of conversation; in each cell the targets in which it went on."""
    kinds, targets = (list(dict.fromkeys(getattr(cell, of) for cell in cells)) for of in ("kind", "target"))
    rows = [["from", *kinds]]
    for source in CLIENTS:
        rows.append([source])
        for kind in kinds:
            of = {cell.target: cell.ok for cell in cells if (cell.source, cell.kind) == (source, kind)}
            failed = [target for target in targets if of.get(target) is False]
            good = f"{sum(of.values())} of {len(of)}" if len(of) == len(targets) else ", ".join(of)
            rows[-1].append(f"FAILED in {', '.join(failed)}" if failed else f"ok, {good}" if of else "-")
    return _table(rows)


def _table(rows: list[list[str]]) -> str:
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
    _put(page, PAGE, (BEGIN, END), as_table(cells))
    return f"wrote {page.name}"


def write_hard(cells: list[HardCell], page: Path) -> str:
    """Put the whole grid of hard conversations on its page, if CLEW_WRITE_MATRIX says so; tell what was done."""
    if not os.environ.get("CLEW_WRITE_MATRIX"):
        return ""
    if len(cells) < len(CLIENTS) * 16:
        return f"{page.name} is as it was: this was not the whole grid"
    _put(page, "", (HARD_BEGIN, HARD_END), as_hard_table(cells))
    return f"wrote {page.name}"


def _put(page: Path, empty: str, marks: tuple[str, str], table: str) -> None:
    text = page.read_text(encoding="utf-8") if page.exists() else empty
    before, _, rest = text.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    versions = ", ".join(f"{runtime} {client.version}" for runtime, client in CLIENTS.items())
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{before}{marks[0]}\n\n{table}\n\nClients: {versions}.\n\n{marks[1]}{after}", encoding="utf-8")
