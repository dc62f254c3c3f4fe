"""The first minutes: `clew up` captures, tells, stays and ends; the service is a file of the person's own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import claude
from support.terminal import Terminal

from .conftest import Clew

ROOT = Path(__file__).resolve().parents[2]
DAY = 86_400


@pytest.fixture
def mine(tmp_path: Path, home: Path) -> dict[str, str]:
    """A person with one session of Claude Code, and the variables that say so."""
    transcript = tmp_path / ".claude/projects/-home-me-app" / f"{claude.SESSION}.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(claude.lines(claude.story()))
    at = time.time() - 28 * DAY
    os.utime(transcript, (at, at))
    for folder in ("config", "data"):
        (tmp_path / folder).mkdir()
    return {
        "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "CLEW_HOME": str(home),
        "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data"), "DISPLAY": "",
        "WAYLAND_DISPLAY": "",
    }  # fmt: skip


@pytest.fixture
def stopped(clew: Clew, mine: dict[str, str]) -> Iterator[None]:
    yield
    clew("down", **mine)


def test_up_captures_tells_stays_and_down_ends_it(clew: Clew, mine: dict[str, str], stopped: None, home: Path) -> None:
    first = clew("up", "--background", **mine)
    assert first.code == 0, first.err
    assert "claude-code   1       1" in first.out
    assert "1 session: claude-code 1" in first.err
    assert "Claude Code deletes transcripts after 30 days (cleanupPeriodDays): 1 of 1 go within 7 days" in first.err
    assert "stop it with: clew down" in first.out
    url = json.loads((home / "up.json").read_bytes())["url"]
    assert f"clew is up at {url}, in the background" in first.out
    with urllib.request.urlopen(f"{url}/healthz", timeout=30) as answer:  # noqa: S310  # our own address
        assert answer.status == 200
    for words in (("up", "--background"), ("up",)):
        again = clew(*words, **mine)
        assert (again.code, again.out.splitlines()[0]) == (0, f"clew runs already at {url}")
    assert clew("service", "status", "--json", **mine).objects[0]["url"] == url
    assert clew("down", **mine).out == f"clew at {url} is stopped\n"
    assert clew("down", **mine).out == "clew does not run\n"
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/healthz", timeout=30)  # noqa: S310


def test_one_that_was_killed_does_not_run(clew: Clew, mine: dict[str, str], stopped: None, home: Path) -> None:
    clew("up", "--background", "--no-capture", **mine)
    os.kill(json.loads((home / "up.json").read_bytes())["pid"], signal.SIGKILL)
    assert clew("down", **mine).out in ("clew does not run\n",)
    assert clew("up", "--background", "--no-capture", **mine).out.startswith("clew is up at ")


def test_a_port_in_use_is_named_with_the_option(clew: Clew, mine: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = clew("up", "--background", "--no-capture", "--port", port, **mine)
    assert run.code == 6
    assert f"cannot listen on 127.0.0.1 port {port}" in run.err
    assert "--port" in run.err


def test_a_terminal_is_asked_once_what_to_connect(
    mine: dict[str, str], clew: Clew, stopped: None, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "claude").write_text("#!/bin/sh\n")
    (programs / "claude").chmod(0o755)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}, **mine,
        "PATH": f"{programs}:/usr/bin:/bin", "CLEW_PRINCIPAL": "person:ada", "NO_COLOR": "1", "CLEW_PAGER": "",
    }  # fmt: skip
    words = [sys.executable, "-m", "clew", "up", "--background"]
    with Terminal(words, env) as terminal:
        terminal.expect("1 session: claude-code 1")
        terminal.expect("Connect Claude Code, so that its sessions are captured as they grow? [y/N]")
        terminal.send("y\n")
        terminal.expect('+  "hooks"')
        terminal.expect("Start clew whenever you log in? [y/N]")
        terminal.send("n\n")
        terminal.expect("stop it with: clew down")
        assert terminal.end() == 0
    assert "hooks" in json.loads((tmp_path / ".claude/settings.json").read_bytes())
    assert clew("down", **mine).code == 0
    with Terminal(words, env) as terminal:
        assert "[y/N]" not in terminal.expect("stop it with: clew down")
        assert terminal.end() == 0


def test_the_service_is_a_file_of_the_persons_own(clew: Clew, mine: dict[str, str], tmp_path: Path, home: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    log = tmp_path / "asked"
    (programs / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    (programs / "systemctl").chmod(0o755)
    env = {**mine, "PATH": f"{programs}:/usr/bin:/bin"}
    assert clew("service", "install", **env).code == 2
    assert not (tmp_path / "config/systemd").exists()
    assert "not installed" in clew("service", "status", **env).out
    assert clew("service", "install", "--yes", **env).out == "clew starts whenever you log in\n"
    unit = (tmp_path / "config/systemd/user/clew.service").read_text()
    assert f'"{sys.executable}" "-P" "-m" "clew" "--home" "{home}" "up" "--no-browser"' in unit
    [status] = clew("service", "status", "--json", **env).objects
    assert (status["installed"], status["current"], status["running"]) == (True, True, False)
    assert clew("service", "remove", "--yes", **env).out == "the service is removed\n"
    assert not (tmp_path / "config/systemd/user/clew.service").exists()
    assert log.read_text().splitlines() == [
        "--user daemon-reload", "--user enable --now clew.service", "--user disable --now clew.service",
        "--user daemon-reload",
    ]  # fmt: skip
    (programs / "systemctl").write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
    assert "from the next login on (no bus)" in clew("service", "install", "--yes", **env).out


def test_make_up_and_down_are_up_and_down() -> None:
    shown = subprocess.run(["make", "-n", "up"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "clew up --background" in shown
    shown = subprocess.run(["make", "-n", "down"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "clew down" in shown
