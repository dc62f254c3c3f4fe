"""Agents and programs: what is registered, what each did and failed at, and which programs are connected."""

from typing import Any, NamedTuple

from clew.server.web.action import Offer
from clew.server.web.actions.team import AGENTS, EACH_AGENT
from clew.server.web.offered import offered, rights_somewhere
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.rendering import link
from clew.service.find.activity import Activity
from clew.store.access.agents import Agent

PERIODS = ("7 days", "30 days", "90 days", "this year")
NOTHING = Activity(name="", sessions=0, active=0, waiting=0, turns=0, calls=0, errors=0, last_at=0)


class AgentRow(NamedTuple):
    """An agent: as it is registered, if it is, what it did, and what can be done about it."""

    name: str
    registered: Agent | None
    did: Activity
    actions: list[Offer]


def agents(request: PageRequest) -> Page:
    """Agents, or with `part` the programs of this machine alone: to look for their files takes a moment."""
    if request.query.get("part") == "programs":
        return Page("agents/programs.html", {"programs": _programs(request), "did": _by_runtime(request, "")})
    when = request.query.get("when", "")
    when = when if when in PERIODS else ""
    did = {row.name: row for row in request.call("activity", by="agent", when=when)}
    registered: list[Agent] = request.call("agents")
    rights = rights_somewhere(request)
    rows = [
        AgentRow(agent.name, agent, did.get(agent.name, NOTHING),
                 offered(EACH_AGENT, request, rights, agent, {"name": agent.name, "project": agent.project}))
        for agent in registered
    ]  # fmt: skip
    known = {agent.name for agent in registered}
    rows += [AgentRow(name, None, done, []) for name, done in did.items() if name not in known]
    return Page(
        "agents/page.html",
        {
            "rows": sorted(rows, key=lambda row: (-row.did.last_at, row.name)), "runtimes": _by_runtime(request, when),
            "is_own": request.is_own, "actions": offered(AGENTS, request, rights),
            "periods": [("all time", "/agents", not when)]
            + [(name, link("/agents", when=name), when == name) for name in PERIODS],
        },
    )  # fmt: skip


def _by_runtime(request: PageRequest, when: str) -> dict[str, Activity]:
    found: list[Activity] = request.call("activity", by="runtime", when=when)
    return {row.name: row for row in found}


def _programs(request: PageRequest) -> list[Any]:
    """The programs of this machine: those that are installed or have sessions first."""
    if not request.is_own:
        return []
    found: list[Any] = request.call("runtimes")
    return sorted(found, key=lambda program: (not program.connected, not program.installed, not program.sessions,
                                              program.title.lower()))  # fmt: skip
