"""A progress bar: only for a person at a terminal, and only for what takes longer than a second."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.terminal import Terminal

from .conftest import Clew

SHOWN = "from clew.cli.progress import progress\nwith progress('x') as on_progress: print('shown', bool(on_progress))"


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_") and name != "NO_COLOR"}
    return {**kept, "CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "TERM": "xterm"}


def test_what_takes_long_has_a_bar_on_a_terminal(clew: Clew, home: Path, environment: dict[str, str]) -> None:
    assert clew("open").code == 0
    other = sqlite3.connect(home / "clew.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    terminal = Terminal([sys.executable, "-m", "clew", "open", "--title", "second"], environment)
    terminal.expect("open ━")
    other.execute("ROLLBACK")
    other.close()
    assert terminal.end() == 0
    assert "second" in clew("sessions").out


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "shown True"), ({"NO_COLOR": "1"}, "shown False"), ({"TERM": "dumb"}, "shown False")],
)
def test_a_bar_needs_a_terminal_that_can_show_it(
    environment: dict[str, str], variables: dict[str, str], expected: str
) -> None:
    terminal = Terminal([sys.executable, "-c", SHOWN], {**environment, **variables})
    terminal.expect(expected)
    assert terminal.end() == 0


def test_there_is_no_bar_without_a_terminal(environment: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", SHOWN], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("shown False\n", "")
