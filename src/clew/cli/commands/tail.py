"""`clew tail`: the last events of one session or of all, and new ones."""

from collections.abc import Iterator

import click

from clew.cli.options import complete_id, json_option
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane
from clew.model.events import Event


@click.command("tail")
@click.argument("session", metavar="[ID]", required=False, shell_complete=complete_id)
@click.option("-f", "--follow", is_flag=True, help="Print new events until stopped.")
@click.option("-n", "--lines", default=10, show_default=True, help="How many of the last events to print.")
@click.option("--after", type=int, help="Print the events after this position (with an ID: after this seq) instead.")
@click.option("--project", default="", help="Only this project.")
@json_option
@click.pass_obj
def command(
    plane: LazyPlane, session: str | None, follow: bool, lines: int, after: int | None, project: str, as_json: bool
) -> None:
    """Print the last events of one session or of all; with --follow, also new ones."""
    newest = plane.client.last_position()
    if after is None:
        top = plane.call("show", session=session).session.head if session else newest
        after = max(0, top - lines)
    try:
        for events in pages(plane, session, after, project=project, follow=follow):
            if as_json:
                print_json(events)
            else:
                from clew.cli.results.events import print_events_of_all

                print_events_of_all(events)
    except KeyboardInterrupt:
        return


def pages(plane: LazyPlane, session: str | None, after: int, *, project: str, follow: bool) -> Iterator[list[Event]]:
    """The events page by page; with `follow`, without an end."""
    while True:
        events: list[Event] = (
            plane.call("events", session=session, after=after, limit=1000)
            if session
            else plane.call("tail", after=after, project=project)
        )
        if events:
            yield events
            after = events[-1].seq if session else events[-1].position
        elif not follow:
            return
        else:
            for event in plane.client.follow(after=after, session=session or "", project=project):
                yield [event]
