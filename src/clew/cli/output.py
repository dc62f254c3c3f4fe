"""Where output goes: data to stdout, messages to stderr, JSON when asked. Stored text is hostile and shown plain."""

import sys
from collections.abc import Iterable
from typing import Any

import click

from clew.cli import piped
from clew.cli.hints import hint_for
from clew.model import codec
from clew.model.errors import ClewError
from clew.model.plain import plain
from clew.service.kernel.results import flat as event_object


def one_line(text: str, width: int = 100) -> str:
    text = plain(" ".join(text.split()))
    return text if len(text) <= width else text[: width - 1] + "…"


def print_json(value: Any) -> None:
    """One JSON object per line; a list is a line for each."""
    for item in value if isinstance(value, list) else [value]:
        sys.stdout.write(codec.to_json(event_object(item)) + "\n")
    sys.stdout.flush()


def print_result(result: Any, operation: str, *, as_json: bool) -> None:
    """Print what an operation returned, as JSON or for a person."""
    if as_json:
        print_json(result)
        return
    from clew.cli.render import RENDER

    RENDER[operation](result)


def print_error(error: ClewError, *, as_json: bool) -> None:
    if as_json:
        sys.stderr.write(codec.to_json(error.to_dict()) + "\n")
        return
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(plain(str(error)), err=True)
    if hint := hint_for(error):
        click.secho("hint: ", fg="yellow", nl=False, err=True)
        click.echo(plain(hint), err=True)


NUMBERS = {
    "turns", "calls", "errors", "cost", "answers", "input", "output", "cache read", "cache write", "of budget", "read",
    "written", "by call",
}  # fmt: skip
# Columns that may be cut on a narrow terminal, and what is left of them at the least.
TEXTS = {"title", "path", "model", "project", "program", "problem", "policy", "tested with"}
LEAST = 12
GAP = 2


def table(columns: Iterable[str], rows: Iterable[Iterable[str]], *, wrapped: str = "") -> None:
    """A table that fits the terminal, a row in one line but for a column that may be wrapped; all of it when piped."""
    if not sys.stdout.isatty():
        for line in piped.lines(list(columns), [[plain(cell) for cell in row] for row in rows]):
            click.echo(line)
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from clew.cli.pager import command as pager
    from clew.cli.pager import print_paged

    console = Console(highlight=False, markup=False)
    names = list(columns)
    cells = [[Text(plain(cell)) for cell in row] for row in rows]
    widths = [max(len(name), *(row[i].cell_len for row in cells), 1) for i, name in enumerate(names)]
    widths = _fitting(names, widths, console.width - GAP * len(names))
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name, width in zip(names, widths, strict=True):
        justify: Any = "right" if name in NUMBERS else "left"
        drawn.add_column(name, overflow="ellipsis", no_wrap=name != wrapped, justify=justify, width=width)
    for row in cells:
        drawn.add_row(*row)
    with console.capture() as captured:
        console.print(drawn)
    lines = (f"{line}\n" for line in captured.get().splitlines())
    print_paged(lines, pager(), rows=console.height)


def _fitting(names: list[str], widths: list[int], room: int) -> list[int]:
    """The widths of columns in the room there is: long texts are cut before anything else is."""
    widths = list(widths)
    while sum(widths) > room:
        long = [i for i, name in enumerate(names) if name in TEXTS and widths[i] > LEAST]
        widest = max(long or range(len(widths)), key=lambda i: widths[i])
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
    return widths
