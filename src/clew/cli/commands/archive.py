"""`clew archive`: make a session read-only, or those that filters select."""

from typing import TYPE_CHECKING, Any

import click

from clew.cli import bulk, upkeep
from clew.cli.bulk import Words, filter_options
from clew.cli.confirming import yes_option
from clew.cli.options import json_option, optional_session_argument
from clew.cli.output import print_result
from clew.cli.plane import LazyPlane

if TYPE_CHECKING:
    from clew.service.sessions.line import SessionLine

WORDS = Words("archives", "archiving", "archived")


@click.command("archive")
@optional_session_argument
@click.option("--reason", default="", help="Why; kept in the log.")
@click.option("--lease", type=int, metavar="EPOCH", help="The epoch of the lease you hold.")
@yes_option
@json_option
@filter_options
@click.pass_obj
def command(
    plane: LazyPlane, session: str | None, reason: str, lease: int | None, yes: bool, as_json: bool, everything: bool,
    dry_run: bool, filters: dict[str, Any],
) -> None:  # fmt: skip
    """Archive a closed session: from then on it is read-only.

    Without an ID: close and archive every session that the filters select.
    """
    if not bulk.is_bulk(session, filters, everything=everything):
        print_result(
            plane.call("archive", session=session, reason=reason, **({} if lease is None else {"lease": lease})),
            "archive", as_json=as_json,
        )  # fmt: skip
        return

    def archive(line: "SessionLine") -> str:
        if line.state == "archived":
            return "archived before"
        if line.state != "closed":
            plane.call("close", session=line.id, outcome="archived", summary=reason)
        plane.call("archive", session=line.id, reason=reason)
        return ""

    upkeep.catch_up(plane)
    lines = bulk.selected(plane, filters)
    bulk.work_on_each(plane, lines, archive, WORDS, dry_run=dry_run, as_json=as_json, asks=True, yes=yes)
