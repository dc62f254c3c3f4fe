"""Options and arguments of many commands, and their completion in a shell."""

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from clew import app
from clew.model.errors import ClewError


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")(function)


def complete_id(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Session ids for the shell."""
    if app.is_remote(app.settings().store):
        return []  # Completion does not wait for a server.
    try:
        plane = app.connect()
    except ClewError:
        return []  # Completion prints no errors.
    with plane:
        # Read from the log, because completion does not wait for views.
        known = plane.client.context.store.sessions(limit=200)
        return [
            CompletionItem(one.session.id, help=one.session.title)
            for one in known
            if one.session.id.startswith(incomplete)
        ]


def complete_runtime(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of agent programs for the shell."""
    from clew.runtimes import names

    return [CompletionItem(name) for name in names() if name.startswith(incomplete)]


session_argument = click.argument("session", metavar="ID", shell_complete=complete_id)
runtime_argument = click.argument("runtime", shell_complete=complete_runtime)
remote_option = click.option("--to", "name", default="", metavar="NAME", help="The server. [default: the only one]")
