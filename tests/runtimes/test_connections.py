"""Connecting each program and undoing it: everything else in its settings stays."""

import fcntl
import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clew.hook import STARTS, command
from clew.model.errors import InvalidInput
from clew.runtimes import MODULES
from clew.runtimes.connect.connections import CONNECTIONS, MARK
from clew.runtimes.contract import Edit

HOOK = ["/opt/my tools/python", "-I", "/opt/hook.py"]
MCP = ["/opt/my tools/python", "-m", "clew", "mcp"]
EDITS = [(name, edit) for name, connecting in CONNECTIONS.items() for edit in connecting.edits]
JSONS = [(name, edit) for name, edit in EDITS if edit.path.endswith(".json")]
BEFORE = {
    ".json": [
        b"",
        b"{}",
        b'{\n  "theme": "dark"\n}\n',
        b'{\n  "hooks": {\n    "Stop": [\n      {"hooks": [{"type": "command", "command": "mine"}]}\n    ]\n  }\n}\n',
        b'{"hooks": {}, "mcpServers": {}, "mcp": {}, "version": 1}',
        b'{"version": 1}\n',
        b'// mine\n{"mcpServers": {"other": {"command": "x"}}, "mcp": {"other": {}},}\n',
    ],
    ".toml": [b"", b'model = "x"\n', b'[mcp_servers.other]\ncommand = "x"'],
    ".js": [],
    ".ts": [],
}
edits = pytest.mark.parametrize(("name", "edit"), EDITS, ids=[f"{name}:{edit.path}" for name, edit in EDITS])
jsons = pytest.mark.parametrize(("name", "edit"), JSONS, ids=[f"{name}:{edit.path}" for name, edit in JSONS])


def befores(edit: Edit) -> list[bytes]:
    return BEFORE[Path(edit.path).suffix]


def commands(value: object) -> list[str]:
    """Every command line of a hook anywhere in settings."""
    if isinstance(value, list):
        return [line for inner in value for line in commands(inner)]
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in ("command", "bash") if isinstance(value.get(key), str) and MARK in value[key]]
    return own + [line for inner in value.values() for line in commands(inner)]


def test_every_connection_is_one_of_a_known_program() -> None:
    assert set(CONNECTIONS) <= set(MODULES)


@edits
def test_disconnecting_a_file_that_connecting_made_removes_it(name: str, edit: Edit) -> None:
    assert edit.remove(edit.add(None, HOOK, MCP)) is None


@edits
def test_disconnecting_gives_back_the_settings_to_the_byte(name: str, edit: Edit) -> None:
    for before in befores(edit):
        assert edit.remove(edit.add(before, HOOK, MCP)) == before


@edits
def test_connecting_twice_is_connecting_once(name: str, edit: Edit) -> None:
    for before in [None, *befores(edit)]:
        once = edit.add(before, HOOK, MCP)
        assert edit.add(once, HOOK, MCP) == once


@edits
def test_connecting_again_from_another_place_replaces_the_commands(name: str, edit: Edit) -> None:
    for before in [None, *befores(edit)]:
        old = edit.add(before, ["/gone/python"], ["/gone/python", "mcp"])
        assert edit.add(old, HOOK, MCP) == edit.add(before, HOOK, MCP)


@edits
def test_disconnecting_what_is_not_connected_changes_nothing(name: str, edit: Edit) -> None:
    for before in befores(edit):
        assert edit.remove(before) == before


@jsons
def test_settings_that_say_the_same_in_another_layout_are_not_written_again(name: str, edit: Edit) -> None:
    again = json.dumps(json.loads(edit.add(b'{"theme": "dark"}', HOOK, MCP)), indent=4).encode()
    assert edit.add(again, HOOK, MCP) == again


@jsons
def test_malformed_settings_are_refused(name: str, edit: Edit) -> None:
    for broken in (b"{", b"[]", b'{"hooks": 1, "mcpServers": 1, "mcp": 1}', b'{"a": "\xff"}'):
        with pytest.raises(InvalidInput):
            edit.add(broken, HOOK, MCP)


@edits
def test_without_a_server_there_is_none_in_the_settings(name: str, edit: Edit) -> None:
    assert b"CLEW_RUNTIME" not in edit.add(None, HOOK, [])
    for before in befores(edit):
        assert edit.remove(edit.add(before, HOOK, [])) == before


@pytest.mark.parametrize("name", [name for name in CONNECTIONS if name not in ("claude-code", "pi")])
def test_the_server_is_there_with_its_command_and_whose_it_is(name: str) -> None:
    edit = CONNECTIONS[name].edits[-1]
    data = edit.add(None, HOOK, MCP)
    settings = tomllib.loads(data.decode()) if edit.path.endswith(".toml") else json.loads(data)
    servers = next(settings[key] for key in ("mcpServers", "mcp", "mcp_servers") if key in settings)
    entry = servers["clew"]
    line = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    assert line == MCP
    assert (entry.get("env") or entry.get("environment")) == {"CLEW_RUNTIME": name}


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("gemini-cli", b'{"mcpServers": {"clew": {"command": "mine"}}}'),
        ("opencode", b'{"mcp": {"clew": {"type": "remote"}}}'),
        ("codex", b'[mcp_servers.clew]\ncommand = "mine"\n'),
    ],
)
def test_a_server_of_that_name_that_somebody_else_wrote_is_neither_replaced_nor_removed(
    name: str, before: bytes
) -> None:
    edit = CONNECTIONS[name].edits[-1]
    with pytest.raises(InvalidInput, match="clew is in the settings already"):
        edit.add(before, HOOK, MCP)
    assert edit.remove(before) == before


@pytest.mark.parametrize("path", ["~/.config/opencode/plugin/clew.js", "extensions/clew.ts"])
def test_a_plugin_of_that_name_that_somebody_else_wrote_is_neither_replaced_nor_removed(path: str) -> None:
    edit = next(edit for _, edit in EDITS if edit.path == path)
    with pytest.raises(InvalidInput, match="not written by clew connect"):
        edit.add(b"export default 1", HOOK, MCP)
    assert edit.remove(b"export default 1") == b"export default 1"


def test_a_hook_of_ours_inside_somebody_elses_group_is_taken_out_alone() -> None:
    edit = CONNECTIONS["claude-code"].edits[0]
    settings = json.loads(edit.add(None, HOOK, MCP))
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "mine"})
    left = edit.remove(json.dumps(settings).encode())
    assert left is not None
    assert json.loads(left)["hooks"]["Stop"] == [{"hooks": [{"type": "command", "command": "mine"}]}]
    assert b"clew" not in left


HOOKED = {name for name, edit in JSONS if commands(json.loads(edit.add(None, HOOK, MCP)))}


@pytest.mark.parametrize("name", sorted(HOOKED))
def test_each_hook_calls_the_forwarder_with_its_event_and_the_program(name: str) -> None:
    edit = CONNECTIONS[name].edits[0]
    hooks = json.loads(edit.add(None, HOOK, MCP))["hooks"]
    assert STARTS[name][0] in hooks
    for event, entries in hooks.items():
        (line,) = commands(entries)
        words = shlex.split(line.removesuffix(MARK))
        assert words == [*HOOK, event, name]


def test_every_program_that_the_forwarder_knows_can_be_connected() -> None:
    assert HOOKED | {"opencode", "pi"} == set(STARTS)
    assert set(STARTS) == set(CONNECTIONS)


def test_a_hook_whose_interpreter_or_file_is_gone_fails_nothing(tmp_path: Path) -> None:
    """Python exits with 2 for a missing file, and 2 is how a hook forbids an agent to go on."""
    edit = CONNECTIONS["claude-code"].edits[0]
    for hook in ([sys.executable, str(tmp_path / "gone.py")], [str(tmp_path / "gone")]):
        (line,) = commands(json.loads(edit.add(None, hook, MCP))["hooks"]["Stop"])
        done = subprocess.run(["sh", "-c", line], input=b"{}", capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_command_of_the_forwarder_takes_no_module_from_the_directory_it_runs_in(tmp_path: Path) -> None:
    """An agent works in directories of strangers: a `json.py` there must not run."""
    for module in ("fcntl", "select", "hashlib", "_json", "os", "clew"):
        (tmp_path / f"{module}.py").write_text("open('ran', 'w')")
    home = tmp_path / "home"
    (home / "spool").mkdir(parents=True)
    line = [*command(), "--home", str(home), "Stop", "codex"]
    with (home / "spool/lock").open("w") as lock:
        # As a running capture would: none is started.
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(line, cwd=tmp_path, input=b"{}", env={"PYTHONPATH": str(tmp_path)}, check=True)
    assert list(home.glob("spool/*.json"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", sorted(CONNECTIONS))
def test_what_is_left_to_do_by_hand_is_said(name: str) -> None:
    assert CONNECTIONS[name].by_hand
