"""The files of a session are kept by the hooks that `clew connect` writes, run as the program runs them."""

import fcntl
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Clew
from support import claude
from support.children import PATIENCE_SECONDS


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    (folder / ".git").mkdir(parents=True)
    (folder / "a").write_text("by a person\n")
    return folder


def test_hooks_keep_the_files_before_and_after_a_call_and_blame_names_it(
    clew: Clew, home: Path, tmp_path: Path, repository: Path
) -> None:
    person = tmp_path / "person"
    (person / ".claude").mkdir(parents=True)
    mine = {"HOME": str(person), "CLAUDE_CONFIG_DIR": ""}
    assert clew("setting", "set", "workspaces", "on", **mine).code == 0
    assert clew("connect", "claude-code", "--yes", **mine).code == 0
    hooks = json.loads((person / ".claude/settings.json").read_text())["hooks"]
    records: list[dict[str, Any]] = []
    transcript = claude.transcript(person)

    def hook(event: str, *more: dict[str, Any]) -> None:
        """The program writes records and runs its hook; returns when what that started has ended."""
        records.extend(more)
        transcript.write_bytes(claude.lines(records))
        [group] = hooks[event]
        facts = {"session_id": claude.SESSION, "transcript_path": str(transcript), "cwd": str(repository)}
        ran = subprocess.run(
            ["sh", "-c", group["hooks"][0]["command"]], input=json.dumps(facts), text=True, capture_output=True,
            env={**os.environ, **mine}, timeout=PATIENCE_SECONDS, check=True,
        )  # fmt: skip
        assert (ran.stdout, ran.stderr) == ("", "")
        with (home / "spool/lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def now() -> dict[str, str]:
        return {"timestamp": datetime.now(UTC).isoformat(), "cwd": str(repository)}

    hook("UserPromptSubmit", claude.says("u1", None, "change it", **now()))
    made = claude.answers("a1", "u1", claude.calls("t1", "make"), **now())
    (repository / "a").write_text("by a person\nby make\n")
    hook("PostToolUse", made, claude.returns("r1", "a1", "t1", "done") | now())
    [blamed] = clew("blame", str(repository / "a"), "--json", **mine).objects
    assert [(part["why"], part["call"], part["tool"], part["runtime"]) for part in blamed["ranges"]] == [
        ("before", "", "", ""), ("only", "t1", "Bash", "claude-code"),
    ]  # fmt: skip
