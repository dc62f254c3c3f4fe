"""The agent that a session belongs to, by the rules of the agents."""

from fnmatch import fnmatchcase

from clew.store.access.agents import Agent, AgentRule


def agent_for(agents: list[Agent], *, project: str, runtime: str, path: str, name: str = "") -> str:
    """The agent with a rule that a session matches, of several the one with the longest path; empty without any."""
    matches = [
        (len(rule.path), agent.name)
        for agent in agents
        if agent.project in ("", project)
        for rule in agent.rules
        if _matches(rule, runtime, path, name)
    ]
    return max(matches)[1] if matches else ""


def _matches(rule: AgentRule, runtime: str, path: str, name: str) -> bool:
    folder = rule.path.rstrip("/")
    return (
        (not rule.runtime or rule.runtime == runtime)
        and (not folder or path == folder or path.startswith(f"{folder}/") or fnmatchcase(path, folder))
        and (not rule.name or fnmatchcase(name, rule.name))
    )
