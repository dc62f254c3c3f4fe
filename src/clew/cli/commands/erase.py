"""`clew erase`: remove the content of a session after asking, or of those that filters select."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from clew.cli import bulk, upkeep
from clew.cli.bulk import Words, filter_options
from clew.cli.confirming import confirm, yes_option
from clew.cli.options import json_option, optional_session_argument
from clew.cli.output import one_line, print_json
from clew.cli.plane import LazyPlane
from clew.cli.progress import progress
from clew.cli.results.counts import count
from clew.model.errors import Denied

if TYPE_CHECKING:
    from clew.service.sessions.line import SessionLine

WORDS = Words("erases for good the content of", "erasing", "erased")


@click.command("erase")
@optional_session_argument
@click.option("--with-forks", is_flag=True, help="Also erase the sessions forked from it.")
@click.option("--reason", default="", help="Kept in the record of the erasure.")
@yes_option
@json_option
@filter_options
@click.pass_obj
def command(
    plane: LazyPlane, session: str | None, with_forks: bool, reason: str, yes: bool, as_json: bool, everything: bool,
    dry_run: bool, filters: dict[str, Any],
) -> None:  # fmt: skip
    """Erase the content of a session for good. A record of the session and its erasure stays.

    Without an ID: erase every session that the filters select.
    """
    if bulk.is_bulk(session, filters, everything=everything) or session is None:
        _erase_selected(
            plane, filters, with_forks=with_forks, reason=reason, dry_run=dry_run, yes=yes, as_json=as_json
        )  # fmt: skip
        return
    detail = plane.call("show", session=session)
    target = detail.session
    forks = f", and its {count(len(detail.forks), 'fork')}" if with_forks and detail.forks else ""
    title = one_line(target.title or "(untitled)", 60)
    if dry_run:
        click.echo(f"this would erase {target.id} {title} ({count(target.head, 'event')}{forks}) for good", err=True)
        return
    confirm(
        f"This erases {target.id} {title} ({count(target.head, 'event')}{forks}) for good", yes=yes, as_json=as_json
    )
    with progress("erasing", shown=not as_json):
        result = plane.call("erase", session=target.id, with_forks=with_forks, reason=reason)
    if as_json:
        print_json(result)
    else:
        from clew.cli.results.maintenance import print_erase

        print_erase(result)


def _erase_selected(
    plane: LazyPlane, filters: dict[str, Any], *, with_forks: bool, reason: str, dry_run: bool, yes: bool,
    as_json: bool,
) -> None:  # fmt: skip
    upkeep.catch_up(plane)
    lines = bulk.selected(plane, filters)
    # A fork is younger than what it was forked from, and is erased before it.
    lines.sort(key=lambda line: -line.opened_at)
    erased = _Erasing(plane, last=lines[-1].id if lines else "", with_forks=with_forks, reason=reason)
    try:
        bulk.work_on_each(plane, lines, erased.erase, WORDS, dry_run=dry_run, as_json=as_json, asks=True, yes=yes)
    finally:
        erased.finish()
    for copy in erased.beyond_reach:
        click.secho(f"beyond the reach of clew: {copy}", fg="yellow", err=True)


class _Erasing:
    """Erases one session after the other, and overwrites the free space once: that takes as long as all the rest."""

    def __init__(self, plane: LazyPlane, *, last: str, with_forks: bool, reason: str) -> None:
        self._plane = plane
        self._last = last
        self._given = {"with_forks": with_forks, "reason": reason}
        self._leaves_traces = False
        self.beyond_reach: list[str] = []

    def erase(self, line: "SessionLine") -> str:
        is_last = line.id == self._last
        reports = self._plane.call("erase", session=line.id, overwrite=is_last, **self._given)
        self._leaves_traces = not is_last
        self.beyond_reach = reports[0].beyond_reach if is_last and reports else []
        return ""

    def finish(self) -> None:
        """Overwrite what the erasures left, when the last one did not do it."""
        if self._leaves_traces:
            with suppress(Denied):  # On a server only an owner may do this.
                self._plane.call("collect")
