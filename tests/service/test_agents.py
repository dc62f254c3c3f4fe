"""Agents: registered from any runtime, and found by the sessions that fit their rules; and what a project keeps."""

from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.local import Local
from clew.model.access import Grant, Right, owner_of_everything
from clew.model.errors import NotFound
from clew.service import Context, call
from clew.service.access.agent_rules import agent_for
from clew.store import Store
from clew.store.access.agents import Agent, AgentRule

OWNER = "person:owner"


@pytest.fixture
def owner(store: Store, tmp_path: Path) -> Context:
    return Context(
        store=store,
        unrestricted=store,
        principal=OWNER,
        grants=(owner_of_everything(OWNER),),
        machine="here",
        home=str(tmp_path / "home"),
    )


def agent(called: str, /, *, project: str = "", **rule: str) -> Agent:
    return Agent(name=called, project=project, rules=(AgentRule(**rule),) if rule else ())


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ([agent("a", runtime="codex")], "a"),
        ([agent("a", runtime="claude-code")], ""),
        ([agent("a", path="/work/shop")], "a"),
        ([agent("a", path="/work/sho")], ""),
        ([agent("a", path="/work/*/app")], "a"),
        ([agent("a", name="review*")], "a"),
        ([agent("a", name="plan*")], ""),
        ([agent("a", project="bank", runtime="codex")], ""),
        ([agent("wide", path="/work"), agent("narrow", path="/work/shop")], "narrow"),
        ([agent("none")], ""),
    ],
)
def test_a_session_finds_its_agent_by_rules(known: list[Agent], found: str) -> None:
    assert agent_for(known, project="shop", runtime="codex", path="/work/shop/app", name="reviewer") == found


def test_an_agent_is_registered_changed_and_removed(owner: Context) -> None:
    first = call(
        owner, "agent_register",
        {"name": "rev", "project": "shop", "runtime": "codex", "tools": ["Read"], "match_path": "/work/shop"},
    )  # fmt: skip
    assert (first.owner, first.rules) == (OWNER, (AgentRule(path="/work/shop"),))
    assert call(owner, "agent_register", {"name": "rev", "project": "shop", "model": "m"}).model == "m"
    lead = Context(
        store=owner.store, unrestricted=owner.store, principal="person:lea",
        grants=(Grant(principal="person:lea", rights=frozenset(Right), project="bank"),),
    )  # fmt: skip
    assert call(lead, "agents", {}) == []
    with pytest.raises(NotFound):
        call(lead, "agent_remove", {"name": "rev", "project": "bank"})
    assert call(lead, "agent_register", {"name": "rev", "project": "bank"}).project == "bank"
    call(lead, "agent_remove", {"name": "rev", "project": "bank"})
    call(owner, "agent_remove", {"name": "rev", "project": "shop"})
    assert call(owner, "agents", {}) == []


def test_a_captured_session_belongs_to_the_agent_it_fits(owner: Context, tmp_path: Path) -> None:
    call(owner, "agent_register", {"name": "fixer", "match_runtime": "claude-code", "match_path": "/work/shop"})
    file = tmp_path / "projects" / "-work-shop" / "0b7c7a1e-8a39-4c11-9f0a-0123456789ab.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(
        '{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"0b7c7a1e-8a39-4c11-9f0a-0123456789ab",'
        '"cwd":"/work/shop/app","timestamp":"2026-10-05T10:00:00.000Z","version":"2.0.0",'
        '"message":{"role":"user","content":"fix it"}}\n'
    )
    [report] = list(Plane(Local(owner)).capture([str(file)], runtime="claude-code"))
    assert call(owner, "show", {"session": report.session}).session.agent == "fixer"


def test_a_session_that_says_its_program_finds_its_agent(owner: Context) -> None:
    call(owner, "agent_register", {"name": "fixer", "match_runtime": "codex", "match_path": "/work/shop"})
    opened = call(owner, "open", {"metadata": {"runtime": "codex", "cwd": "/work/shop/app"}})
    assert opened.agent == "fixer"
    assert call(owner, "open", {"metadata": {"runtime": "codex", "cwd": "/elsewhere"}}).agent == ""
    assert call(owner, "open", {"metadata": {"runtime": "codex", "cwd": "/work/shop"}, "agent": "own"}).agent == "own"


def test_what_a_project_masks_is_not_in_the_log(owner: Context) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    call(owner, "setting_set", {"name": "secrets", "value": "mask", "project": "bank"})
    fresh = Context(store=owner.store, unrestricted=owner.store, principal=OWNER, grants=owner.grants, home=owner.home)

    def told(project: str) -> str:
        id = call(fresh, "open", {"project": project}).id
        draft = {"kind": "message_added", "role": "user", "text": f"the token is {secret}"}
        call(fresh, "append", {"session": id, "drafts": [draft]})
        body: Any = call(fresh, "events", {"session": id})[-1].body
        return str(body.text)

    assert secret in told("shop")
    assert told("bank").startswith("the token is [REDACTED:")
