"""`clew tail`: the last events of one session or of all, and new ones."""

from collections import deque
from collections.abc import Iterator

import click

from clew.cli.options import SessionId, complete_id, json_option
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane
from clew.model.events import Event


@click.command("tail")
@click.argument("session", metavar="[ID]", required=False, type=SessionId(), shell_complete=complete_id)
@click.option("-f", "--follow", is_flag=True, help="Print new events until stopped.")
@click.option("-n", "--limit", "--lines", "lines", type=click.IntRange(0, 100_000), default=10, show_default=True,
              metavar="N", help="How many of the last events to print.")  # fmt: skip
@click.option("--after", type=click.IntRange(min=0), metavar="SEQ",
              help="Print the events after this position (with an ID: after this seq) instead.")  # fmt: skip
@click.option("--project", default="", metavar="NAME", help="Only this project.")
@json_option
@click.pass_obj
def command(
    plane: LazyPlane, session: str | None, follow: bool, lines: int, after: int | None, project: str, as_json: bool
) -> None:
    """Print the last events of one session or of all; with --follow, also new ones."""
    try:
        if after is None:
            events, after = last(plane, session, lines, project=project)
            _print(events, as_json=as_json)
            if not follow:
                return
        for events in pages(plane, session, after, project=project, follow=follow):
            _print(events, as_json=as_json)
    except KeyboardInterrupt:
        return


def _print(events: list[Event], *, as_json: bool) -> None:
    if as_json:
        print_json(events)
    elif events:
        from clew.cli.results.events import print_events_of_all

        print_events_of_all(events)


def last(plane: LazyPlane, session: str | None, count: int, *, project: str) -> tuple[list[Event], int]:
    """The last events, and where the next ones begin. Not every position has an event that the filter lets through."""
    top = plane.call("show", session=session).session.head if session else plane.client.last_position()
    width = count
    while True:
        start = max(0, top - width)
        kept: deque[Event] = deque(maxlen=count)
        for events in pages(plane, session, start, project=project, follow=False) if count else ():
            kept.extend(events)
        if len(kept) >= count or not start:
            newest = (kept[-1].seq if session else kept[-1].position) if kept else top
            return list(kept), max(top, newest)
        width *= 4


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
