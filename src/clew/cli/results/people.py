"""Principals, keys, grants, agents and settings for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from clew.app import is_remote
from clew.cli.output import table
from clew.cli.times import ago, moment

if TYPE_CHECKING:
    from clew.service.access.credentials import KeyInfo
    from clew.service.access.grants import Explained, GrantInfo, Me
    from clew.service.access.holdings import Holdings
    from clew.service.access.principals import Team
    from clew.service.access.settings import Setting
    from clew.service.access.who import MayUse
    from clew.store.access.agents import Agent
    from clew.store.access.principals import Principal


def _table(columns: list[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    if rows:
        table(columns, rows)
    else:
        click.echo(empty, err=True)


def print_principal_list(principals: "list[Principal]") -> None:
    rows = [
        (principal.name, principal.title, "yes" if principal.login else "", "disabled" if principal.disabled else "")
        for principal in principals
    ]
    _table(["principal", "name", "login", ""], rows, empty="no principals yet; `clew principal add NAME` adds one")


def print_principal_add(principal: "Principal") -> None:
    click.echo(f"added {principal.name}")


def print_principal_disable(_: None) -> None:
    click.echo("disabled")


def print_principal_enable(_: None) -> None:
    click.echo("enabled")


def print_team_list(teams: "list[Team]") -> None:
    rows = [(team.name, ", ".join(team.members)) for team in teams]
    _table(["team", "members"], rows, empty="no teams yet; `clew team add TEAM NAME` makes one")


def print_team_add(team: "Team") -> None:
    print_team_list([team])


print_team_remove = print_team_add


def print_key_create(key: "KeyInfo") -> None:
    """Print a new key. Only the key itself goes to standard output, so a pipe can write it into a file."""
    click.echo(key.key)
    click.echo(f"key {key.id} of {key.principal}, until {moment(key.until)}; it is not shown again", err=True)


print_key_rotate = print_key_create


def print_key_revoke(key: "KeyInfo") -> None:
    click.echo(f"key {key.id} of {key.principal} is revoked")


def print_link(key: "KeyInfo") -> None:
    """Print a key for one login, and its link when a server keeps the store."""
    print_key_create(key)
    store: str = click.get_current_context().obj.settings.store
    if is_remote(store):
        click.echo(f"in a browser: {store.rstrip('/')}/login#{key.key}", err=True)


def print_key_list(keys: "list[KeyInfo]") -> None:
    rows = [
        (key.id, key.kind.replace("_", " "), key.principal, key.label, " ".join(key.scopes) or "all",
         key.project or "all", _until(key.until), ago(key.used_at) if key.used_at else "never")
        for key in keys
    ]  # fmt: skip
    _table(["key", "kind", "principal", "label", "scopes", "project", "until", "last used"], rows, empty="no keys")


def print_access_list(grants: "list[GrantInfo]") -> None:
    rows = [
        (str(grant.id), grant.who, " ".join(grant.rights), _scope(grant), _until(grant.until), grant.given_by)
        for grant in grants
    ]
    _table(["grant", "who", "rights", "on", "until", "given by"], rows, empty="no grants")


def print_access_grant(grant: "GrantInfo") -> None:
    until = f" until {moment(grant.until)}" if grant.until else ""
    click.echo(f"grant {grant.id}: {grant.who} may {', '.join(grant.rights)} on {_scope(grant)}{until}")


print_share = print_access_grant


def print_access_revoke(grant: "GrantInfo") -> None:
    click.echo(f"{grant.who} may no longer {', '.join(grant.rights)} on {_scope(grant)} by grant {grant.id}")


def print_access_explain(rulings: "list[Explained]") -> None:
    rows = [(ruling.right, "yes" if ruling.allowed else "no", ruling.because) for ruling in rulings]
    table(["right", "", "because"], rows, wrapped="because")


def print_access_who(found: "list[MayUse]") -> None:
    rows = ((one.who + (" (you)" if one.is_you else " (disabled)" if one.disabled else ""), " ".join(one.rights),
             one.because) for one in found)  # fmt: skip
    _table(["who", "rights", "because"], list(rows), empty="nobody may do anything with this session")


def print_whoami(me: "Me") -> None:
    click.echo(me.principal)
    for label, value in (
        ("teams", ", ".join(me.teams)),
        ("only these rights", ", ".join(me.scopes or ())),
        ("only project", me.project),
    ):
        if value:
            click.echo(f"{label}: {value}")
    print_access_list(me.grants)


def print_agents(agents: "list[Agent]") -> None:
    rows = [
        (agent.name, agent.project or "all", agent.runtime, agent.model, agent.owner, agent.place, _rules(agent))
        for agent in agents
    ]
    _table(
        ["agent", "project", "runtime", "model", "owner", "runs on", "its sessions"], rows,
        empty="no agents yet; `clew agent register NAME` adds one",
    )  # fmt: skip


def print_agent_register(agent: "Agent") -> None:
    print_agents([agent])


def print_agent_remove(_: None) -> None:
    click.echo("removed")


def print_setting_list(settings: "list[Setting]") -> None:
    rows = [(setting.project or "all", setting.name, setting.value) for setting in settings]
    empty = "nothing is set; `clew setting set --help` lists the settings"
    _table(["project", "setting", "value"], rows, empty=empty)


def print_setting_set(setting: "Setting") -> None:
    print_setting_list([setting])


def _rules(agent: "Agent") -> str:
    return "; ".join(" ".join(part for part in (rule.runtime, rule.path, rule.name) if part) for rule in agent.rules)


def _scope(grant: "GrantInfo") -> str:
    scopes = (("session", grant.session), ("project", grant.project), ("agent", grant.agent))
    return ", ".join(f"{name} {value}" for name, value in scopes if value) or "everything"


def _until(at: int) -> str:
    return moment(at) if at else "for ever"


def print_access_held(held: "Holdings") -> None:
    print_key_list(held.credentials)
    print_access_list(held.grants)
    click.echo(f"teams: {', '.join(held.teams) or 'none'}")


def print_access_end(held: "Holdings") -> None:
    counts = f"{len(held.credentials)} credentials, {len(held.grants)} grants, {len(held.teams)} team memberships"
    click.echo(f"ended what {held.principal} held: {counts}")
