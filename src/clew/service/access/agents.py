"""Agents: definitions that act, and the rules that assign sessions to them."""

from typing import Annotated

import msgspec

from clew.model.access import Right, Target
from clew.model.errors import NotFound
from clew.model.ids import check_name
from clew.service.access.principals import principal_named
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.access.agents import Agent, AgentRule, list_agents, remove_agent, set_agent

AGENTS = Group("agent", "Agents and which sessions are theirs.")


@operation(right=Right.ADMINISTER, route="PUT /agents", audited=True, group=AGENTS)
def agent_register(
    context: Context,
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100, description="The agent.")],
    *,
    project: Annotated[str, msgspec.Meta(description="The project it belongs to. [default: all]")] = "",
    runtime: Annotated[str, msgspec.Meta(max_length=100, description="The program that drives it.")] = "",
    model: Annotated[str, msgspec.Meta(max_length=200, description="The model it uses.")] = "",
    instructions: Annotated[str, msgspec.Meta(max_length=100_000, description="Its instructions.")] = "",
    tools: Annotated[list[str], msgspec.Meta(max_length=500, description="The tools it has.")] | None = None,
    owner: Annotated[str, msgspec.Meta(description="Who answers for it. [default: you]")] = "",
    place: Annotated[str, msgspec.Meta(max_length=500, description="Where it runs.")] = "",
    match_runtime: Annotated[
        str, msgspec.Meta(max_length=100, description="Sessions of this program are its own,")
    ] = "",
    match_path: Annotated[str, msgspec.Meta(max_length=1000, description="if they work below this path (globs),")] = "",
    match_name: Annotated[str, msgspec.Meta(max_length=200, description="and the program calls it so (globs).")] = "",
) -> Agent:
    """Register an agent of any runtime, or change what is known of it."""
    for text in (name, project, runtime, model, instructions, place, *(tools or ())):
        check_name(text, "what an agent is", longest=100_000)
    rule = AgentRule(runtime=match_runtime, path=match_path, name=match_name)
    agent = Agent(
        name=name, project=project, runtime=runtime, model=model, instructions=instructions, tools=tuple(tools or ()),
        owner=principal_named(owner) if owner else context.principal, place=place,
        rules=() if rule == AgentRule() else (rule,),
    )  # fmt: skip
    set_agent(context.store, agent)
    return _find(context, name, project) or agent


@operation(right=Right.SEE, route="GET /agents", filters_by_reach=True)
def agents(context: Context) -> list[Agent]:
    """List the agents of all projects you may see."""
    known = list_agents(context.store)
    if not context.reach(Right.SEE):
        return known
    return [
        agent
        for agent in known
        if context.caller.rule(Right.SEE, Target(project=agent.project, agent=agent.name)).allowed
    ]


@operation(right=Right.ADMINISTER, route="DELETE /agents", audited=True, group=AGENTS,
           warning="This removes what is registered of the agent {name}; its sessions stay")  # fmt: skip
def agent_remove(context: Context, name: str, *, project: str = "") -> None:
    """Remove an agent from the registry; its sessions stay."""
    if not remove_agent(context.store, project, name):
        where = f"project {project}" if project else "no project"
        raise NotFound(f"no agent {name[:100]!r} of {where}", missing="agent")


def _find(context: Context, name: str, project: str) -> Agent | None:
    known = list_agents(context.store)
    return next((agent for agent in known if (agent.name, agent.project) == (name, project)), None)
