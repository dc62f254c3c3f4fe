"""`clew show`: one session for a person."""

import click

from clew.cli.options import json_option, session_argument
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane
from clew.model.errors import InvalidInput, NotFound
from clew.model.events import Event


@click.command("show")
@session_argument
@click.option("--full", is_flag=True, help="Show long outputs in full.")
@click.option("--thinking", is_flag=True, help="Also show the thinking of models.")
@click.option("--at", type=int, metavar="SEQ", help="Show only the events around this one.")
@click.option("--last", type=click.IntRange(min=0), metavar="N", help="Show only the last N turns; 0 for none.")
@click.option("--no-pager", is_flag=True, help="Print without a pager.")
@click.option("--events", is_flag=True, help="Print the events themselves, one per line.")
@click.option("--after", type=int, metavar="SEQ", help="With --events: only events after this one.")
@click.option("--upto", type=int, metavar="SEQ", help="With --events: only events up to this one.")
@json_option
@click.pass_obj
def command(
    plane: LazyPlane, session: str, full: bool, thinking: bool, at: int | None, last: int | None, no_pager: bool,
    events: bool, after: int | None, upto: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Show a session: its state, its conversation, what it knows and its working set.

    Outputs of tools are folded, and rewound turns are left out; --events shows every event.
    """
    if events:
        page = plane.call("events", session=session, after=after or 0, upto=upto)
        _print_events(page, as_json=as_json)
        return
    if after is not None or upto is not None:
        raise InvalidInput("--after and --upto need --events; --at SEQ shows the events around one")
    if at is not None and last is not None:
        raise InvalidInput("--at and --last are two ways to show a part; use one of them")
    try:
        if as_json:
            print_json(plane.call("show", session=session))
            return
        from clew.cli import showing

        wanted = showing.Wanted(full=full, thinking=thinking, at=at, last=last)
        showing.show(plane, session, wanted, paged=not no_pager)
    except NotFound as error:
        from clew.cli.pulling import with_pull_hint

        raise with_pull_hint(plane, session, error) from None


def _print_events(events: list[Event], *, as_json: bool) -> None:
    if as_json:
        print_json(events)
    else:
        from clew.cli.results.events import print_events

        print_events(events)
