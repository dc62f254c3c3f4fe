"""Where output goes: data to stdout, messages to stderr, JSON when asked. Stored text is hostile and shown plain."""

import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from clew.model import codec
from clew.model.errors import ClewError
from clew.model.events import Event
from clew.model.plain import plain


def one_line(text: str, width: int = 100) -> str:
    text = plain(" ".join(text.split()))
    return text if len(text) <= width else text[: width - 1] + "…"


def print_json(value: Any) -> None:
    """One JSON object per line; a list is a line for each."""
    for item in value if isinstance(value, list) else [value]:
        sys.stdout.write(codec.to_json(event_object(item)) + "\n")
    sys.stdout.flush()


def event_object(value: Any) -> Any:
    """Events flat, wherever they are; everything else as it is."""
    if isinstance(value, Event):
        return {**codec.event_fields(value), "position": value.position}
    if isinstance(value, msgspec.Struct):
        return {name: event_object(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list | tuple):
        return [event_object(item) for item in value]
    return value


def print_error(error: ClewError, *, as_json: bool) -> None:
    if as_json:
        sys.stderr.write(codec.to_json(error.to_dict()) + "\n")
        return
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(plain(str(error)), err=True)


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table that fits the terminal; whole columns when piped."""
    if not sys.stdout.isatty():
        _piped(list(columns), [[plain(cell) for cell in row] for row in rows])
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="ellipsis", no_wrap=column in ("id", "state", "last", "events"))
    for row in rows:
        drawn.add_row(*(Text(plain(cell)) for cell in row))
    console.print(drawn)


def _piped(columns: list[str], rows: list[list[str]]) -> None:
    """The same table without a terminal: nothing is cut, and nothing has to be loaded."""
    widths = [max(len(line[i]) for line in (columns, *rows)) for i in range(len(columns))]
    click.echo(" " + "   ".join(name.ljust(width) for name, width in zip(columns, widths, strict=True)).rstrip())
    click.echo(" " + "─" * (sum(widths) + 3 * (len(widths) - 1)))
    for row in rows:
        click.echo(" " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
