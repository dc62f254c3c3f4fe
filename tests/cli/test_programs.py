"""The commands about agent programs, as a person runs them."""

import json
import os
import random
import shlex
import shutil
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
from support.fake_secrets import KINDS

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
    assert {"command", "cwd", "env", "native_id", "files", "fidelity", "prepare"} <= made.keys()
    assert made["command"] == ["codex", "resume", made["native_id"]]
    assert {"carried", "adapted", "dropped"} <= made["fidelity"].keys()
    assert all(Path(path).is_file() for path in made["files"])


def test_a_command_to_resume_has_nothing_in_it_that_a_terminal_obeys(clew: Clew, tmp_path: Path) -> None:
    folder = f"{tmp_path}/\x1b]0;o'wned\x07shop"
    path = tmp_path / "evil.jsonl"
    path.write_bytes(claude.lines({**one, "cwd": folder} if "cwd" in one else one for one in claude.story()))
    report, _ = clew("import", str(path), "--json").objects
    done = clew("resume", report["session"], "--in", "codex", "--print", HOME=str(tmp_path), CODEX_HOME="")
    assert done.code == 0
    assert not {"\x1b", "\x07"}.intersection(done.out + done.err)
    told = subprocess.run(
        ["bash", "-c", f'cd() {{ printf %s "$1"; exit; }}; {done.out}'], capture_output=True, check=True
    )
    assert told.stdout.decode() == folder


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


def test_the_commands_that_prepare_a_session_are_data_and_are_printed_in_order(
    clew: Clew, session: str, tmp_path: Path
) -> None:
    arguments = ("resume", session, "--in", "opencode", "--cwd", str(tmp_path), "--print")
    [made] = clew(*arguments, "--json", HOME=str(tmp_path)).objects
    [file] = made["files"]
    assert made["prepare"] == [["opencode", "import", file]]
    assert made["command"] == ["opencode", "-s", made["native_id"]]
    again = clew(*arguments, HOME=str(tmp_path))
    assert again.out == f"cd {tmp_path} && opencode import {file} && opencode -s {made['native_id']}\n"
    assert "written by an earlier resume" in again.err
    # A program that needs no preparation has none.
    [codex] = clew(
        "resume", session, "--in", "codex", "--cwd", str(tmp_path), "--print", "--json", HOME=str(tmp_path)
    ).objects
    assert codex["prepare"] == []


@pytest.mark.parametrize("fails", [False, True])
def test_resume_prepares_a_session_and_then_runs_the_program(
    clew: Clew, session: str, tmp_path: Path, *, fails: bool
) -> None:
    """A stand-in for the program: it keeps the arguments that it is run with."""
    home, programs, seen = tmp_path / "new", tmp_path / "bin", tmp_path / "seen"
    home.mkdir()
    programs.mkdir()
    program = programs / "opencode"
    program.write_text(f'#!/bin/sh\necho "$1" >> {seen}\necho "no room" >&2\nexit {3 * fails}\n')
    program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = clew("resume", session, "--in", "opencode", "--cwd", str(home), HOME=str(home), PATH=path)
    if fails:
        assert (done.code, seen.read_text().split()) == (6, ["import"])
        assert "ended with 3: no room; the session is written; run it yourself, in" in done.err
    else:
        assert (done.code, seen.read_text().split()) == (0, ["import", "-s"])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--in", "nobody"], 2, "no runtime 'nobody'"),
        (["--in", "cursor"], 2, "only read"),
        (["--in", "codex", "--strict"], 4, "thinking"),
        (["--in", "codex", "--at", "999"], 2, "999"),
        (["--in", "codex", "--at", "0"], 2, "--at is 0; it must be a whole number of 1 or more"),
    ],
)
def test_resume_refuses_with_the_way_out(
    clew: Clew, session: str, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    done = clew("resume", session, *arguments, "--print", HOME=str(tmp_path), CODEX_HOME="")
    assert done.code == code
    assert says in done.err
    assert not (tmp_path / ".codex").exists()


def test_resume_of_a_paused_session_reopens_it(clew: Clew, session: str) -> None:
    clew("pause", session)
    assert clew("resume", session).out == f"{session} is active\n"
    assert clew("resume", clew("open", "--json").objects[0]["id"]).code == 4


def test_resume_goes_on_in_the_program_of_the_session(clew: Clew, session: str, person: Path, tmp_path: Path) -> None:
    mine = {"HOME": str(person), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""}
    done = clew("resume", session, "--no-run", **mine)
    assert done.out.endswith(f"&& claude --resume {CLAUDE}\n")
    assert clew("resume", "--no-run", **mine).out == done.out
    refused = clew("resume", session, PATH="/nowhere", **mine)
    assert (refused.code, f"hint: clew resume {session} --" in refused.err) == (2, True)


def test_resume_says_when_the_program_runs_in_the_folder(clew: Clew, session: str, tmp_path: Path) -> None:
    mine = {"HOME": str(tmp_path), "CODEX_HOME": ""}
    words = ("resume", session, "--in", "codex", "--cwd", str(tmp_path), "--print")
    (tmp_path / "codex").symlink_to(shutil.which("sleep") or "")
    with subprocess.Popen([tmp_path / "codex", "60"], cwd=tmp_path) as program:
        try:
            first, again = clew(*words, **mine), clew(*words, **mine)
        finally:
            program.kill()
    # A session of its own that is written anew is open nowhere.
    assert "runs in" not in first.err
    note = (
        f"Codex CLI runs in {tmp_path} (process {program.pid}); if this session is open there, go on there or leave it"
    )
    assert note in again.err
    assert "runs in" not in clew(*words, **mine).err


def test_a_resume_is_tried_done_once_and_undone(clew: Clew, session: str, tmp_path: Path) -> None:
    mine = {"HOME": str(tmp_path), "CODEX_HOME": ""}
    words = ("resume", session, "--in", "Codex", "--cwd", str(tmp_path))
    tried = clew(*words, "--dry-run", **mine)
    assert "dry run: nothing was written" in tried.err
    assert not (tmp_path / ".codex").exists()
    made = clew(*words, "--no-run", "--json", **mine).objects[0]
    assert clew(*words, "--print", "--json", **mine).objects[0]["files"] == made["files"]
    shown = clew("sessions").out.splitlines()
    assert [line.split()[0] for line in shown[2:]] == [session[:10], made["session"][:10]]
    assert "└ " in shown[3]
    undone = clew("undo", **mine)
    assert (undone.out, undone.err) == (f"{made['session']} is taken back\n", f"removed: {made['files'][0]}\n")
    assert not [*tmp_path.glob(".codex/**/*.jsonl")]
    again = clew("undo", **mine)
    assert (again.code, again.err) == (3, "error: there is no resume to take back\nhint: clew sessions\n")


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
    assert "was not changed" in again.err


@pytest.mark.parametrize("form", ["jsonl", "markdown", "html", "atif", "copilot"])
def test_every_export_can_be_imported_again(clew: Clew, session: str, tmp_path: Path, form: str) -> None:
    out = tmp_path / "exports"
    [written] = clew("export", session, "--as", form, "--out", f"{out}/", "--json").objects
    [report, _] = clew("import", written["file"], "--json", CLEW_HOME=str(tmp_path / "other")).objects
    assert (report["error"], report["quarantined"]) == (None, 0)
    events = clew("show", report["session"], "--events", "--json", CLEW_HOME=str(tmp_path / "other")).objects
    assert said(events) == said(clew("show", session, "--events", "--json").objects)


def test_export_says_what_became_of_the_session_and_strict_refuses_to_lose_any(clew: Clew, session: str) -> None:
    done = clew("export", session, "--as", "copilot")
    assert (done.code, done.out.startswith('{"type":"session"')) == (0, True)
    assert "carried: 2 prompts, 2 answers, 2 calls, 2 results" in done.err
    assert "dropped: 1 thinking (the interchange has no word for it)" in done.err
    refused = clew("export", session, "--as", "copilot", "--strict", "--json")
    assert (refused.code, refused.out, refused.error["error"]) == (4, "", "lossy")
    assert clew("export", session, "--as", "markdown", "--strict").code == 0


@pytest.mark.parametrize("form", ["native", "markdown", "atif"])
def test_export_as_json_is_one_object_with_the_text_in_it(clew: Clew, session: str, tmp_path: Path, form: str) -> None:
    [shown] = clew("export", session, "--as", form, "--json").objects
    assert (shown["file"], shown["bytes"]) == (None, len(shown["text"].encode()))
    assert "Zwei Dateien" in shown["text"]
    [written] = clew("export", session, "--as", form, "--out", f"{tmp_path / 'out'}/", "--json").objects
    assert "text" not in written
    assert written["fidelity"] == shown["fidelity"]
    assert set(shown["fidelity"]) == {"carried", "adapted", "dropped", "stayed"}


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
    assert str(settings) in done.err


def test_a_hook_knows_a_home_of_ones_own(clew: Clew, tmp_path: Path) -> None:
    """A program may start it without a person's variables."""
    for home, own in ((tmp_path / ".clew", ""), (tmp_path / "my own", f"--home '{tmp_path}/my own' ")):
        mine = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CLEW_HOME": str(home)}
        assert clew("connect", "claude-code", "--yes", **mine).code == 0
        hooks = json.loads((tmp_path / ".claude/settings.json").read_text())["hooks"]
        lines = [hook["command"] for groups in hooks.values() for group in groups for hook in group["hooks"]]
        assert len(lines) == len(hooks)
        assert all(f"hook.py {own}" in line and ("--home" in line) == bool(own) for line in lines)


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


def reported(home: Path, runtime: str) -> None:
    """A note as a hook of this program leaves it."""
    (home / "spool").mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    (home / "spool" / f"{runtime}-1-1.json").write_text(json.dumps({"runtime": runtime, "event": "Stop"}) + "\n")


def too_large(person: Path, name: str = "session-2026-11-15-gem") -> Path:
    """A file that no capture takes."""
    path = person / ".gemini/tmp/app/chats" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, 300 * 1024 * 1024)
    return path


def ailments(clew: Clew) -> list[str]:
    """What `clew doctor` says about captures in the background."""
    done = clew("doctor", "--json")
    found = [one for one in done.objects if one["what"] == "capture"]
    assert done.code == (not all(one["ok"] for one in found))
    return [f"{one['found']} -> {one['advice']}" for one in found if not one["ok"]]


@pytest.mark.parametrize("way", [("capture", "--spool"), ("watch",)])
def test_a_capture_in_the_background_that_fails_is_told_by_doctor_until_one_succeeds(
    clew: Clew, person: Path, home: Path, way: tuple[str, ...]
) -> None:
    path = too_large(person)
    reported(home, "gemini-cli")
    mine = {"HOME": str(person), "CLAUDE_CONFIG_DIR": "", "XDG_DATA_HOME": ""}
    assert clew(*way, **mine).code == 0
    [ailment] = ailments(clew)
    assert all(word in ailment for word in (str(path), "314,572,800 bytes", "`clew capture --runtime gemini-cli`"))
    assert "!! capture" in clew("doctor").out
    assert (home / "capture-failed.json").stat().st_mode & 0o777 == 0o600
    # That another program's sessions were captured says nothing about this one's.
    reported(home, "claude-code")
    assert clew("capture", "--spool", **mine).code == 0
    assert [str(path) in one for one in ailments(clew)] == [True]
    path.unlink()
    reported(home, "gemini-cli")
    assert clew(*way, **mine).code == 0
    assert ailments(clew) == []


def test_a_capture_by_hand_that_succeeds_settles_what_failed_in_the_background(
    clew: Clew, person: Path, home: Path, tmp_path: Path
) -> None:
    path, mine = too_large(person), {"HOME": str(person), "CLAUDE_CONFIG_DIR": "", "XDG_DATA_HOME": ""}
    reported(home, "gemini-cli")
    clew("capture", "--spool", **mine)
    assert str(path) in clew("capture", "--runtime", "gemini-cli", **mine).err
    clew("capture", "--home", str(tmp_path / "elsewhere"))
    assert ailments(clew)
    path.unlink()
    clew("capture", **mine)
    assert ailments(clew) == []


def test_what_is_left_of_a_failure_has_no_secrets_and_a_store_out_of_reach_is_one(
    clew: Clew, person: Path, home: Path, tmp_path: Path
) -> None:
    secret = KINDS["GITHUB_TOKEN"](random.Random(1))
    too_large(person, f"session-{secret}")
    reported(home, "gemini-cli")
    clew("capture", "--spool", HOME=str(person))
    assert secret not in (home / "capture-failed.json").read_text()
    (tmp_path / "letter.db").write_bytes(b"this is not a database, it is a letter" * 100)
    reported(home, "claude-code")
    clew("capture", "--spool", HOME=str(person), CLEW_STORE=f"sqlite:///{tmp_path / 'letter.db'}")
    ailment, other = ailments(clew)
    assert "***" in ailment
    assert "letter.db is damaged or is not a clew database" in other


def test_subagents_are_told_apart_and_linked_with_who_called_them(clew: Clew, person: Path, session: str) -> None:
    path = claude.transcript(person).with_suffix("") / "subagents/agent-1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(claude.lines([claude.says("s", None, "look into it", isSidechain=True, agentId="1")]))
    clew("capture", "--home", str(person))
    [child] = [one["id"] for one in clew("sessions", "--json").objects if one["id"] != session]
    assert [line.split()[-4:] for line in clew("sessions").out.splitlines() if child[:10] in line] == [
        ["subagent:", "look", "into", "it"]
    ]
    assert f"subagent of  {session}" in clew("show", child).out
    assert f"subagent     {child}" in clew("show", session).out
    assert clew("show", session, "--json").objects[0]["subagents"] == [child]


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


def test_a_folder_with_damaged_and_foreign_files_is_not_a_silent_success(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"cut')
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n')
    done = clew("import", str(tmp_path))
    assert "a.json: damaged: it ends in the middle" in done.err
    assert "x.jsonl: warning: nothing in it is understood" in done.err
    assert "1 file of JSON is of no program that clew reads, and left alone" in done.err
