"""What goes wrong around clew is said once, in a line that names what was found and what to do."""

import sqlite3
import time
from pathlib import Path

import pytest

from clew import app, doctor
from clew.cli import times
from clew.runtimes.connect.connections import CONNECTIONS
from support import claude

from .conftest import Clew, Run

DAY_US = 86_400_000_000
NOBODY_LISTENS = "postgresql://127.0.0.1:1/clew"


def finding(run: Run, what: str) -> list[tuple[bool, str, str]]:
    return [(line["ok"], line["found"], line["advice"]) for line in run.objects if line["what"] == what]


@pytest.mark.parametrize(
    ("typed", "near"),
    [("shw", "show"), ("ersae", "erase"), ("sesions", "sessions"), ("captur", "capture"), ("lst", "ls")],
)
def test_a_misspelt_command_is_answered_with_the_nearest(clew: Clew, typed: str, near: str) -> None:
    run = clew(typed)
    assert run.code == 2
    assert f"No such command '{typed}'." in run.err
    assert f"'{near}'" in run.err.partition("id you mean")[2]


def test_what_programs_start_is_suggested_to_nobody(clew: Clew) -> None:
    assert "id you mean" not in clew("folow").err


def test_help_is_a_command_too(clew: Clew) -> None:
    assert clew("help").out == clew("--help").out
    assert clew("help", "access", "explain").out == clew("access", "explain", "--help").out


@pytest.mark.parametrize("words", [["sessions"], ["capture"], ["up", "--background"], ["worker", "--once"], []])
def test_a_database_that_cannot_be_reached_is_said_once(clew: Clew, tmp_path: Path, words: list[str]) -> None:
    run = clew(*words, CLEW_STORE=NOBODY_LISTENS, HOME=str(tmp_path))
    assert run.code == 6
    [line] = run.err.splitlines()
    assert line.startswith(f"error: cannot reach PostgreSQL at {NOBODY_LISTENS} ")
    assert line.endswith("; check that the server runs and that the store's URL names it")


def test_doctor_says_why_a_store_is_unavailable_and_nothing_that_helps_nobody(clew: Clew) -> None:
    [(ok, found, advice)] = finding(clew("doctor", "--json", CLEW_STORE=NOBODY_LISTENS), "store")
    assert (ok, advice) == (False, "")
    assert "check that the server runs" in found


def test_doctor_says_when_the_home_cannot_be_made(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    [(ok, found, advice)] = finding(clew("doctor", "--json", CLEW_HOME=str(tmp_path / "file" / "home")), "home")
    assert (ok, advice) == (False, "set CLEW_HOME to a folder of yours")
    assert found.endswith(f"home cannot be made: {tmp_path / 'file'} cannot be written")


def test_doctor_says_when_the_clock_is_behind_the_log(clew: Clew, home: Path, session: str) -> None:
    assert finding(clew("doctor", "--json"), "clock") == []
    with sqlite3.connect(home / "clew.db") as database:
        database.execute("UPDATE event SET at = at + ?", [30 * DAY_US])
    [(ok, found, advice)] = finding(clew("doctor", "--json"), "clock")
    assert (ok, found) == (False, "it is 30.0 days behind the time of the newest event")
    assert advice == "set the clock; lists, periods and retention go by it"


def test_what_a_wrong_clock_put_into_the_future_is_not_now() -> None:
    now = time.time_ns() // 1000
    assert [times.ago(now + after) for after in (-90_000_000, 0, 30_000_000, 61_000_000, 40 * DAY_US)] == [
        "1 min ago", "0 s ago", "0 s ago", "in 1 min", "in 39 d",
    ]  # fmt: skip


MOUNTS = r"""
22 1 0:20 / / rw - ext4 /dev/sda rw
30 22 0:30 / /home rw shared:1 - nfs4 server:/home rw
31 30 0:31 / /home/ada/my\040disk rw - fuse.sshfs other:/ rw
32 30 0:32 / /home/ada/local rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp", "ext4"), ("/home", "nfs4"), ("/homes", "ext4"), ("/home/ada/.clew", "nfs4"),
        ("/home/ada/my disk/.clew", "fuse.sshfs"), ("/home/ada/local/.clew", "xfs"),
    ],
)  # fmt: skip
def test_the_disk_of_another_machine_is_known(path: str, kind: str) -> None:
    assert doctor.file_system(path, MOUNTS) == kind


def test_doctor_warns_of_a_store_on_a_network_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = app.settings(home=str(tmp_path / "home"))
    assert not [one for one in doctor.diagnose(settings) if one.what == "disk"]
    # A network disk of its own would need a server and root, so the kernel's kind of this disk is the suspicious one.
    kind = doctor.file_system(str(tmp_path), Path("/proc/self/mountinfo").read_text())
    monkeypatch.setattr(doctor, "NETWORK_FILE_SYSTEMS", {kind.removeprefix("fuse.")})
    [found] = [one for one in doctor.diagnose(settings) if one.what == "disk"]
    assert (found.ok, found.advice.partition(",")[0]) == (False, "set CLEW_HOME to a folder on a disk of this machine")


@pytest.mark.parametrize("runtime", sorted(CONNECTIONS))
def test_connect_says_what_a_program_will_run_and_nothing_that_it_will_not(
    clew: Clew, tmp_path: Path, runtime: str
) -> None:
    run = clew("connect", runtime, "--dry-run", HOME=str(tmp_path), CLAUDE_CONFIG_DIR="", CODEX_HOME="")
    assert ("runs at each of these events" in run.err) == ("hook.py" in run.out), run.err
    by_hand = runtime == "claude-code"
    assert ("runs as its MCP server" in run.err) == ('"-P"' in run.out or by_hand), run.err


def test_a_resume_that_is_not_run_says_that_its_folder_is_gone(clew: Clew, tmp_path: Path) -> None:
    transcript = tmp_path / ".claude/projects/-gone" / f"{claude.SESSION}.jsonl"
    transcript.parent.mkdir(parents=True)
    story = [claude.says("1", None, "why?"), claude.answers("2", "1", claude.text("because"))]
    transcript.write_bytes(claude.lines([line | {"cwd": "/gone/shop", "sessionId": claude.SESSION} for line in story]))
    person = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""}
    assert clew("capture", **person).code == 0
    for words in (["--dry-run"], ["--no-run"], ["--in", "codex", "--dry-run"], ["--in", "codex", "--no-run"]):
        run = clew("resume", "latest", *words, **person)
        assert run.code == 0, run.err
        assert "note: the directory /gone/shop does not exist, so the command fails here\n" in run.err + run.out, words
    refused = clew("resume", "latest", "--in", "codex", **person)
    assert "error: the directory /gone/shop does not exist; name another to work in\n" in refused.err
