"""How a table fits a terminal: long texts are cut first, then columns are left out, and bars take what is left."""

from collections.abc import Sequence

# Columns that a narrow terminal cuts, and the width that they keep.
TEXTS = {"title", "path", "model", "project", "program", "problem", "policy", "tested with"}
LEAST = 12
# Columns that a narrow terminal leaves out, the first of them first; never the one that names the row.
SPARE = (
    "cache write", "cache read", "errors", "calls", "tested with", "by call", "program", "connected", "opaque",
    "records", "attempts", "project", "input", "output", "answers", "state", "turns", "read", "written", "grown",
    "quarantined", "per minute", "changed", "runtime", "resume in", "cost", "last",
)  # fmt: skip
GAP = 2
LEAST_BAR, MOST_BAR = 6, 20
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def kept(names: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """The columns that there is room for."""
    columns = list(range(len(names)))

    def needed() -> int:
        return sum(min(widths[i], LEAST) if names[i] in TEXTS else widths[i] for i in columns) + GAP * len(columns)

    for name in SPARE:
        if needed() <= room:
            break
        columns = [i for i in columns if names[i] != name or i == 0]
    return columns


def cut(names: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """The widths that fit into the room: columns with long texts are cut first."""
    widths = list(widths)
    room -= GAP * len(widths)
    while sum(widths) > room:
        long_columns = [i for i, name in enumerate(names) if name in TEXTS and widths[i] > LEAST]
        widest = max(long_columns or range(len(widths)), key=lambda i: widths[i])
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
    return widths


def end_of(path: str, width: int) -> str:
    """A path that fits: its end says more than its beginning."""
    from rich.cells import cell_len

    if cell_len(path) <= width:
        return path
    while path and cell_len(path) > width - 1:
        path = path[1:]
    return f"…{path}"


def bars(values: Sequence[int], width: int = MOST_BAR) -> list[str]:
    """A bar of blocks for each value, an eighth of a character fine: what it is of the largest."""
    most = max(values, default=0)
    return [_bar(value * width * 8 // most if most else 0, value) for value in values]


def _bar(eighths: int, value: int) -> str:
    whole, rest = divmod(max(eighths, 1 if value > 0 else 0), 8)
    return "█" * whole + _EIGHTHS[rest].strip()
