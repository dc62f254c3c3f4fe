"""The command line, run as people run it: another process, a home of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Run:
    """What one run of `clew` gave."""

    def __init__(self, done: "subprocess.CompletedProcess[str]") -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Standard output as one JSON object per line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        """Standard error as the JSON object that --json gives."""
        found: dict[str, Any] = json.loads(self.err)
        return found


Clew = Callable[..., Run]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def clew(home: Path) -> Clew:
    """Runs `clew` with these arguments on a store of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    environment = {**kept, "CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "NO_COLOR": "1", "TZ": "UTC"}

    def run(*arguments: str, stdin: str = "", **more: str) -> Run:
        return Run(
            subprocess.run(
                [sys.executable, "-m", "clew", *arguments],
                input=stdin,
                env={**environment, **more},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        )

    return run


@pytest.fixture
def session(clew: Clew) -> str:
    """The id of a session that was just opened."""
    opened = clew("open", "--title", "Fix the lock", "--agent", "reviewer", "--json")
    assert opened.code == 0, opened.err
    return str(opened.objects[0]["id"])
