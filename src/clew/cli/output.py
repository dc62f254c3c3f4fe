"""Output: data goes to stdout, messages to stderr. Stored text is hostile, so it is printed without control codes."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from clew.model import codec
from clew.model.errors import ClewError
from clew.model.plain import plain
from clew.service.kernel.results import flat as event_object


def one_line(text: str, width: int = 100) -> str:
    """The text in one line without control codes, cut to the width."""
    text = plain(" ".join(text.split()))
    return text if len(text) <= width else text[: width - 1] + "…"


def print_json(value: Any) -> None:
    """Print one JSON object per line; a list has one line per item."""
    for item in value if isinstance(value, list) else [value]:
        sys.stdout.write(codec.to_json(event_object(item)) + "\n")
    sys.stdout.flush()


def print_result(result: Any, operation: str, *, as_json: bool) -> None:
    """Print the result of an operation, as JSON or for a person."""
    if as_json:
        print_json(result)
        return
    from clew.cli.results import printer

    printer(operation)(without_controls(result))


def without_controls(value: Any) -> Any:
    """The value with control characters written out in every text of it, so that no printer can forget one."""
    if type(value) is str:
        return plain(value)
    if isinstance(value, msgspec.Struct):
        fields = {name: without_controls(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        return {key: without_controls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_controls(item) for item in value]
    if isinstance(value, tuple):
        made = map(without_controls, value)
        return value._make(made) if hasattr(value, "_make") else tuple(made)
    return value


def print_error(error: ClewError, *, as_json: bool) -> None:
    if as_json:
        sys.stderr.write(codec.to_json(error.to_dict()) + "\n")
        return
    from clew.cli.hints import hint_for

    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(plain(in_options(error)), err=True)
    if hint := hint_for(error):
        click.secho("hint: ", fg="yellow", nl=False, err=True)
        click.echo(plain(hint), err=True)


def in_options(error: ClewError) -> str:
    """The message of an error; an operation's argument has the name of the command's option."""
    argument = error.details.get("argument")
    operation, _, words = str(error).partition(": ")
    if argument is None or not words.startswith(f"{argument} "):
        return str(error)
    from clew.cli.options import flag_of
    from clew.service.kernel.registry import find

    declared = find(operation)
    parameter = next((known for known in declared.parameters if known.name == argument), None) if declared else None
    if parameter is None:
        return str(error)
    option = parameter.name.upper() if parameter.required and not parameter.is_session else flag_of(parameter)
    return option + words.removeprefix(argument)


NUMBERS = {
    "turns", "calls", "errors", "cost", "answers", "input", "output", "cache read", "cache write", "of budget", "read",
    "written", "by call", "tokens", "per minute", "sessions",
}  # fmt: skip


def table(
    columns: Iterable[str], rows: Iterable[Iterable[str]], *, wrapped: str = "", measured: Sequence[int] = ()
) -> None:
    """Print a table. On a terminal it fits the width, and only the `wrapped` column takes several lines.

    `measured` has a number for each of the first rows, which is drawn as a bar at the end of its row.
    """
    names = list(columns)
    texts = [[plain(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        from clew.cli import fitting
        from clew.cli.plain_table import lines as plain_lines

        for line in plain_lines(*_with_bars(names, texts, fitting.bars(measured))):
            click.echo(line)
        return
    _table_on_terminal(names, texts, wrapped, measured)


def _table_on_terminal(names: list[str], texts: list[list[str]], wrapped: str, measured: Sequence[int]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from clew.cli.pager import command as pager
    from clew.cli.pager import print_paged

    console = Console(highlight=False, markup=False)
    names, texts, widths = _fitted(names, texts, measured, room=console.width)
    rich_table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name, width in zip(names, widths, strict=True):
        justify: Any = "right" if name in NUMBERS else "left"
        rich_table.add_column(name, overflow="ellipsis", no_wrap=name != wrapped, justify=justify, width=width)
    for row in texts:
        rich_table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(rich_table)
    lines = (f"{line}\n" for line in captured.get().splitlines())
    print_paged(lines, pager(), rows=console.height)


def _fitted(
    names: list[str], texts: list[list[str]], measured: Sequence[int], *, room: int
) -> tuple[list[str], list[list[str]], list[int]]:
    """The columns that fit, their cells, and their widths."""
    from rich.cells import cell_len

    from clew.cli import fitting

    widths = [max(len(name), *(cell_len(row[i]) for row in texts), 1) for i, name in enumerate(names)]
    kept = fitting.kept(names, widths, room - (fitting.LEAST_BAR + fitting.GAP if measured else 0))
    names, widths = [names[i] for i in kept], [widths[i] for i in kept]
    texts = [[row[i] for i in kept] for row in texts]
    widths = fitting.cut(names, widths, room)
    if "path" in names:
        at = names.index("path")
        texts = [[*row[:at], fitting.end_of(row[at], widths[at]), *row[at + 1 :]] for row in texts]
    left = min(fitting.MOST_BAR, room - sum(widths) - fitting.GAP * (len(widths) + 1))
    if measured and left >= fitting.LEAST_BAR:
        names, texts = _with_bars(names, texts, fitting.bars(measured, left))
        widths.append(left)
    return names, texts, widths


def _with_bars(names: list[str], rows: list[list[str]], bars: list[str]) -> tuple[list[str], list[list[str]]]:
    """The table with a column of bars, if there are any; rows after the last bar have none."""
    if not bars:
        return names, rows
    bars = bars + [""] * (len(rows) - len(bars))
    return [*names, ""], [[*row, bar] for row, bar in zip(rows, bars, strict=True)]
