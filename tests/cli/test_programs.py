"""The commands about agent programs, as a person runs them."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Clew
from support import claude

CLAUDE = claude.SESSION


@pytest.fixture
def person(tmp_path: Path) -> Path:
    """Somebody's home, with one Claude Code session in it."""
    home = tmp_path / "person"
    claude.transcript(home).write_bytes(claude.lines(claude.story()))
    return home


@pytest.fixture
def session(clew: Clew, person: Path) -> str:
    report, _ = clew("capture", "--home", str(person), "--json").objects
    return str(report["session"])


def test_capture_shows_a_table_and_counts(clew: Clew, person: Path) -> None:
    done = clew("capture", "--home", str(person))
    assert done.code == 0
    header, _, row = done.out.splitlines()
    counts = dict(zip(header.split(), row.split(), strict=True))
    assert counts["runtime"] == "claude-code"
    assert (counts["found"], counts["new"], counts["records"]) == ("1", "1", str(len(claude.story())))


def test_capture_as_json_is_one_object_per_file_and_the_totals(clew: Clew, person: Path) -> None:
    report, total = clew("capture", "--home", str(person), "--json").objects
    expected = ["runtime", "path", "session", "records", "events", "opaque", "quarantined", "error", "status", "note"]
    assert list(report) == expected
    assert report["records"] == report["events"] + report["opaque"] + report["quarantined"] == len(claude.story())
    assert (total["total"], total["found"], total["new"], total["records"]) == (True, 1, 1, len(claude.story()))
    [again, total] = clew("capture", "--home", str(person), "--json").objects
    assert (again["status"], again["session"], total["new"], total["same"]) == ("same", report["session"], 0, 1)


def test_capture_of_an_empty_home_says_where_to_look(clew: Clew, tmp_path: Path) -> None:
    done = clew("capture", "--home", str(tmp_path))
    assert (done.code, done.out) == (0, "")
    assert "clew runtimes" in done.err


def test_capture_of_a_named_file_tells_the_program_by_its_content(clew: Clew, tmp_path: Path) -> None:
    path = tmp_path / "somewhere.jsonl"
    path.write_bytes(claude.lines(claude.story()))
    report, _ = clew("capture", str(path), "--json").objects
    assert (report["runtime"], report["records"]) == ("claude-code", len(claude.story()))


@pytest.mark.parametrize("command", ["capture", "import"])
def test_a_file_nobody_knows_is_refused(clew: Clew, tmp_path: Path, command: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("just notes")
    done = clew(command, str(path), "--json")
    assert (done.code, done.error["error"]) == (2, "invalid_input")
    assert clew(command, str(tmp_path / "gone"), "--json").error["error"] == "not_found"


def test_hostile_names_and_errors_do_not_reach_the_terminal(clew: Clew, tmp_path: Path) -> None:
    home = tmp_path / "person"
    path = claude.transcript(home, session="x\x1b]0;owned\x07")
    path.write_bytes(claude.lines([claude.says("u", None, "\x1b[31mred")]))
    done = clew("capture", "--home", str(home))
    assert "\x1b" not in done.out + done.err
    assert "\x1b" not in clew("sessions").out


def test_resume_prints_the_command_and_what_became_of_the_session(clew: Clew, session: str, tmp_path: Path) -> None:
    home = tmp_path / "new"
    home.mkdir()
    done = clew("resume", session, "--in", "codex", "--cwd", str(home), "--print", HOME=str(home), CODEX_HOME="")
    assert done.code == 0
    assert done.out.startswith(f"cd {home} && codex resume ")
    assert "dropped: 1 thinking" in done.err
    [made] = clew(
        "resume", session, "--in", "codex", "--cwd", str(home), "--print", "--json", HOME=str(home), CODEX_HOME=""
    ).objects
    assert {"command", "cwd", "env", "native_id", "files", "fidelity"} <= made.keys()
    assert made["command"] == ["codex", "resume", made["native_id"]]
    assert {"carried", "adapted", "dropped"} <= made["fidelity"].keys()
    assert all(Path(path).is_file() for path in made["files"])


def test_resume_runs_the_program_and_captures_what_it_did(clew: Clew, session: str, tmp_path: Path) -> None:
    """A stand-in for the program: it appends to the session it is told to resume, as the real one does."""
    home, programs = tmp_path / "new", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "from the program"}]}
    line = json.dumps({"timestamp": "2026-11-16T12:00:00.000Z", "type": "response_item", "payload": item})
    program = programs / "codex"
    loop = f"for f in $HOME/.codex/sessions/*/*/*/*$2.jsonl; do echo '{line}' >> $f; done"
    program.write_text(f"#!/bin/sh\n{loop}\nexit 7\n")
    program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = clew("resume", session, "--in", "codex", "--cwd", str(home), HOME=str(home), PATH=path, CODEX_HOME="")
    assert done.code == 7
    forks = [one for one in clew("sessions", "--json").objects if one["parent"] == session]
    events = clew("show", forks[0]["id"], "--events", "--json").objects
    assert events[-1].get("text") == "from the program"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--in", "nobody"], 2, "no runtime 'nobody'"),
        (["--in", "cursor"], 2, "only read"),
        (["--cwd", "/tmp"], 2, "--in RUNTIME"),
        (["--in", "codex", "--strict"], 4, "thinking"),
        (["--in", "codex", "--at", "999"], 2, "999"),
        (["--in", "codex", "--at", "0"], 2, ">= 1"),
    ],
)
def test_resume_refuses_with_the_way_out(
    clew: Clew, session: str, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    done = clew("resume", session, *arguments, "--print", HOME=str(tmp_path), CODEX_HOME="")
    assert done.code == code
    assert says in done.err
    assert not (tmp_path / ".codex").exists()


def test_resume_without_a_program_is_the_lifecycle(clew: Clew, session: str) -> None:
    clew("pause", session)
    assert clew("resume", session).out == f"{session} is active\n"


def test_export_native_is_the_file_itself(clew: Clew, session: str, person: Path, tmp_path: Path) -> None:
    original = claude.transcript(person).read_bytes()
    claude.transcript(person).unlink()
    out = tmp_path / "out"
    [written] = clew("export", session, "--as", "native", "--out", f"{out}/", "--json").objects
    assert Path(written["file"]).name == f"{CLAUDE}.jsonl"
    assert Path(written["file"]).read_bytes() == original
    assert clew("export", session, "--as", "native").out.encode() == original
    again = clew("export", session, "--as", "native", "--out", f"{out}/")
    assert again.code == 4
    assert "left alone" in again.err


@pytest.mark.parametrize("form", ["jsonl", "markdown", "html", "atif", "copilot"])
def test_every_export_can_be_imported_again(clew: Clew, session: str, tmp_path: Path, form: str) -> None:
    out = tmp_path / "exports"
    [written] = clew("export", session, "--as", form, "--out", f"{out}/", "--json").objects
    [report, _] = clew("import", written["file"], "--json", CLEW_HOME=str(tmp_path / "other")).objects
    assert (report["error"], report["quarantined"]) == (None, 0)
    events = clew("show", report["session"], "--events", "--json", CLEW_HOME=str(tmp_path / "other")).objects
    assert said(events) == said(clew("show", session, "--events", "--json").objects)


def said(events: list[dict[str, Any]]) -> list[str]:
    texts = [event.get("text") or "" for event in events if event["kind"] == "message_added"]
    return [text for text in texts if text] + [
        event["input"]["command"] for event in events if event["kind"] == "call_made"
    ]


def test_runtimes_shows_what_is_here(clew: Clew, person: Path) -> None:
    found = {one["name"]: one for one in clew("runtimes", "--json", HOME=str(person), CLAUDE_CONFIG_DIR="").objects}
    assert found["claude-code"]["sessions"] == 1
    assert (found["claude-code"]["connected"], found["claude-code"]["writes"]) == (False, True)
    assert (found["aider"]["connected"], found["aider"]["writes"]) == (None, False)
    assert "claude-code" in clew("runtimes", HOME=str(person)).out


def test_connect_shows_the_change_makes_it_and_disconnect_undoes_it(clew: Clew, tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    before = '{\n  "model": "opus"\n}\n'
    settings.write_text(before)
    mine = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": ""}
    shown = clew("connect", "claude-code", "--dry-run", **mine)
    assert '+  "hooks"' in shown.out
    assert settings.read_text() == before
    refused = clew("connect", "claude-code", **mine)
    assert (refused.code, settings.read_text()) == (2, before)
    assert clew("connect", "claude-code", "--yes", **mine).code == 0
    hooks = json.loads(settings.read_text())["hooks"]
    assert {"SessionStart", "Stop"} <= hooks.keys()
    assert "already" in clew("connect", "claude-code", "--yes", **mine).out
    [known] = [one for one in clew("runtimes", "--json", **mine).objects if one["name"] == "claude-code"]
    assert known["connected"] is True
    assert clew("disconnect", "claude-code", "--yes", **mine).code == 0
    assert settings.read_text() == before


def test_the_server_is_this_python_with_this_home_and_takes_no_module_from_where_an_agent_works(
    clew: Clew, tmp_path: Path
) -> None:
    mine = {"HOME": str(tmp_path), "CODEX_HOME": ""}
    for home, own in ((str(tmp_path / ".clew"), []), (str(tmp_path / "else"), ["--home", str(tmp_path / "else")])):
        assert clew("connect", "codex", "--yes", CLEW_HOME=home, **mine).code == 0
        entry = tomllib.loads((tmp_path / ".codex/config.toml").read_text())["mcp_servers"]["clew"]
        assert entry["args"] == ["-P", "-m", "clew", *own, "mcp"]
        assert entry["env"] == {"CLEW_RUNTIME": "codex"}
    (tmp_path / "work").mkdir()
    (tmp_path / "work/json.py").write_text("raise SystemExit(9)")
    done = subprocess.run([entry["command"], *entry["args"][:-1], "--version"], cwd=tmp_path / "work", check=False)
    assert done.returncode == 0
    told = clew("connect", "claude-code", "--yes", "--json", HOME=str(tmp_path), CLAUDE_CONFIG_DIR="").objects[0]
    assert shlex.split(told["by_hand"].splitlines()[-1])[:7] == [
        "claude", "mcp", "add", "--scope", "user", "clew", "--env",
    ]  # fmt: skip
    assert "SERVER_COMMAND" not in told["by_hand"]


def test_connect_leaves_broken_settings_alone(clew: Clew, tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{ not json")
    done = clew("connect", "claude-code", "--yes", HOME=str(tmp_path), CLAUDE_CONFIG_DIR="")
    assert done.code == 2
    assert settings.read_text() == "{ not json"


def test_a_program_without_hooks_says_what_to_do_instead(clew: Clew) -> None:
    done = clew("connect", "aider", "--yes")
    assert done.code == 2
    assert "clew capture --watch" in done.err


def test_what_a_hook_reports_is_captured_and_briefed(clew: Clew, person: Path, home: Path) -> None:
    spool = home / "spool"
    spool.mkdir(parents=True)
    home.chmod(0o700)
    note = {"runtime": "claude-code", "transcript_path": "", "session_id": CLAUDE, "cwd": claude.CWD, "event": "Stop"}
    (spool / "claude-code-1-1.json").write_text(json.dumps(note) + "\n")
    (spool / "claude-code-2-1.json").write_text("not json")
    done = clew("capture", "--spool", HOME=str(person), CLAUDE_CONFIG_DIR="")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert not list(spool.glob("*.json"))
    assert len(clew("sessions", "--json").objects) == 1
    [brief] = (home / "briefs").glob("*.txt")
    assert "Session: Files" in brief.read_text()
    assert "Done." in brief.read_text()


def test_watch_captures_what_comes_until_it_is_interrupted(person: Path, home: Path) -> None:
    environment = {**os.environ, "CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada"}
    argv = [sys.executable, "-m", "clew", "capture", "--home", str(person), "--watch", "--json"]
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_hear_interrupts
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["status"] == "new"
            assert json.loads(process.stdout.readline())["total"]
            with talking(claude.transcript(person)):
                report = json.loads(process.stdout.readline())
            assert report["status"] == "grown"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def _hear_interrupts() -> None:
    """Whoever runs the tests in the background ignores interrupts, and so would every child."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def talking(path: Path) -> Iterator[None]:
    """Somebody who goes on saying something in a session: a watch may not have begun when the first word is said."""
    done = threading.Event()

    def talk() -> None:
        number = 0
        while not done.wait(0.3):
            number += 1
            with path.open("ab") as file:
                file.write(claude.lines([claude.says(f"more{number}", None, f"more {number}")]))

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_brief_is_a_page_of_text(clew: Clew, session: str) -> None:
    assert clew("brief", session).out.startswith("Session: Files\n")
