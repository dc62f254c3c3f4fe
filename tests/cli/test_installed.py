"""What `clew runtimes` and `clew doctor` say of programs: a version that nobody has proven, hooks that never run."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from clew.hook import command
from clew.runtimes import runtime
from clew.service.capture.installed import is_newer, version_at
from cli.conftest import Clew


def package(folder: Path, version: str, binary: str) -> Path:
    """A program as npm installs it: a link to a file below the folder with its manifest."""
    file = folder / "node_modules/@openai/codex/bin/codex.js"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    (file.parents[1] / "package.json").write_text(f'{{"version": "{version}", "bin": {{"{binary}": "bin/codex.js"}}}}')
    link = folder / "bin" / binary
    link.parent.mkdir()
    link.symlink_to(file)
    return link


def known(clew: Clew, home: Path, path: str) -> dict[str, Any]:
    found = clew("runtimes", "--json", HOME=str(home), PATH=path, CODEX_HOME="").objects
    return next(program for program in found if program["name"] == "codex")


def test_a_program_that_is_newer_than_the_newest_proven_one_is_named(clew: Clew, tmp_path: Path) -> None:
    proven = runtime("codex").proven
    assert proven is not None
    package(tmp_path, "999.1.0", "codex")
    path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
    program = known(clew, tmp_path, path)
    assert (program["version"], program["is_newer"], program["proven"]) == ("999.1.0", True, proven.version)
    advice = f"Codex CLI 999.1.0 is newer than {proven.version}, the newest that was proven ({proven.on})"
    shown = clew("runtimes", HOME=str(tmp_path), PATH=path)
    assert advice in shown.err
    assert "999.1.0" in shown.out
    doctor = clew("doctor", "--json", HOME=str(tmp_path), PATH=path)
    assert [line["ok"] for line in doctor.objects if advice in line["found"]] == [True]


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("share/claude/versions/2.1.328", "2.1.328"),
        ("Cellar/codex/0.169.0/bin/codex", "0.169.0"),
        ("bin/codex", ""),
    ],
)
def test_the_version_is_in_the_path_of_a_program_without_a_package(tmp_path: Path, path: str, version: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).touch()
    assert version_at(str(tmp_path / path), "codex") == version


def test_versions_are_compared_by_their_numbers() -> None:
    assert is_newer("0.169.10", "0.169.9")
    assert is_newer("1.0", "0.169.9")
    assert not is_newer("0.169.9-alpha.2", "0.169.9")
    assert not is_newer("", "0.169.9")
    # A session file can hold anything; Python refuses to read a number of so many digits.
    assert is_newer("9" * 5000, "0.169.9")


def test_a_connected_program_whose_hooks_never_run_is_found(clew: Clew, home: Path, tmp_path: Path) -> None:
    """Codex skips hooks that nobody has trusted, and says nothing."""
    session = tmp_path / ".codex/sessions/2026/11/19/rollout-2026-11-19T10-00-00-x.jsonl"
    session.parent.mkdir(parents=True)
    session.write_text("{}\n")
    assert clew("connect", "codex", "--yes", HOME=str(tmp_path), CODEX_HOME="").code == 0
    # A session of before, or of a moment ago, proves nothing.
    assert not known(clew, tmp_path, os.environ["PATH"])["hooks_silent"]
    later = time.time() + 3600
    os.utime(session, (later, later))
    program = known(clew, tmp_path, os.environ["PATH"])
    assert program["hooks_silent"]
    assert "never run: Codex skips hooks that you have not trusted" in program["advice"][0]
    doctor = clew("doctor", "--json", HOME=str(tmp_path), CODEX_HOME="")
    assert [line["ok"] for line in doctor.objects if line["what"] == "program"] == [False]
    subprocess.run([*command(), "--home", str(home), "SessionStart", "codex"], input=b"{}", check=True)
    assert not known(clew, tmp_path, os.environ["PATH"])["hooks_silent"]
