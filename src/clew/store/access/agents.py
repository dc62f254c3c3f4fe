"""Registered agents, and the rules that assign sessions to them."""

import msgspec

from clew.store.database.contract import Row
from clew.store.store import Store


class AgentRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Assigns a session to an agent if every field that is set matches; `path` and `name` are globs."""

    runtime: str = ""
    path: str = ""
    name: str = ""


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
    rules: tuple[AgentRule, ...] = ()
    at: int = 0


def set_agent(store: Store, agent: Agent) -> None:
    """Register an agent, or replace the one of this name in its project."""
    with store.database.write() as tx:
        tx.run(
            "agent_set", name=agent.name, project=agent.project, runtime=agent.runtime, model=agent.model,
            instructions=agent.instructions, tools=_json(agent.tools), owner=agent.owner, place=agent.place,
            rules=_json(agent.rules),
        )  # fmt: skip


def remove_agent(store: Store, project: str, name: str) -> bool:
    """Remove an agent; False if the project has none of this name."""
    with store.database.write() as tx:
        return bool(tx.run("agent_remove", project=project, name=name))


def list_agents(store: Store) -> list[Agent]:
    with store.database.read() as tx:
        return [_agent_from(row) for row in tx.run("agents")]


def _agent_from(row: Row) -> Agent:
    name, project, runtime, model, instructions, tools, owner, place, rules, at = row
    return Agent(
        name=name, project=project, runtime=runtime, model=model, instructions=instructions,
        tools=msgspec.json.decode(tools, type=tuple[str, ...]), owner=owner, place=place,
        rules=msgspec.json.decode(rules, type=tuple[AgentRule, ...]), at=at,
    )  # fmt: skip


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
