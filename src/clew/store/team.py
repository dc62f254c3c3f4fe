"""Who there is and what each may do: principals, teams, grants, keys, agents, and the settings of projects."""

from collections.abc import Iterable

import msgspec

from clew.model.access import Grant, Right
from clew.store.database.contract import Row
from clew.store.log.log import Store


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A person, an agent or a service. `login` is the issuer and the subject of an OpenID provider."""

    name: str
    title: str = ""
    login: str = ""
    disabled: bool = False
    at: int = 0


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret. Empty `scopes` are all rights, an empty `project` is every project."""

    id: str
    principal: str
    hash: bytes
    scopes: str
    project: str
    label: str
    at: int
    until: int
    used_at: int
    given_by: str
    disabled: bool


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A grant, and who gave it when."""

    grant: Grant
    given_by: str
    at: int


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that acts. `rules` say which sessions are its own."""

    name: str
    project: str = ""
    runtime: str = ""
    model: str = ""
    instructions: str = ""
    tools: tuple[str, ...] = ()
    owner: str = ""
    place: str = ""
    rules: tuple["AgentRule", ...] = ()
    at: int = 0


class AgentRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session must be like to be an agent's: every field that is given has to fit, paths and names as globs."""

    runtime: str = ""
    path: str = ""
    name: str = ""


# Principals and teams -------------------------------------------------------------------------------------------------


def set_principal(store: Store, principal: Principal) -> None:
    """Add a principal, or change its title or its login; what is empty stays as it was."""
    with store.database.write() as tx:
        tx.run("principal_set", name=principal.name, title=principal.title, login=principal.login)


def disable(store: Store, name: str, *, disabled: bool = True) -> bool:
    with store.database.write() as tx:
        return bool(tx.run("principal_disable", name=name, disabled=int(disabled)))


def principals(store: Store) -> list[Principal]:
    with store.database.read() as tx:
        return [_principal(row) for row in tx.run("principals")]


def principal(store: Store, name: str) -> Principal | None:
    with store.database.read() as tx:
        rows = tx.run("principal_named", name=name)
        return _principal(rows[0]) if rows else None


def principal_of_login(store: Store, login: str) -> Principal | None:
    with store.database.read() as tx:
        rows = tx.run("principal_of_login", login=login)
        return _principal(rows[0]) if rows else None


def _principal(row: Row) -> Principal:
    name, title, login, disabled, at = row
    return Principal(name=name, title=title, login=login, disabled=bool(disabled), at=at)


def join(store: Store, team: str, principal: str) -> None:
    with store.database.write() as tx:
        tx.run("member_add", team=team, principal=principal)


def leave(store: Store, team: str, principal: str) -> bool:
    with store.database.write() as tx:
        return bool(tx.run("member_remove", team=team, principal=principal))


def members(store: Store) -> dict[str, list[str]]:
    """Every team with its members."""
    found: dict[str, list[str]] = {}
    with store.database.read() as tx:
        for team, principal in tx.run("members"):
            found.setdefault(team, []).append(principal)
    return found


def teams_of(store: Store, principal: str) -> list[str]:
    with store.database.read() as tx:
        return [row[0] for row in tx.run("teams_of", principal=principal)]


# Grants ---------------------------------------------------------------------------------------------------------------


def give(store: Store, grant: Grant, *, given_by: str) -> Grant:
    """Give rights; a grant to the same on the same replaces the one before.

    The project is made if it is not there, so that whoever was given it can be let into it from the first session on.
    """
    with store.database.write() as tx:
        if grant.project:
            store.project_in(tx, grant.project)
        [(id,)] = tx.run(
            "grant_set", who=grant.principal, rights=_words(grant.rights), project=grant.project, agent=grant.agent,
            session=grant.session, until=grant.until, given_by=given_by,
        )  # fmt: skip
    return msgspec.structs.replace(grant, id=id)


def grant(store: Store, id: int) -> Given | None:
    with store.database.read() as tx:
        rows = tx.run("grant_read", id=id)
        return _given(rows[0]) if rows else None


def take_back(store: Store, id: int) -> bool:
    with store.database.write() as tx:
        return bool(tx.run("grant_remove", id=id))


def grants(store: Store, *, who: str = "", project: str = "", session: str = "") -> list[Given]:
    only = {name: value for name, value in (("who", who), ("project", project), ("session", session)) if value}
    with store.database.read() as tx:
        return [_given(row) for row in tx.run("grants", **only)]


def grants_of(store: Store, principal: str) -> list[Grant]:
    """The grants to a principal and to its teams."""
    with store.database.read() as tx:
        return [_given(row).grant for row in tx.run("grants_of", principal=principal)]


def wall_of(store: Store, principal: str) -> list[int]:
    """The keys of the projects of the sessions that a principal opened or was given."""
    with store.database.read() as tx:
        return [row[0] for row in tx.run("wall_of", me=principal)]


def _given(row: Row) -> Given:
    id, who, rights, project, agent, session, until, given_by, at = row
    found = Grant(
        id=id, principal=who, rights=_rights(rights), project=project, agent=agent, session=session, until=until
    )
    return Given(grant=found, given_by=given_by, at=at)


def _words(rights: Iterable[Right]) -> str:
    return " ".join(sorted(map(str, rights)))


def _rights(words: str) -> frozenset[Right]:
    # A right that a newer program knows is nothing this one could rule on.
    return frozenset(right for right in Right if right in words.split())


# Keys -----------------------------------------------------------------------------------------------------------------


def add_key(store: Store, key: Key) -> int:
    with store.database.write() as tx:
        [(at,)] = tx.run(
            "key_add", id=key.id, principal=key.principal, hash=key.hash, scopes=key.scopes, project=key.project,
            label=key.label, until=key.until, given_by=key.given_by,
        )  # fmt: skip
    return int(at)


def key(store: Store, id: str) -> Key | None:
    with store.database.read() as tx:
        rows = tx.run("key_read", id=id)
        return _key(rows[0]) if rows else None


def keys(store: Store, principal: str = "") -> list[Key]:
    only = {"principal": principal} if principal else {}
    with store.database.read() as tx:
        return [_key(row) for row in tx.run("keys_of", **only)]


def key_used(store: Store, id: str, at: int) -> None:
    with store.database.write() as tx:
        tx.run("key_used", id=id, at=at)


def redeem_key(store: Store, id: str) -> bool:
    """Use up a key that is good for one login; whether this caller was the first."""
    with store.database.write() as tx:
        return bool(tx.run("key_redeem", id=id))


def end_key(store: Store, id: str, until: int) -> bool:
    """Let a key end at a time, unless it ends before."""
    with store.database.write() as tx:
        return bool(tx.run("key_end", id=id, until=until))


def _key(row: Row) -> Key:
    id, principal, hash, scopes, project, label, at, until, used_at, given_by, disabled = row
    return Key(
        id=id, principal=principal, hash=bytes(hash), scopes=scopes, project=project, label=label, at=at, until=until,
        used_at=used_at, given_by=given_by, disabled=bool(disabled),
    )  # fmt: skip


def scopes_of(key: Key) -> frozenset[Right] | None:
    return _rights(key.scopes) if key.scopes else None


# Agents and settings --------------------------------------------------------------------------------------------------


def set_agent(store: Store, agent: Agent) -> None:
    with store.database.write() as tx:
        tx.run(
            "agent_set", name=agent.name, project=agent.project, runtime=agent.runtime, model=agent.model,
            instructions=agent.instructions, tools=_json(agent.tools), owner=agent.owner, place=agent.place,
            rules=_json(agent.rules),
        )  # fmt: skip


def remove_agent(store: Store, name: str) -> bool:
    with store.database.write() as tx:
        return bool(tx.run("agent_remove", name=name))


def agents(store: Store) -> list[Agent]:
    with store.database.read() as tx:
        return [_agent(row) for row in tx.run("agents")]


def _agent(row: Row) -> Agent:
    name, project, runtime, model, instructions, tools, owner, place, rules, at = row
    return Agent(
        name=name, project=project, runtime=runtime, model=model, instructions=instructions,
        tools=msgspec.json.decode(tools, type=tuple[str, ...]), owner=owner, place=place,
        rules=msgspec.json.decode(rules, type=tuple[AgentRule, ...]), at=at,
    )  # fmt: skip


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def set_setting(store: Store, project: str, name: str, value: str) -> None:
    with store.database.write() as tx:
        tx.run("setting_set", project=project, name=name, value=value)


def settings(store: Store) -> dict[tuple[str, str], str]:
    """Every setting, by project and name."""
    with store.database.read() as tx:
        return {(project, name): value for project, name, value in tx.run("settings")}
