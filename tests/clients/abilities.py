"""What each client has beside prompts and its own tools, and how it is made to use it without a person.

An MCP server over stdio, a slash command, a skill and a subagent are set up as a person would, by files. What a client
does not have is None here, and the docs say so.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from clients.model_server import LAST_ID
from clients.wire import Answer, Call

SERVER = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]
LOCAL = {"command": SERVER[0], "args": SERVER[1:]}
COMMAND = "Greet $ARGUMENTS in the stýle of the house, and say why."
SKILL = """\
---
name: weigh
description: How to weigh a thing.
---
To weigh a thing, put it on the scales — twice — and take the mean.
"""


class Abilities(NamedTuple):
    """`files` are below the home, `mcp` names a tool of the server, `command` is how a person gives a slash command.

    A command may need `command_options` instead of its name.
    `skill` loads the skill by a call, or is what a person types for it. `subagent` are the calls that have a subagent
    follow a prompt, `ends` what it says last.
    """

    files: dict[str, str]
    mcp: str | None = None
    command: str = ""
    command_options: tuple[str, ...] = ()
    skill: Call | str | None = None
    subagent: Callable[[str], tuple[Call, ...]] | None = None
    ends: Answer = Answer("Two wörds.")
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = MappingProxyType({})


def _json(value: Any) -> str:
    return json.dumps(value)


def _servers(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"desk": {**LOCAL, **more}}}


CODEX_SERVER = f"""
[mcp_servers.desk]
command = {json.dumps(SERVER[0])}
args = {json.dumps(SERVER[1:])}
required = true
"""

GENERAL = {"description": "scripted", "subagent_type": "general-purpose", "run_in_background": False}
HELPER = {"name": "helper", "description": "scripted", "agent_type": "task", "mode": "sync"}

ABILITIES = {
    "claude-code": Abilities(
        files={
            "desk.json": _json(_servers(alwaysLoad=True)),
            ".claude/commands/greet.md": COMMAND,
            ".claude/skills/weigh/SKILL.md": SKILL,
        },
        mcp="mcp__desk__look_up",
        command="/greet {}",
        skill=Call("Skill", {"skill": "weigh"}),
        subagent=lambda prompt: (Call("Agent", {**GENERAL, "prompt": prompt}),),
        options=("--mcp-config", "{home}/desk.json", "--strict-mcp-config"),
        variables={"ENABLE_TOOL_SEARCH": "false"},
    ),
    "codex": Abilities(
        files={"+.codex/config.toml": CODEX_SERVER, ".codex/skills/weigh/SKILL.md": SKILL},
        mcp="mcp__desk/look_up",
        skill="$weigh {}",
        subagent=lambda prompt: (
            Call("multi_agent_v1/spawn_agent", {"message": prompt}),
            Call("multi_agent_v1/wait_agent", {"targets": [LAST_ID]}),
        ),
    ),
    "opencode": Abilities(
        files={
            "+.config/opencode/opencode.json": _json(
                {
                    "mcp": {"desk": {"type": "local", "command": SERVER}},
                    # A subagent that asks for something without a screen waits for ever.
                    "permission": {"edit": "allow", "bash": "allow", "external_directory": "allow"},
                }
            ),
            ".config/opencode/command/greet.md": COMMAND,
            ".config/opencode/skill/weigh/SKILL.md": SKILL,
        },
        mcp="desk_look_up",
        command="{}",
        command_options=("--command", "greet"),
        skill=Call("skill", {"name": "weigh"}),
        subagent=lambda prompt: (
            Call("task", {"description": "scripted", "prompt": prompt, "subagent_type": "general"}),
        ),
    ),
    "gemini-cli": Abilities(
        files={
            "+.gemini/settings.json": _json(_servers(trust=True)),
            ".gemini/commands/greet.toml": f"prompt = {_json(COMMAND.replace('$ARGUMENTS', '{{args}}'))}\n",
            ".gemini/skills/weigh/SKILL.md": SKILL,
        },
        mcp="mcp_desk_look_up",
        command="/greet {}",
        skill=Call("activate_skill", {"name": "weigh"}),
        subagent=lambda prompt: (Call("invoke_agent", {"agent_name": "generalist", "prompt": prompt}),),
        ends=Answer("", (Call("complete_task", {"result": {"response": "Two wörds."}}),)),
    ),
    "copilot-cli": Abilities(
        files={
            ".copilot/mcp-config.json": _json(_servers(type="local", tools=["*"])),
            ".copilot/skills/weigh/SKILL.md": SKILL,
        },
        mcp="desk-look_up",
        skill=Call("skill", {"skill": "weigh"}),
        subagent=lambda prompt: (Call("task", {**HELPER, "prompt": prompt}),),
    ),
    "pi": Abilities(
        files={
            ".pi/agent/mcp.json": _json(_servers(exposure="direct")),
            ".pi/agent/prompts/greet.md": COMMAND,
            ".pi/agent/skills/weigh/SKILL.md": SKILL,
        },
        mcp="mcp__desk__look_up",
        command="/greet {}",
        skill="/skill:weigh {}",
    ),
    "qwen-code": Abilities(
        files={
            "+.qwen/settings.json": _json(_servers(trust=True)),
            ".qwen/commands/greet.md": COMMAND.replace("$ARGUMENTS", "{{args}}"),
            ".qwen/skills/weigh/SKILL.md": SKILL,
        },
        mcp="mcp__desk__look_up",
        command="/greet {}",
        skill=Call("skill", {"skill": "weigh"}),
        subagent=lambda prompt: (Call("agent", {**GENERAL, "prompt": prompt}),),
    ),
}
