"""Events for people, one line each."""

import click
import msgspec

from clew.cli.output import one_line
from clew.cli.times import moment
from clew.model import events as e
from clew.model.events import Event
from clew.views.contract import when


def print_events(events: list[Event]) -> None:
    """Print the events, each with the time at which it happened."""
    before = 0
    for event in events:
        before = when(event, before)
        _print_event(event, before)


def print_events_of_all(events: list[Event]) -> None:
    """Print the events of several sessions, each behind its session's id."""
    before: dict[str, int] = {}
    for event in events:
        before[event.session] = when(event, before.get(event.session, 0))
        click.secho(f"{event.session[:8]}", fg="magenta", nl=False)
        _print_event(event, before[event.session])


def _print_event(event: Event, at: int) -> None:
    click.echo(f"{event.seq:>5}  ", nl=False)
    click.secho(f"{moment(at)}  ", dim=True, nl=False)
    click.secho(f"{event.kind:<18} ", fg="cyan", nl=False)
    click.echo(one_line(_summary(event.body)))


def _summary(body: e.AnyBody) -> str:
    """The content of a body, in one line."""
    match body:
        case e.MessageAdded(role=role):
            return f"{role}: {' '.join(getattr(part, 'text', f'[{type(part).__name__}]') for part in body.content)}"
        case e.CallMade(tool=tool, input=value):
            return f"{tool} {bytes(value).decode()}"
        case e.CallReturned(output=value, failed=failed):
            return ("failed: " if failed else "") + bytes(value).decode()
        case e.FactLearned(text=text):
            return text
        case e.DecisionMade(choice=choice, why=why):
            return f"{choice}{f' ({why})' if why else ''}"
        case e.Removed(how=how):
            return f"[body {how}]"
        case e.Opaque(raw=raw):
            return raw
        case _:
            return msgspec.json.encode(body).decode()
