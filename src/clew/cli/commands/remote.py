"""`clew remote`: the servers that this machine shares sessions with."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.confirming import confirm, yes_option
from clew.cli.help import Summaries
from clew.cli.options import json_option, remote_option
from clew.cli.output import print_json, table
from clew.cli.times import ago
from clew.model.errors import InvalidInput
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.replication.remotes import Setting

# The list counts no more unpushed events than these.
MOST_COUNTED = 1000


@click.group("remote", cls=Summaries)
def command() -> None:
    """Set the servers that sessions are shared with."""


@command.command()
@click.argument("url")
@click.option("--name", default="team", show_default=True, metavar="NAME", help="A name for the server.")
@json_option
@click.pass_obj
def add(plane: Any, url: str, name: str, as_json: bool) -> None:
    """Add a server and save the API key for it. Nothing is shared with it yet.

    clew asks for the key, or reads it from standard input or CLEW_KEY; never put it into the command or the address.
    """
    remote = _add(plane, url, name)
    hint = "" if remote.projects else "nothing is shared with it yet; `clew remote share PROJECT` shares a project"
    _print_remote(remote, f"{remote.name} is {remote.url}, where you are {plain(remote.who)}", hint, as_json=as_json)


@command.command("list")
@json_option
@click.pass_obj
def list_(plane: Any, as_json: bool) -> None:
    """List the servers: your name there, what is shared, how many events are not pushed yet, and the last push."""
    _list(plane, as_json=as_json)


@command.command()
@click.argument("name")
@yes_option
@json_option
@click.pass_obj
def remove(plane: Any, name: str, yes: bool, as_json: bool) -> None:
    """Remove a server and its API key from this machine. What was pushed stays on the server."""
    from clew.service.replication import remotes

    remote = remotes.named(plane.settings.home, name)
    confirm(f"This removes {remote.name} ({remote.url}) and its API key from this machine", yes=yes, as_json=as_json)
    remotes.remove(plane.settings.home, remote.name)
    _print_remote(remote, f"{name} and its key are removed; what was pushed stays on the server", as_json=as_json)


@command.command()
@click.argument("project")
@remote_option
@json_option
@click.pass_obj
def share(plane: Any, project: str, name: str, as_json: bool) -> None:
    """Share a project: `clew push` sends its sessions from now on, except private ones."""
    remote = _share(plane, project, name)
    text = f"{plain(project)} is shared with {remote.name}; its private sessions stay on this machine"
    _print_remote(remote, text, "`clew push` sends it now, `clew capture --watch` from then on", as_json=as_json)


@command.command()
@click.argument("project")
@remote_option
@json_option
@click.pass_obj
def unshare(plane: Any, project: str, name: str, as_json: bool) -> None:
    """Stop sharing a project, or one session by its id. What was pushed stays on the server."""
    remote = _unshare(plane, project, name)
    text = f"nothing more of {plain(project)} is pushed to {remote.name}; what was pushed stays on the server"
    _print_remote(remote, text, as_json=as_json)


def _print_remote(remote: "Setting", text: str, hint: str = "", *, as_json: bool) -> None:
    """Print what the command did with a remote, and to a person what they can do next."""
    if as_json:
        print_json(_as_object(remote))
        return
    click.echo(text)
    if hint:
        click.echo(hint, err=True)


def _as_object(remote: "Setting") -> dict[str, Any]:
    return {
        "name": remote.name, "url": remote.url, "who": remote.who, "projects": remote.projects,
        "sessions": remote.sessions, "refused": {id: refusal.why for id, refusal in remote.refused.items()},
    }  # fmt: skip


# Add ------------------------------------------------------------------------------------------------------------------


def _add(plane: Any, url: str, name: str) -> "Setting":
    from clew.app import open_server
    from clew.service.replication import remotes
    from clew.service.replication.server import checked_url

    home: Path = plane.settings.home
    return remotes.add(home, remotes.checked_name(name), url, _read_key(checked_url(url)), open_server)


def _read_key(url: str) -> str:
    if key := os.environ.get("CLEW_KEY", "").strip():
        return key
    if sys.stdin.isatty():
        key = str(click.prompt(f"API key for {url}", hide_input=True, err=True)).strip()
    else:
        key = sys.stdin.readline().strip()
    if not key:
        raise InvalidInput("a server needs an API key; ask its owner for one (`clew key create`), and enter it here")
    return key


# List -----------------------------------------------------------------------------------------------------------------


def _list(plane: Any, *, as_json: bool) -> None:
    from clew.cli.pushing import print_refusals
    from clew.service.replication import remotes
    from clew.service.replication.push import pending_events
    from clew.store.cursors import read_cursor

    all_remotes = remotes.all_of(plane.settings.home)
    if not all_remotes and not as_json:
        click.echo("no remote is set; `clew remote add URL` sets one", err=True)
        return
    context = plane.client.context
    rows = [
        {
            **_as_object(remote), "behind": pending_events(context, remote, most=MOST_COUNTED),
            "pushed_at": read_cursor(context.store, f"pushed:{remote.server}"),
        }
        for remote in all_remotes
    ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    cells = [
        (row["name"], row["url"], row["who"], _shared(row), _not_pushed(row),
         ago(row["pushed_at"]) if row["pushed_at"] else "never")
        for row in rows
    ]  # fmt: skip
    table(("name", "url", "you are", "shared", "behind", "last push"), cells)
    for remote in all_remotes:
        print_refusals(remote.name, {id: refusal.why for id, refusal in remote.refused.items()})


def _shared(row: dict[str, Any]) -> str:
    count = len(row["sessions"])
    single = [f"{count} session{'s' if count != 1 else ''}"] if count else []
    return ", ".join([*row["projects"], *single]) or "nothing"


def _not_pushed(row: dict[str, Any]) -> str:
    count: int = row["behind"]
    if not row["projects"]:
        return ""
    if not count:
        return "up to date"
    return f"{count:,}{'+' if count >= MOST_COUNTED else ''} event{'s' if count != 1 else ''}"


# Share ----------------------------------------------------------------------------------------------------------------


def _share(plane: Any, project: str, name: str) -> "Setting":
    from clew.service.replication import remotes
    from clew.store.projects import list_projects

    projects = set(list_projects(plane.client.context.store).values())
    return remotes.share(plane.settings.home, name, project, projects)


def _unshare(plane: Any, project: str, name: str) -> "Setting":
    from clew.service.replication import remotes

    return remotes.unshare(plane.settings.home, name, project)
