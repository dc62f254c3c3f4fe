"""Commands about servers: set one, share projects with it, push, and pull a session from it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from clew import app
from clew.cli.options import json_option
from clew.cli.output import one_line, print_json, table
from clew.cli.times import ago
from clew.model.errors import ClewError, Conflict, InvalidInput, NotFound
from clew.model.plain import plain
from clew.service import Context, call
from clew.store.cursors import read_cursor
from clew.store.projects import list_projects

if TYPE_CHECKING:
    from clew.service.replication.pull import Pulled
    from clew.service.replication.push import Pushed
    from clew.service.replication.remotes import Setting
    from clew.sync.flow import Flow

MOST_COUNTED = 1000


def remote_group() -> click.Group:
    """The group with all of them."""
    which = click.option("--to", "name", default="", metavar="NAME", help="Which remote. [default: the only one]")

    @click.group(name="remote")
    def group() -> None:
        """Servers that sessions are shared with."""

    @group.command()
    @click.argument("url")
    @click.option("--name", default="team", show_default=True, metavar="NAME", help="What to call it.")
    @json_option
    @click.pass_obj
    def add(plane: Any, url: str, name: str, as_json: bool) -> None:
        """Set a server, and keep the key to it. Nothing is shared with it yet.

        The key is asked for, or read from standard input or CLEW_KEY; never put it into the command or the address.
        """
        made = _add(plane, url, name)
        more = "" if made.projects else "nothing is shared with it yet; `clew remote share PROJECT` shares a project"
        _say(made, f"{made.name} is {made.url}, where you are {plain(made.who)}", more, as_json=as_json)

    @group.command(name="list")
    @json_option
    @click.pass_obj
    def list_(plane: Any, as_json: bool) -> None:
        """List the servers: who you are there, what is shared, how far behind it is, and the last push."""
        _list(plane, as_json=as_json)

    @group.command()
    @click.argument("name")
    @json_option
    @click.pass_obj
    def remove(plane: Any, name: str, as_json: bool) -> None:
        """Forget a server and its key. What was pushed stays there."""
        from clew.service.replication import remotes

        gone = remotes.named(plane.settings.home, name)
        remotes.remove(plane.settings.home, gone.name)
        _say(gone, f"{name} is forgotten, and so is its key; what was pushed stays there", as_json=as_json)

    @group.command()
    @click.argument("project")
    @which
    @json_option
    @click.pass_obj
    def share(plane: Any, project: str, name: str, as_json: bool) -> None:
        """Share a project: its sessions are pushed from now on, but for private ones."""
        setting = _share(plane, project, name)
        told = f"{plain(project)} is shared with {setting.name}; private sessions of it stay here"
        _say(setting, told, "`clew push` sends it now, `clew capture --watch` from then on", as_json=as_json)

    @group.command()
    @click.argument("project")
    @which
    @json_option
    @click.pass_obj
    def unshare(plane: Any, project: str, name: str, as_json: bool) -> None:
        """Push nothing more of a project, or of one session by its id. What was pushed stays there."""
        setting = _unshare(plane, project, name)
        told = f"nothing more of {plain(project)} goes to {setting.name}; what was pushed stays there"
        _say(setting, told, as_json=as_json)

    return group


# Remotes --------------------------------------------------------------------------------------------------------------


def _say(setting: "Setting", text: str, more: str = "", *, as_json: bool) -> None:
    """What was done with a remote, and to a person what can be done next."""
    if as_json:
        print_json(_about(setting))
        return
    click.echo(text)
    if more:
        click.echo(more, err=True)


def _add(plane: Any, url: str, name: str) -> "Setting":
    from clew.remote import Remote, checked_url
    from clew.service.replication import remotes

    home: Path = plane.settings.home
    address = checked_url(url)
    known = {one.name: one for one in remotes.all_of(home)}
    made = known.get(remotes.checked_name(name), remotes.Setting(name=name, url=address))
    if made.url != address:
        raise Conflict(f"{name} is {made.url} already; take another --name, or `clew remote remove {name}` first")
    key = _key(address)
    remote = Remote(address, key)
    try:
        made.who = remote.principal
        made.server = remote.call("sync_standing").store
    finally:
        remote.close()
    remotes.save_key(home, name, key)
    remotes.save(home, made)
    return made


def _key(url: str) -> str:
    if given := os.environ.get("CLEW_KEY", "").strip():
        return given
    if sys.stdin.isatty():
        given = str(click.prompt(f"API key for {url}", hide_input=True, err=True)).strip()
    else:
        given = sys.stdin.readline().strip()
    if not given:
        raise InvalidInput("a server wants an API key; ask its owner for one (`clew key create`), and give it here")
    return given


def _list(plane: Any, *, as_json: bool) -> None:
    from clew.service.replication import remotes
    from clew.service.replication.push import behind

    found = remotes.all_of(plane.settings.home)
    if not found and not as_json:
        click.echo("no remote is set; `clew remote add URL` sets one", err=True)
        return
    context = plane.client.context
    told = [
        {
            **_about(one), "behind": behind(context, one, most=MOST_COUNTED),
            "pushed_at": read_cursor(context.store, f"pushed:{one.server}"),
        }
        for one in found
    ]  # fmt: skip
    if as_json:
        print_json(told)
        return
    rows = [
        (one["name"], one["url"], one["who"], _shared(one), _behind(one),
         ago(one["pushed_at"]) if one["pushed_at"] else "never")
        for one in told
    ]  # fmt: skip
    table(("name", "url", "you are", "shared", "behind", "last push"), rows)
    for one in found:
        _refusals(one.name, {id: refused.why for id, refused in one.refused.items()})


def _about(one: "Setting") -> dict[str, Any]:
    return {
        "name": one.name, "url": one.url, "who": one.who, "projects": one.projects, "sessions": one.sessions,
        "refused": {id: why.why for id, why in one.refused.items()},
    }  # fmt: skip


def _shared(one: dict[str, Any]) -> str:
    count = len(one["sessions"])
    alone = [f"{count} session{'s' if count != 1 else ''}"] if count else []
    return ", ".join([*one["projects"], *alone]) or "nothing"


def _behind(one: dict[str, Any]) -> str:
    count: int = one["behind"]
    if not one["projects"]:
        return ""
    return (
        f"{count:,}{'+' if count >= MOST_COUNTED else ''} event{'s' if count != 1 else ''}" if count else "up to date"
    )


def _refusals(name: str, refused: dict[str, str]) -> None:
    for id, why in refused.items():
        click.echo(f"{name} refused {plain(id)}: {plain(why)}", err=True)


def _share(plane: Any, project: str, name: str) -> "Setting":
    from clew.service.replication import remotes

    known = set(list_projects(plane.client.context.store).values())
    if project not in known:
        some = ", ".join(sorted(known)[:10]) or "none yet"
        raise NotFound(f"no project {project!r} here; there are: {some}", project=project)
    home: Path = plane.settings.home
    with remotes.changing(home, remotes.named(home, name).name) as setting:
        setting.projects = sorted({*setting.projects, project})
    return setting


def _unshare(plane: Any, project: str, name: str) -> "Setting":
    from clew.service.replication import remotes

    home: Path = plane.settings.home
    with remotes.changing(home, remotes.named(home, name).name) as setting:
        is_project = project in setting.projects
        gone = [id for id in setting.sessions if id.startswith(project) and not is_project]
        if not is_project and not gone:
            shared = ", ".join([*setting.projects, *setting.sessions]) or "nothing"
            raise NotFound(f"{project!r} is not shared with {setting.name}; that is: {shared}", project=project)
        setting.projects = [one for one in setting.projects if one != project]
        setting.sessions = [id for id in setting.sessions if id not in gone]
    return setting


# Push -----------------------------------------------------------------------------------------------------------------


def push_once(plane: Any, ids: list[str], name: str, *, again: bool, as_json: bool) -> None:
    from clew.service.replication import remotes

    context: Context = plane.client.context
    with _bar("pushing", shown=not as_json) as on_progress:
        reporting = msgspec.structs.replace(context, on_progress=on_progress)
        results: list[Pushed] = call(reporting, "push", {"sessions": ids or None, "remote": name, "again": again})
    reached = {pushed.remote for pushed in results}
    for setting in [] if ids else remotes.all_of(plane.settings.home):
        if name in ("", setting.name) and setting.name not in reached:
            click.echo(f"nothing is shared with {setting.name} yet; `clew remote share PROJECT` shares one", err=True)
    if as_json:
        print_json(results)
    elif results:
        _summary(results)
    if any(pushed.refused for pushed in results):
        raise click.exceptions.Exit(4)


@contextmanager
def _bar(text: str, *, shown: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal; nothing anywhere else."""
    if not shown or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(text), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("push", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _summary(done: "list[Pushed]") -> None:
    names = ("sessions", "events", "blobs", "files", "erased")
    rows = [
        (one.remote, *(f"{getattr(one, name):,}" for name in names), f"{sum(one.masked.values()):,}") for one in done
    ]
    table(("remote", *names, "masked"), rows)
    for one in done:
        _refusals(one.remote, one.refused)


def push_and_watch(plane: Any, name: str, *, as_json: bool) -> None:
    """Push whenever the log has grown, until interrupted."""
    from clew.service.replication import remotes

    home: Path = plane.settings.home
    wanted = [remotes.named(home, name)] if name else remotes.all_of(home) or [remotes.named(home)]
    if not any(one.projects or one.sessions for one in wanted):
        raise InvalidInput("nothing is shared yet; `clew remote share PROJECT` shares a project")
    flow = _flow(plane, name, as_json=as_json)
    click.echo(f"pushing to {', '.join(one.name for one in wanted)} whatever comes; stop with Ctrl-C", err=True)
    try:
        flow.run()
    except KeyboardInterrupt:
        return


def _flow(plane: Any, name: str, *, as_json: bool) -> "Flow":
    from clew.sync.flow import Flow

    refused: set[str] = set()

    def pushed(done: "Pushed") -> None:
        if as_json and (done.events or done.erased or done.files):
            print_json(done)
        elif done.events or done.erased:
            click.echo(f"pushed to {done.remote}: {done.sessions:,} sessions, {done.events:,} events", err=True)
        _refusals(done.remote, {id: why for id, why in done.refused.items() if id not in refused})
        refused.update(done.refused)

    return Flow(
        plane.client.context, plane.settings.home, name=name, pushed=pushed,
        report=lambda text: click.echo(plain(text), err=True),
    )  # fmt: skip


@contextmanager
def flowing(plane: Any) -> Iterator[None]:
    """Have what is captured pushed meanwhile, if anything is shared; capturing never waits for it."""
    if app.is_remote(plane.settings.store) or not (plane.settings.home / "remotes").is_dir():
        yield
        return
    from clew.sync.flow import is_wanted

    if not is_wanted(plane.settings.home):
        yield
        return
    flow = _flow(plane, "", as_json=False).start()
    try:
        yield
    finally:
        flow.stop()


# Pull -----------------------------------------------------------------------------------------------------------------


def _pulled(done: "Pulled") -> None:
    what = f"{done.events:,} event{'s' if done.events != 1 else ''}"
    what += f", {done.blobs:,} blob{'s' if done.blobs != 1 else ''}" if done.blobs else ""
    what += f", {done.files:,} native file{'s' if done.files != 1 else ''}" if done.files else ""
    click.echo(f"{done.session} {one_line(done.title, 60)}".rstrip())
    click.echo(f"{what} from {done.remote}" if done.events or done.is_new else "nothing new", err=True)
    if done.flat:
        click.echo("note: what it was forked from is not yours to read; its history came along as its own", err=True)
    if done.masked:
        click.echo(
            "note: secrets in its native files were masked before they came, so those are not byte for byte what was "
            "captured",
            err=True,
        )


def bring(plane: Any, session: str, error: NotFound) -> None:
    """Pull a session that is not here, if there is one server to ask; else say what may bring it."""
    found = _others(plane, error)
    if len(found) != 1:
        raise hinted(plane, session, error)
    click.echo(f"{plain(session)} is not here; asking {found[0].name} for it", err=True)
    try:
        _pulled(plane.call("pull", session=session, remote=found[0].name))
    except ClewError as other:
        told = f"{error} (and {found[0].name} says: {other})"
        raise NotFound(told, **error.details) from None


def hinted(plane: Any, session: str, error: NotFound) -> NotFound:
    """The same refusal, with what may help."""
    if not _others(plane, error):
        return error
    return NotFound(f"{error}; `clew pull {session}` may bring it from a server", **error.details)


def _others(plane: Any, error: NotFound) -> "list[Setting]":
    if error.code != "not_found" or app.is_remote(plane.settings.store) or "session" not in error.details:
        return []
    if not (plane.settings.home / "remotes").is_dir():
        return []
    from clew.service.replication import remotes

    return remotes.all_of(plane.settings.home)


RENDER: dict[str, Callable[[Any], None]] = {"pull": _pulled}
