"""Bulk: the sessions that filters select, and an operation on each of them.

The filters are those of `clew sessions`. Each session is a call of its own, so access and the audit log hold for each.
What is done already is skipped, so that the same command again does the rest.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from clew.cli.confirming import confirm
from clew.cli.exits import exit_code
from clew.cli.output import in_options, one_line, print_json
from clew.cli.parameters import parameter_of
from clew.cli.progress import progress
from clew.cli.results.counts import count
from clew.model.errors import ClewError, InvalidInput
from clew.model.plain import plain
from clew.service.kernel.registry import operation_named

if TYPE_CHECKING:
    from clew.cli.plane import LazyPlane
    from clew.service.sessions.line import SessionLine

PAGE = 1000
# How many sessions a question and a report name.
NAMED = 10
# Parameters of the list that page through it instead of selecting.
PAGING = ("limit", "before", "empty")
# After these errors the next session would fail, too.
ENDS = ("unavailable", "unauthenticated", "disk_full", "schema_newer", "schema_outdated")

Work = Callable[["SessionLine"], str]
"""Does something with one session; returns why there was nothing to do, or nothing when it is done."""


class Words(NamedTuple):
    """What is done, as a question, a progress bar and a report say it: archives, archiving, archived."""

    does: str
    doing: str
    done: str


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The filters of `clew sessions`, with `--all` for every session and `--dry-run`; they come as `filters`."""
    names = _filter_names()

    def gathering(*args: Any, **values: Any) -> Any:
        given = {name: values.pop(name) for name in names}
        filters = {name: value for name, value in given.items() if value not in (None, ())}
        return function(*args, filters=filters, **values)

    gathering.__doc__ = function.__doc__
    # click takes the options of a function from the last to the first.
    last = [
        click.Option(["--dry-run"], is_flag=True, help="Show which sessions these are and change nothing."),
        click.Option(["--all", "everything"], is_flag=True, help="Every session."),
    ]
    filters = [_option(parameter) for parameter in reversed(_filter_parameters())]
    gathering.__click_params__ = [*last, *filters]  # type: ignore[attr-defined]
    return gathering


def _option(parameter: Any) -> click.Option:
    option = parameter_of(parameter)
    if not isinstance(option, click.Option):
        raise AssertionError(f"the filter {parameter.name} of the list is an option")
    if parameter.name == "quiet_since":
        option.opts.append("--before")
    return option


def _filter_parameters() -> list[Any]:
    return [parameter for parameter in operation_named("sessions").parameters if parameter.name not in PAGING]


def _filter_names() -> list[str]:
    return [parameter.name for parameter in _filter_parameters()]


def is_bulk(session: str | None, filters: dict[str, Any], *, everything: bool) -> bool:
    """Whether filters select the sessions instead of an id; it has to be one of the two."""
    if session is None:
        if not filters and not everything:
            raise InvalidInput(
                "no session is named; give an ID, or filters such as --project NAME or --tag TAG (--all is every "
                "session)"
            )
        return True
    if filters or everything:
        raise InvalidInput(f"{session[:40]!r} names one session and the filters select several; use one of them")
    return False


def selected(plane: "LazyPlane", filters: dict[str, Any]) -> "list[SessionLine]":
    """Every session that the filters select, also those with nothing in them."""
    # A session that goes on meanwhile can come on two pages.
    lines: dict[str, SessionLine] = {}
    before: dict[str, str] = {}
    while True:
        page = plane.call("sessions", **filters, empty=True, limit=PAGE, **before)
        lines |= {line.id: line for line in page}
        if len(page) < PAGE:
            return list(lines.values())
        before = {"before": page[-1].id}


def work_on_each(
    plane: "LazyPlane", lines: "list[SessionLine]", work: Work, words: Words, *, dry_run: bool, as_json: bool,
    asks: bool = False, yes: bool = False,
) -> None:  # fmt: skip
    """Do something with each session, and report what became of it; with `asks` a person is asked first."""
    if dry_run:
        _print_selected(lines, words, as_json=as_json)
        return
    if not lines:
        click.echo("no such sessions; nothing was done", err=True)
        return
    if asks and not yes:
        if sys.stdin.isatty() and not as_json:
            _print_named(lines)
        confirm(f"This {words.does} {count(len(lines), 'session')}", yes=False, as_json=as_json)
    report = _Report(words, len(lines), as_json=as_json)
    try:
        with progress(words.doing, shown=not as_json) as on_progress:
            for number, line in enumerate(lines, 1):
                report.take(line, work)
                if on_progress is not None:
                    on_progress(number, len(lines))
    except KeyboardInterrupt:
        report.print(is_whole=False)
        raise click.Abort from None
    except ClewError:
        report.print(is_whole=False)
        raise
    report.print()
    if report.failures:
        codes = {exit_code(error.code) for _, error in report.failures}
        raise click.exceptions.Exit(codes.pop() if len(codes) == 1 else 1)


class _Report:
    """What became of each session."""

    def __init__(self, words: Words, total: int, *, as_json: bool) -> None:
        self._words = words
        self._total = total
        self._as_json = as_json
        self._done = 0
        self._skipped: dict[str, int] = {}
        self.failures: list[tuple[SessionLine, ClewError]] = []

    def take(self, line: "SessionLine", work: Work) -> None:
        try:
            reason = work(line)
        except ClewError as error:
            if error.code in ENDS:
                raise
            self.failures.append((line, error))
            self._print_object(line, "failed", error=error.to_dict())
            return
        if reason:
            self._skipped[reason] = self._skipped.get(reason, 0) + 1
        else:
            self._done += 1
        self._print_object(line, "skipped" if reason else "done", **({"reason": reason} if reason else {}))

    def _print_object(self, line: "SessionLine", status: str, **more: Any) -> None:
        if self._as_json:
            print_json({"session": line.id, "status": status, **more})

    def print(self, *, is_whole: bool = True) -> None:
        if self._as_json:
            return
        parts = [f"{self._words.done} {self._done:,} of {count(self._total, 'session')}"]
        parts += [f"{times:,} {reason}" for reason, times in self._skipped.items()]
        parts += [f"{len(self.failures):,} failed"] if self.failures else []
        rest = "" if is_whole else "; the same command again does the rest"
        click.echo(plain(", ".join(parts) + rest), err=True)
        for line, error in self.failures[:NAMED]:
            title = one_line(line.title or "(untitled)", 40)
            click.echo(plain(f"  {line.id[:10]} {title}: {in_options(error)}"), err=True)
        if len(self.failures) > NAMED:
            click.echo(f"  and {len(self.failures) - NAMED:,} more; --json lists all", err=True)


def _print_selected(lines: "list[SessionLine]", words: Words, *, as_json: bool) -> None:
    if as_json:
        print_json(lines)
        return
    if lines:
        from clew.cli.results.sessions import print_sessions

        print_sessions(lines)
    click.echo(f"{count(len(lines), 'session')} would be {words.done}; nothing was changed", err=True)


def _print_named(lines: "list[SessionLine]") -> None:
    for line in lines[:NAMED]:
        click.echo(f"  {line.id[:10]} {one_line(line.title or '(untitled)', 60)}", err=True)
    if len(lines) > NAMED:
        click.echo(f"  and {len(lines) - NAMED:,} more; --dry-run shows them all", err=True)
