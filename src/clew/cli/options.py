"""Options and arguments of many commands, and their completion in a shell."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from clew import app
from clew.model.errors import ClewError
from clew.service.kernel.registry import Parameter


def flag_of(parameter: Parameter) -> str:
    """The option of an operation's parameter; the annotation can give it another name."""
    metas = getattr(parameter.type, "__metadata__", ())
    named = next((meta.extra["flag"] for meta in metas if meta.extra and "flag" in meta.extra), "")
    return f"--{named or parameter.name.replace('_', '-')}"


def takes_a_path(parameter: Parameter) -> str:
    """Whether a parameter is the path of a folder: `always`, if the value `has a slash`, or never, which is empty."""
    metas = getattr(parameter.type, "__metadata__", ())
    return next((str(meta.extra["path"]) for meta in metas if meta.extra and "path" in meta.extra), "")


class FolderPath(click.ParamType[str]):
    """The path of a folder, which an operation gets whole; a person may give it from the folder they are in."""

    name = "path"

    def __init__(self, when: str) -> None:
        self._when = when

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        is_path = self._when == "always" or "/" in value or value in (".", "..", "~")
        return os.path.abspath(os.path.expanduser(value)) if is_path else value


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
            CompletionItem(listed.session.id, help=listed.session.title)
            for listed in known
            if listed.session.id.startswith(incomplete)
        ]


def complete_runtime(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of agent programs for the shell."""
    from clew.runtimes import names

    return [CompletionItem(name) for name in names() if name.startswith(incomplete)]


class SessionId(click.ParamType[str]):
    """A session's id or a beginning of it; `latest` is the newest session of this folder, or of all."""

    name = "id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in LATEST or ctx is None or ctx.resilient_parsing:
            return value
        from clew.cli.here import latest

        return latest(ctx.obj)


class TouchedPath(click.ParamType[str]):
    """A path that sessions touched; `.` and `..` are the folders that they are here."""

    name = "path"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value.rstrip("/") in (".", "..") or value.startswith("../"):
            end = "" if Path(value).is_file() else "/"
            return os.path.abspath(value) + end
        return value


# No id is one of these words, because ids have no letter l.
LATEST = ("latest", "last")
session_argument = click.argument("session", metavar="ID", type=SessionId(), shell_complete=complete_id)
optional_session_argument = click.argument(
    "session", metavar="[ID]", required=False, type=SessionId(), shell_complete=complete_id
)  # fmt: skip
runtime_argument = click.argument("runtime", shell_complete=complete_runtime)
remote_option = click.option("--to", "name", default="", metavar="NAME", help="The server. [default: the only one]")
