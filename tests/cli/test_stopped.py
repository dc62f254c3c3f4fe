"""Ctrl-C and a full disk: one plain line, an exit code that says so, and a store that goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crash.test_disk_full import small_disk
from support import claude

from .conftest import Clew

# More than a pipe holds of their reports: a capture cannot end before its output is read.
FILES = 601


def write_sessions(person: Path, files: int, words: int = 1) -> None:
    folder = person / ".claude/projects/-home-me-app"
    folder.mkdir(parents=True)
    for number in range(files):
        session = f"{number:08d}-2222-4333-8444-555555555555"
        prompt = claude.says(f"p{number}", None, f"prompt {number} " * words, sessionId=session)
        (folder / f"{session}.jsonl").write_bytes(claude.lines([prompt]))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    return {
        **kept, "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CLEW_HOME": str(tmp_path / "home"),
        "CLEW_PRINCIPAL": "person:ada",
    }  # fmt: skip


def _hear_interrupts() -> None:
    """Whoever runs the tests in the background ignores interrupts, and so would every child."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("module", ["clew.capture_cache", "clew.cli.run", "msgspec", "clew.app"])
def test_an_interrupt_while_clew_loads_leaves_one_plain_line(module: str, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "clew", "capture"]
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=_hear_interrupts,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.split("|")[-1].strip() == module:
                break
        process.send_signal(signal.SIGINT)
        said = [line for line in process.stderr if line.strip() and not line.startswith("import time:")]
    assert (process.returncode, said) == (130, ["stopped\n"])


def test_an_interrupted_capture_says_so_and_the_next_one_goes_on(
    clew: Clew, tmp_path: Path, environment: dict[str, str]
) -> None:
    write_sessions(tmp_path, FILES)
    with subprocess.Popen(
        [sys.executable, "-m", "clew", "capture", "--json"], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=_hear_interrupts,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error.split()) == (130, ["stopped"])
    *_, total = clew("capture", "--json", HOME=str(tmp_path), CLAUDE_CONFIG_DIR="").objects
    assert (total["found"], total["failed"], total["events"]) == (FILES, 0, FILES)
    assert 0 < total["same"] < FILES, "nothing of the first capture was left, or it was not interrupted"
    assert clew("verify").code == 0


def test_a_full_disk_is_said_once_and_the_capture_goes_on_when_there_is_room(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    write_sessions(tmp_path, 400, words=2500)
    disk = tmp_path / "disk"
    disk.mkdir()
    environment["CLEW_HOME"] = str(disk / "home")
    clew = f"{sys.executable} -m clew"
    script = f"""
    head -c 38000000 /dev/zero > {disk}/other
    {clew} capture >/dev/null; echo "code $?"
    rm {disk}/other
    {clew} capture --json | tail -n 1
    {clew} verify; echo "verified $?"
    """
    done = subprocess.run(
        [*small_disk(disk, "40m"), "sh", "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "no room left on the disk" in done.stderr
    assert "code 7" in done.stdout
    assert '"failed":0' in done.stdout.replace(" ", "")
    assert "verified 0" in done.stdout
