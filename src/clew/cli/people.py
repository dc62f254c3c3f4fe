"""Results of the operations about people, keys, rights, agents and settings, for people."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from clew.app import is_remote
from clew.cli.output import table
from clew.cli.times import ago, moment
from clew.service.access.api_keys import KeyInfo
from clew.service.access.grants import Explained, GrantInfo, Me
from clew.service.access.principals import Team
from clew.service.access.settings import Setting
from clew.store.access.agents import Agent
from clew.store.access.principals import Principal


def _table(columns: list[str], rows: Sequence[Sequence[str]], *, empty: str = "", wrapped: str = "") -> None:
    if not rows and empty:
        click.echo(empty, err=True)
    else:
        table(columns, rows, wrapped=wrapped)


def principals(found: list[Principal]) -> None:
    rows = [(one.name, one.title, "yes" if one.login else "", "shut out" if one.disabled else "") for one in found]
    _table(["principal", "name", "login", ""], rows, empty="nobody yet; `clew principal add NAME` adds one")


def teams(found: list[Team]) -> None:
    rows = [(one.name, ", ".join(one.members)) for one in found]
    _table(["team", "members"], rows, empty="no team yet; `clew team add TEAM NAME` makes one")


def new_key(one: KeyInfo) -> None:
    """The text of a key goes to standard output alone, so that it can be piped into a file."""
    click.echo(one.key)
    click.echo(f"key {one.id} of {one.principal}, until {moment(one.until)}; it is not shown again", err=True)


def link(one: KeyInfo) -> None:
    """The text of a key for one login, and where to open it when a server keeps the store."""
    new_key(one)
    store: str = click.get_current_context().obj.settings.store
    if is_remote(store):
        click.echo(f"in a browser: {store.rstrip('/')}/login#{one.key}", err=True)


def keys(found: list[KeyInfo]) -> None:
    rows = [
        (one.id, one.principal, one.label, " ".join(one.scopes) or "all", one.project or "all", _until(one.until),
         ago(one.used_at) if one.used_at else "never")
        for one in found
    ]  # fmt: skip
    _table(["key", "principal", "label", "scopes", "project", "until", "last used"], rows, empty="no keys")


def grants(found: list[GrantInfo]) -> None:
    rows = [(str(one.id), one.who, " ".join(one.rights), _where(one), _until(one.until), one.given_by) for one in found]
    _table(["grant", "who", "rights", "on", "until", "given by"], rows, empty="no grants")


def granted(one: GrantInfo) -> None:
    click.echo(f"grant {one.id}: {one.who} may {', '.join(one.rights)} on {_where(one)}{_ends(one.until)}")


def revoked(one: GrantInfo) -> None:
    click.echo(f"{one.who} may no longer {', '.join(one.rights)} on {_where(one)} by grant {one.id}")


def explained(found: list[Explained]) -> None:
    _table(["right", "", "because"], [(one.right, "yes" if one.allowed else "no", one.because) for one in found],
           wrapped="because")  # fmt: skip


def me(one: Me) -> None:
    click.echo(one.principal)
    for label, value in (
        ("teams", ", ".join(one.teams)),
        ("only these rights", ", ".join(one.scopes or ())),
        ("only project", one.project),
    ):
        if value:
            click.echo(f"{label}: {value}")
    grants(one.grants)


def agents(found: list[Agent]) -> None:
    rows = [
        (one.name, one.project or "all", one.runtime, one.model, one.owner, one.place, _rules(one)) for one in found
    ]
    _table(
        ["agent", "project", "runtime", "model", "owner", "runs on", "its sessions"], rows,
        empty="no agents yet; `clew agent register NAME` adds one",
    )  # fmt: skip


def settings(found: list[Setting]) -> None:
    _table(["project", "setting", "value"], [(one.project or "all", one.name, one.value) for one in found],
          empty="nothing is set; what there is: `clew setting set --help`")  # fmt: skip


def _rules(agent: Agent) -> str:
    return "; ".join(" ".join(part for part in (rule.runtime, rule.path, rule.name) if part) for rule in agent.rules)


def _where(one: GrantInfo) -> str:
    places = (("session", one.session), ("project", one.project), ("agent", one.agent))
    return ", ".join(f"{name} {value}" for name, value in places if value) or "everything"


def _until(at: int) -> str:
    return moment(at) if at else "for ever"


def _ends(at: int) -> str:
    return f" until {moment(at)}" if at else ""


RENDER: dict[str, Callable[[Any], None]] = {
    "principal_add": lambda one: click.echo(f"added {one.name}"),
    "principal_disable": lambda _: click.echo("shut out"),
    "principal_enable": lambda _: click.echo("let in again"),
    "principal_list": principals,
    "team_add": lambda one: teams([one]),
    "team_remove": lambda one: teams([one]),
    "team_list": teams,
    "key_create": new_key,
    "key_rotate": new_key,
    "key_revoke": lambda one: click.echo(f"key {one.id} of {one.principal} is no longer good"),
    "key_list": keys,
    "whoami": me,
    "access_grant": granted,
    "access_revoke": revoked,
    "access_list": grants,
    "access_explain": explained,
    "share": granted,
    "link": link,
    "privacy": lambda one: click.echo(f"{one.id} is {'private' if one.private else 'open to its project'}"),
    "agent_register": lambda one: agents([one]),
    "agent_remove": lambda _: click.echo("removed"),
    "agents": agents,
    "setting_set": lambda one: settings([one]),
    "setting_list": settings,
}
