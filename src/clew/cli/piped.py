"""A table without a terminal. Only the standard library is imported here: a capture with nothing new loads no more."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def lines(columns: "Sequence[str]", rows: "Sequence[Sequence[str]]") -> list[str]:
    """The lines of a table; nothing is cut."""
    widths = [max(len(line[i]) for line in (columns, *rows)) for i in range(len(columns))]
    head, *drawn = (
        " " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, *rows)
    )
    return [head, " " + "─" * (sum(widths) + 3 * (len(widths) - 1)), *drawn]
