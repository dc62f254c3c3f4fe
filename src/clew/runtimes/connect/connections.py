"""How each agent program is connected: hooks that notify clew when a session grows, and clew's MCP server.

`clew connect` applies the edits of one `Connecting`, `clew disconnect` removes them. A path is relative to the
program's home; a path that begins with `~/` is below the person's home.

An entry of ours is recognised by its content: a hook's command ends with MARK, a server's environment has CLEW_RUNTIME
(which also names the runtime to the server), a file of ours begins with OWN_FILE. Everything else stays unchanged.
An empty `mcp` adds no server; a settings file that would then have no entry is returned empty. In the instructions for
the person, SERVER_COMMAND stands for the server's command.
"""

import json
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

from clew.model.errors import InvalidInput
from clew.runtimes.connect.settings_text import (
    BLANK,
    Path,
    decode,
    parse,
    toml_values,
    with_element,
    with_member,
    with_table,
    without,
    without_table,
)
from clew.runtimes.contract import Connecting, Edit

# Programs treat a failed hook (exit code 2) as a veto, and a missing interpreter or file could cause it: never fail.
MARK = "2>/dev/null || true # clew"
OWN_FILE = "// Written by clew connect, removed by clew disconnect."
TIMEOUT_S = 5
SERVER = "clew"


class Entry(NamedTuple):
    """An addition to a JSON file: a member, or an element of a list."""

    path: Path
    value: Any
    add: Callable[[str | None, Path, Any], str]


Entries = Callable[[list[str], list[str]], list[Entry]]
"""Makes the entries to add from the commands of the forwarder and of the server."""


# Entries --------------------------------------------------------------------------------------------------------------


def _is_hook(path: Path, value: Any) -> bool:
    """Whether the value is a hook of ours, or a group that holds only hooks of ours."""
    match value:
        case {"command": str(line)} | {"bash": str(line)}:
            return path[:1] == ("hooks",) and line.endswith(MARK)
        case {"hooks": [_, *_] as group}:
            return all(_is_hook(path, inner) for inner in group)
    return False


def _is_server(path: Path, value: Any) -> bool:
    match value:
        case {"env": {"CLEW_RUNTIME": _}} | {"environment": {"CLEW_RUNTIME": _}}:
            return path[:-1] in (("mcpServers",), ("mcp",), ("mcp_servers",)) and path[-1] == SERVER
    return False


def _is_ours(path: Path, value: Any) -> bool:
    return _is_hook(path, value) or _is_server(path, value)


def _hooks(runtime: str, entry: Callable[[str, str], dict[str, Any]], *events: str) -> Entries:
    """One hook for each event; `entry` makes it from the event and the command line."""

    def entries(hook: list[str], mcp: list[str]) -> list[Entry]:
        lines = {event: f"{shlex.join([*hook, event, runtime])} {MARK}" for event in events}
        return [Entry(("hooks", event), entry(event, line), with_element) for event, line in lines.items()]

    return entries


def _server(runtime: str, entry: Callable[[list[str], dict[str, str]], dict[str, Any]], key: str) -> Entries:
    """The server below `key`; `entry` makes it from its command and its environment."""

    def entries(hook: list[str], mcp: list[str]) -> list[Entry]:
        return [Entry((key, SERVER), entry(mcp, {"CLEW_RUNTIME": runtime}), with_member)] if mcp else []

    return entries


# Edits ----------------------------------------------------------------------------------------------------------------


def _json(path: str, *sources: Entries, version: int | None = None) -> Edit:
    """An edit of a JSON file. A file that the edit creates also gets the version that the program requires."""

    def add(data: bytes | None, hook: list[str], mcp: list[str]) -> bytes:
        text = None if data is None else _removed(decode(data))
        made = text is None
        for entry in (entry for source in sources for entry in source(hook, mcp)):
            text = entry.add(text, entry.path, entry.value)
        if made and version:
            text = with_member(text, ("version",), version)
        # The program may have reformatted the same settings: then nothing changes.
        return data if data and _same(decode(data), text) else (text or "").encode()

    def remove(data: bytes) -> bytes | None:
        left = _removed(decode(data))
        return None if left is None else left.encode()

    def _removed(text: str) -> str | None:
        if not text.strip(BLANK):
            return text
        left = without(text, _is_ours)
        # The version is ours only in a file that we created, where it follows the hooks.
        only_version = version and left and left != text and parse(left).value == {"version": version}
        return None if only_version and next(iter(parse(text).value)) == "hooks" else left

    return Edit(path=path, add=add, remove=remove)


def _same(before: str, after: str | None) -> bool:
    return bool(after and before.strip(BLANK) and after.strip(BLANK) and parse(before).value == parse(after).value)


def _toml(path: str, runtime: str) -> Edit:
    """An edit of Codex's config.toml: a table for the server."""
    table = ("mcp_servers", SERVER)

    def add(data: bytes | None, hook: list[str], mcp: list[str]) -> bytes:
        text = None if data is None else _removed(decode(data))
        if mcp:
            values = {"command": mcp[0], "args": mcp[1:], "env": {"CLEW_RUNTIME": runtime}}
            text = with_table(text, table, values)
        same = data and toml_values(decode(data)) == toml_values(text or "")
        return data if data and same else (text or "").encode()

    def remove(data: bytes) -> bytes | None:
        left = _removed(decode(data))
        return None if left is None else left.encode()

    def _removed(text: str) -> str | None:
        servers = toml_values(text).get(table[0])
        ours = isinstance(servers, dict) and _is_server(table, servers.get(SERVER))
        return without_table(text, table) if ours else text

    return Edit(path=path, add=add, remove=remove)


def _own_file(path: str, program: str) -> Edit:
    """A file that is entirely ours; HOOK in it becomes the forwarder's command."""

    def add(data: bytes | None, hook: list[str], mcp: list[str]) -> bytes:
        if data and not data.startswith(OWN_FILE.encode()):
            raise InvalidInput(f"{path} was not written by clew connect; move it away and retry")
        return f"{OWN_FILE}\n{program.replace('HOOK', json.dumps(hook))}".encode()

    def remove(data: bytes) -> bytes | None:
        return None if data.startswith(OWN_FILE.encode()) else data

    return Edit(path=path, add=add, remove=remove)


# What a hook and a server look like -----------------------------------------------------------------------------------


def _group(event: str, line: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": line, "timeout": TIMEOUT_S}]}


def _claude_group(event: str, line: str) -> dict[str, Any]:
    # The most frequent hooks run in the background, so that no prompt and no tool call waits for them.
    background = {"async": True} if event in ("UserPromptSubmit", "PostToolUse") else {}
    return {"hooks": [{"type": "command", "command": line, "timeout": TIMEOUT_S, **background}]}


def _gemini_group(event: str, line: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "name": "clew", "command": line, "timeout": TIMEOUT_S * 1000}]}


def _qwen_group(event: str, line: str) -> dict[str, Any]:
    # In milliseconds, which every version understands: the older ones know no seconds.
    return _gemini_group(event, line)


def _copilot_hook(event: str, line: str) -> dict[str, Any]:
    return {"type": "command", "bash": line, "timeoutSec": TIMEOUT_S}


def _cursor_hook(event: str, line: str) -> dict[str, Any]:
    return {"command": line, "timeout": TIMEOUT_S}


def _plain_server(mcp: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {"command": mcp[0], "args": mcp[1:], "env": env}


def _copilot_server(mcp: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {"type": "local", **_plain_server(mcp, env), "tools": ["*"]}


def _opencode_server(mcp: list[str], env: dict[str, str]) -> dict[str, Any]:
    return {"type": "local", "command": mcp, "environment": env, "enabled": True}


# Plugins for programs without command hooks ---------------------------------------------------------------------------

_FORWARD = """
import { spawn } from "node:child_process";

function forward(event, runtime, facts, stdout) {
  const [program, ...words] = HOOK;
  const stdio = ["pipe", stdout, "ignore"];
  const child = spawn(program, [...words, event, runtime], { stdio, detached: true });
  child.on("error", () => {});
  child.stdin.on("error", () => {});
  child.stdin.end(JSON.stringify(facts));
  return child;
}

// Tells clew that a session has grown; nobody waits for it.
function note(event, runtime, facts) {
  try {
    forward(event, runtime, facts, "ignore").unref();
  } catch {}
}

// What clew has to say to a new session: a text, or nothing within two seconds.
function brief(runtime, facts) {
  return new Promise((resolve) => {
    const late = setTimeout(resolve, 2000);
    let said = "";
    const end = () => {
      clearTimeout(late);
      try {
        resolve(JSON.parse(said).additionalContext);
      } catch {
        resolve();
      }
    };
    try {
      const child = forward("session_start", runtime, { ...facts, source: "startup" }, "pipe");
      child.stdout.on("data", (piece) => (said += piece));
      child.on("error", end);
      child.on("close", end);
    } catch {
      end();
    }
  });
}
"""

_OPENCODE_PLUGIN = (
    _FORWARD
    + """
export const Clew = async ({ client, directory }) => {
  const seen = new Set();
  const facts = (session_id) => ({ session_id, cwd: directory });
  return {
    event: async ({ event }) => {
      if (event.type === "session.idle") note("session.idle", "opencode", facts(event.properties.sessionID));
    },
    "tool.execute.after": async (input) => {
      note("tool.execute.after", "opencode", facts(input.sessionID));
    },
    "chat.message": async (input, output) => {
      const id = input.sessionID;
      note("chat.message", "opencode", facts(id));
      if (seen.has(id)) return;
      seen.add(id);
      try {
        // Not again in a resumed session or a fork, and not in a subagent's.
        const past = await client.session.messages({ path: { id } });
        const session = await client.session.get({ path: { id } });
        const first = output.parts[0];
        if (!past.data || past.data.length || !session.data || session.data.parentID || !first) return;
        const text = await brief("opencode", facts(id));
        if (!text) return;
        // Parts are kept in the order of their ids: this one goes before the prompt, and stays there for good.
        const part = { id: first.id.slice(0, -1), sessionID: id, messageID: first.messageID };
        output.parts.unshift({ ...part, type: "text", synthetic: true, text });
      } catch {}
    },
  };
};
"""
)

_PI_EXTENSION = (
    _FORWARD
    + """
export default function (pi) {
  const facts = (ctx) => ({
    session_id: ctx.sessionManager.getSessionId(),
    transcript_path: ctx.sessionManager.getSessionFile(),
    cwd: ctx.cwd,
  });
  for (const event of ["turn_end", "session_shutdown"]) {
    pi.on(event, async (_, ctx) => {
      try {
        // A session without a file leaves nothing to capture.
        if (ctx.sessionManager.getSessionFile()) note(event, "pi", facts(ctx));
      } catch {}
    });
  }
  pi.on("before_agent_start", async (_, ctx) => {
    try {
      if (ctx.sessionManager.getSessionFile()) note("before_agent_start", "pi", facts(ctx));
      if (ctx.sessionManager.getEntries().some((entry) => entry.type === "message")) return;
      const text = await brief("pi", facts(ctx));
      if (text) return { message: { customType: "clew", content: text, display: false } };
    } catch {}
  });
}
"""
)


# The programs ---------------------------------------------------------------------------------------------------------

CONNECTIONS: dict[str, Connecting] = {
    "claude-code": Connecting(
        edits=(
            _json(
                "settings.json",
                _hooks(
                    "claude-code",
                    _claude_group,
                    "SessionStart",
                    "UserPromptSubmit",
                    "PostToolUse",
                    "Stop",
                    "SessionEnd",
                ),
            ),
        ),
        # Its servers are in .claude.json, which every running Claude Code rewrites and which holds logins: leave it
        # alone.
        by_hand="Sessions that are already open run the hooks after a restart. Add clew's MCP server with:\n"
        "claude mcp add --scope user clew --env CLEW_RUNTIME=claude-code -- SERVER_COMMAND",
    ),
    "codex": Connecting(
        edits=(
            _json(
                "hooks.json",
                _hooks("codex", _group, "SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"),
            ),
            _toml("config.toml", "codex"),
        ),
        by_hand="Codex runs a hook only after you have trusted it, and skips it silently until then:\n"
        "start codex, look at clew's five hooks with /hooks, and trust them; again whenever clew connect changes them.",
        when_silent="Codex skips hooks that you have not trusted; start codex, look at clew's hooks with /hooks, and "
        "trust them",
    ),
    "gemini-cli": Connecting(
        edits=(
            _json(
                "settings.json",
                _hooks(
                    "gemini-cli", _gemini_group, "SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"
                ),
                _server("gemini-cli", _plain_server, "mcpServers"),
            ),
        ),
        by_hand="Restart Gemini CLI.",
    ),
    "copilot-cli": Connecting(
        edits=(
            _json(
                "hooks/clew.json",
                _hooks(
                    "copilot-cli",
                    _copilot_hook,
                    "sessionStart",
                    "userPromptSubmitted",
                    "postToolUse",
                    "agentStop",
                    "sessionEnd",
                ),
                version=1,
            ),
            _json("mcp-config.json", _server("copilot-cli", _copilot_server, "mcpServers")),
        ),
        by_hand="Restart Copilot CLI.",
    ),
    "cursor": Connecting(
        edits=(
            _json(
                "~/.cursor/hooks.json",
                # With -p, cursor-agent runs no stop hook, but it runs the one after an answer.
                _hooks(
                    "cursor",
                    _cursor_hook,
                    "sessionStart",
                    "beforeSubmitPrompt",
                    "postToolUse",
                    "afterAgentResponse",
                    "stop",
                    "sessionEnd",
                ),
                version=1,
            ),
            _json("~/.cursor/mcp.json", _server("cursor", _plain_server, "mcpServers")),
        ),
        by_hand="Restart Cursor.",
    ),
    "opencode": Connecting(
        edits=(
            _own_file("~/.config/opencode/plugin/clew.js", _OPENCODE_PLUGIN),
            _json("~/.config/opencode/opencode.json", _server("opencode", _opencode_server, "mcp")),
        ),
        by_hand="Restart OpenCode.",
    ),
    "qwen-code": Connecting(
        edits=(
            _json(
                "settings.json",
                _hooks(
                    "qwen-code", _qwen_group, "SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"
                ),
                _server("qwen-code", _plain_server, "mcpServers"),
            ),
        ),
        by_hand="Restart Qwen Code.",
    ),
    "pi": Connecting(
        # pi 1.x has MCP; an older pi reads no mcp.json.
        edits=(
            _own_file("extensions/clew.ts", _PI_EXTENSION),
            _json("mcp.json", _server("pi", _plain_server, "mcpServers")),
        ),
        by_hand="Restart pi, or type /reload.",
    ),
}
