"""`clew diff`: where two sessions part, and what each has since. Their events are printed a page at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from clew.cli import upkeep
from clew.cli.options import complete_id, json_option
from clew.cli.output import print_json
from clew.cli.results.events import print_events
from clew.cli.results.session import print_side
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.model.events import Event
    from clew.service.sessions.forks import Side

PAGE = 100


@click.command("diff")
@click.argument("left", shell_complete=complete_id)
@click.argument("right", shell_complete=complete_id)
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="At most so many events of each side. [default: all]"
)
@json_option
@click.pass_obj
def command(plane: Any, left: str, right: str, limit: int | None, as_json: bool) -> None:
    """Compare two sessions: where they part and what differs since."""
    upkeep.catch_up(plane)
    if as_json:
        print_json(plane.call("diff", left=left, right=right, limit=limit))
        return
    difference = plane.call("diff", left=left, right=right, limit=0)
    shared = difference.shared
    click.echo(f"the two share events 1 to {shared}" if shared else "the two share nothing")
    for side in (difference.left, difference.right):
        click.secho(f"\nonly in {side.session} ({side.total} events)", bold=True)
        for events in _pages(plane, side, shared, limit):
            print_events(events)
        print_side(side)
    if difference.files_of_both:
        click.secho("\nin both", bold=True)
        for file in difference.files_of_both:
            click.echo(f"  file {plain(file)}")


def _pages(plane: Any, side: "Side", shared: int, limit: int | None) -> "Iterator[list[Event]]":
    """The events of one side, up to where it was when the two were compared."""
    after, last = shared, shared + side.total
    left = side.total if limit is None else limit
    while left > 0 and after < last:
        events = plane.call("events", session=side.session, after=after, upto=last, limit=min(PAGE, left))
        if not events:
            return
        yield events
        left -= len(events)
        after = events[-1].seq
