"""A table as plain text. Imports nothing but the standard library, because a capture with nothing new must be fast."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def lines(columns: "Sequence[str]", rows: "Sequence[Sequence[str]]") -> list[str]:
    """The lines of a table; no cell is cut."""
    widths = [max(len(line[i]) for line in (columns, *rows)) for i in range(len(columns))]
    head, *drawn = (
        " " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, *rows)
    )
    return [head, " " + "─" * (sum(widths) + 3 * (len(widths) - 1)), *drawn]
