"""The forwarder inside somebody's agent: it keeps what it must, says what it may, and never gets in the way."""

import fcntl
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clew import hook
from support.children import PATIENCE_SECONDS

SECRET = "sk-very-secret-000"
FACTS = {"session_id": "s-1", "transcript_path": "/home/me/.claude/projects/app/s-1.jsonl", "cwd": "/home/me/app"}
START = {**FACTS, "hook_event_name": "SessionStart", "source": "startup"}


@contextmanager
def capture_running(home: Path) -> Iterator[None]:
    """Hold the lock that a running capture holds, so that none is started."""
    (home / "spool").mkdir(mode=0o700, exist_ok=True)
    with (home / "spool/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    folder.mkdir()
    with capture_running(folder):
        yield folder


def run(home: Path, *words: str, said: Any = None, program: list[str] | None = None) -> bytes:
    """Run the forwarder as an agent does; gives what it printed, and holds that it never fails."""
    stdin = said if isinstance(said, bytes) else json.dumps(said).encode()
    done = subprocess.run(
        [*(program or hook.command()), *words],
        input=stdin,
        env={"CLEW_HOME": str(home)},
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    return done.stdout


def notes(home: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((home / "spool").glob("[!.]*.json"))]


def write_brief(home: Path, cwd: str, text: str) -> None:
    (home / "briefs").mkdir(exist_ok=True)
    (home / "briefs" / hook.brief_name(cwd)).write_text(text, "utf-8")


def everything_below(folder: Path) -> bytes:
    return b"".join(str(path).encode() + (path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*"))


# Notes ----------------------------------------------------------------------------------------------------------------


def test_an_event_leaves_one_private_note_that_says_which_session_grew(home: Path) -> None:
    assert run(home, "Stop", "claude-code", said=FACTS) == b""
    (note,) = notes(home)
    assert note.pop("at") > 0
    assert note == {"runtime": "claude-code", "event": "Stop", **FACTS}
    (path,) = (home / "spool").glob("*.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize(
    ("runtime", "said", "expected"),
    [
        (
            "copilot-cli",
            {"sessionId": "c", "cwd": "/w", "transcriptPath": "/c/events.jsonl"},
            ("c", "/c/events.jsonl", "/w"),
        ),
        ("cursor", {"conversation_id": "u", "workspace_roots": ["/w"], "transcript_path": None}, ("u", "", "/w")),
        ("opencode", {"session_id": "ses_1", "cwd": "/w"}, ("ses_1", "", "/w")),
    ],
)
def test_every_program_is_understood_in_its_own_words(
    home: Path, runtime: str, said: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    run(home, "stop", runtime, said=said)
    (note,) = notes(home)
    assert (note["session_id"], note["transcript_path"], note["cwd"]) == expected


def test_the_module_does_what_the_file_does(home: Path) -> None:
    run(home, "Stop", "codex", said=FACTS, program=[sys.executable, "-m", "clew.hook"])
    assert [note["runtime"] for note in notes(home)] == ["codex"]


def test_a_home_given_in_the_command_goes_before_the_environment(home: Path, tmp_path: Path) -> None:
    run(tmp_path / "other", "--home", str(home), "Stop", "codex", said=FACTS)
    assert len(notes(home)) == 1


def test_nothing_else_that_the_program_says_reaches_the_disk(home: Path) -> None:
    write_brief(home, "/home/me/app", "the brief")
    loaded = {
        "tool_input": {"command": f"export KEY={SECRET}"},
        "tool_response": SECRET,
        "prompt": SECRET,
        SECRET: SECRET,
    }
    for event in ("PostToolUse", "SessionStart"):
        run(home, event, "claude-code", said={**START, **loaded})
    odd = {"session_id": {"k": SECRET}, "transcript_path": [SECRET], "cwd": f"relative {SECRET}"}
    run(home, "Stop", "claude-code", said={**odd, **loaded})
    run(home, "Stop", "claude-code", said={"session_id": f"{SECRET} x", "cwd": f"/a\n{SECRET}", "transcript_path": 1})
    assert len(notes(home)) == 3
    assert SECRET.encode() not in everything_below(home)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x00\xff\xfe" * 1000,
        b"{",
        b"[]",
        b'"text"',
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b'{"session_id": "s", "tool_response": "' + b"x" * 10_000_000 + b'"}',
        b'{"session_id": NaN, "cwd": 1e999, "n": ' + b"9" * 100_000 + b"}",
        b'{"session_id": "../../x", "transcript_path": "/\\ud800"}',
        ("/" * 10_000).encode(),
    ],
    ids=["empty", "binary", "cut", "list", "text", "deep", "deeper", "10 MB", "numbers", "escapes", "slashes"],
)
@pytest.mark.parametrize("event", ["Stop", "SessionStart"])
def test_hostile_input_is_noted_without_a_session_and_says_nothing(home: Path, said: bytes, event: str) -> None:
    assert run(home, event, "claude-code", said=said) == b""
    found = [(note["session_id"], note["transcript_path"], note["cwd"]) for note in notes(home)]
    assert found == ([("", "", "")] if event == "Stop" else [])


def test_input_that_never_ends_is_not_waited_for(home: Path) -> None:
    with subprocess.Popen(
        [*hook.command(), "Stop", "codex"], stdin=subprocess.PIPE, env={"CLEW_HOME": str(home)}
    ) as process:
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
    assert len(notes(home)) == 1


def test_closed_descriptors_lose_no_note(home: Path) -> None:
    line = [*hook.command(), "Stop", "codex"]
    done = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *line], env={"CLEW_HOME": str(home)}, check=False)
    assert done.returncode == 0
    assert len(notes(home)) == 1


@pytest.mark.parametrize(
    "words", [[], ["Stop"], ["Stop", "nobody"], ["../Stop", "codex"], ["Stop", "../codex"], ["a", "b", "c"], ["--home"]]
)
def test_wrong_words_do_nothing(home: Path, words: list[str]) -> None:
    assert run(home, *words, said=FACTS) == b""
    assert notes(home) == []


def test_twenty_at_once_lose_no_note(home: Path) -> None:
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda n: run(home, "Stop", "codex", said={**FACTS, "session_id": f"s-{n}"}), range(20)))
    assert sorted(note["session_id"] for note in notes(home)) == sorted(f"s-{n}" for n in range(20))
    assert not list((home / "spool").glob(".*"))


def test_a_full_spool_takes_no_more(home: Path) -> None:
    for number in range(hook.SPOOL_NOTES):
        (home / "spool" / f"codex-{number}.json").write_text("{}\n")
    run(home, "Stop", "codex", said=FACTS)
    assert len(notes(home)) == hook.SPOOL_NOTES


# Homes that are no use ------------------------------------------------------------------------------------------------


def test_without_a_home_nothing_is_made(tmp_path: Path) -> None:
    for event in ("Stop", "SessionStart"):
        assert run(tmp_path / "none", event, "codex", said=START) == b""
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    # /proc is a folder in which not even root can make one.
    assert run(Path("/proc"), "Stop", "codex", said=FACTS) == b""
    blocked = tmp_path / "home"
    blocked.mkdir()
    (blocked / "spool").write_text("in the way")
    assert run(blocked, "Stop", "codex", said=FACTS) == b""
    assert (blocked / "spool").read_text() == "in the way"


def test_a_brief_that_cannot_be_remembered_is_not_given(home: Path) -> None:
    """Better never than twice."""
    write_brief(home, "/home/me/app", "the brief")
    (home / "briefs/given").write_text("in the way")
    assert run(home, "SessionStart", "claude-code", said=START) == b""


# Briefs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runtime", "said", "expected"),
    [
        (
            runtime,
            START,
            {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": 'Go on: "ü"\n\t\\'}},
        )
        for runtime in ("claude-code", "codex", "gemini-cli")
    ]
    + [
        (
            "copilot-cli",
            {"sessionId": "c", "cwd": "/home/me/app", "source": "new"},
            {"additionalContext": 'Go on: "ü"\n\t\\'},
        ),
        (
            "cursor",
            {"conversation_id": "c", "workspace_roots": ["/home/me/app"]},
            {"additional_context": 'Go on: "ü"\n\t\\'},
        ),
        (
            "qwen-code",
            START,
            {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": 'Go on: "ü"\n\t\\'}},
        ),
        ("opencode", START, {"additionalContext": 'Go on: "ü"\n\t\\'}),
        ("pi", START, {"additionalContext": 'Go on: "ü"\n\t\\'}),
    ],
)
def test_a_new_session_gets_the_brief_once_in_the_programs_own_words(
    home: Path, runtime: str, said: dict[str, Any], expected: dict[str, Any]
) -> None:
    write_brief(home, "/home/me/app", 'Go on: "ü"\n\t\\')
    event = hook.STARTS[runtime][0]
    assert json.loads(run(home, event, runtime, said=said)) == expected
    assert run(home, event, runtime, said=said) == b""
    assert notes(home) == []


def test_another_new_session_gets_the_brief_too(home: Path) -> None:
    write_brief(home, "/home/me/app", "the brief")
    given = [run(home, "SessionStart", "codex", said={**START, "session_id": name}) for name in ("a", "b")]
    assert all(b"the brief" in said for said in given)


@pytest.mark.parametrize(
    "change",
    [{"source": word} for word in ("resume", "fork", "compact", "clear", "new", "", None, 1)]
    + [{"session_id": ""}, {"cwd": "/home/me/other"}, {"cwd": None}],
)
def test_a_session_that_is_not_new_or_works_elsewhere_gets_no_brief(home: Path, change: dict[str, Any]) -> None:
    write_brief(home, "/home/me/app", "the brief")
    assert run(home, "SessionStart", "claude-code", said={**START, **change}) == b""


def test_of_twenty_starts_of_one_session_one_gets_the_brief(home: Path) -> None:
    write_brief(home, "/home/me/app", "the brief")
    with ThreadPoolExecutor(20) as pool:
        given = list(pool.map(lambda _: run(home, "SessionStart", "codex", said=START), range(20)))
    assert sum(bool(said) for said in given) == 1


def test_a_long_brief_is_cut_between_characters(home: Path) -> None:
    write_brief(home, "/home/me/app", "x" + "ü" * 10_000)
    said = json.loads(run(home, "SessionStart", "codex", said=START))
    assert said["hookSpecificOutput"]["additionalContext"] == "x" + "ü" * ((hook.BRIEF_BYTES - 1) // 2)


def test_an_empty_brief_says_nothing(home: Path) -> None:
    write_brief(home, "/home/me/app", " \n")
    assert run(home, "SessionStart", "codex", said=START) == b""


def test_a_directory_is_found_under_its_other_name(home: Path, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "app")
    write_brief(home, str(tmp_path / "app"), "the brief")
    assert b"the brief" in run(home, "SessionStart", "codex", said={**START, "cwd": str(tmp_path / "link")})


def test_what_was_given_long_ago_is_forgotten(home: Path) -> None:
    write_brief(home, "/home/me/app", "the brief")
    given = home / "briefs/given"
    given.mkdir()
    for number in range(hook.BRIEFS_REMEMBERED):
        (given / f"codex.{number}").touch()
        os.utime(given / f"codex.{number}", (number, number))
    assert run(home, "SessionStart", "codex", said=START)
    left = {path.name for path in given.iterdir()}
    assert len(left) == hook.BRIEFS_REMEMBERED // 2 + 1
    assert {"codex.s-1", f"codex.{hook.BRIEFS_REMEMBERED - 1}"} <= left


# The capture in the background ----------------------------------------------------------------------------------------

CAPTURE = """
import fcntl, json, os, sys
home, lock = os.environ["CLEW_HOME"], int(os.environ["CLEW_SPOOL_LOCK"])
told = {
    "argv": sys.argv[1:],
    "streams": [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)],
    "leads": os.getsid(0) == os.getpid(),
    "cwd": os.getcwd(),
    "lock": os.readlink(f"/proc/self/fd/{lock}"),
    "open": sorted(int(n) for n in os.listdir("/proc/self/fd")),
}
with open(home + "/ready", "w") as ready:
    json.dump(told, ready)
os.rename(home + "/ready", f"{home}/captures.{os.getpid()}")
open(home + "/go").read()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The forwarder's command in an environment where `clew capture` tells how it was started, and waits."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    (package,) = folder.glob("lib/python*/site-packages")
    (package / "clew").mkdir()
    (package / "clew/__init__.py").touch()
    (package / "clew/__main__.py").write_text(CAPTURE)
    return [str(folder / "bin/python"), *hook.command()[1:]]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Path]:
    """A home in which captures run until the test is over."""
    folder = tmp_path / "home"
    folder.mkdir()
    os.mkfifo(folder / "go")
    go = os.open(folder / "go", os.O_RDWR)
    yield folder
    os.write(go, b"go")
    os.close(go)


def captures(home: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in home.glob("captures.*")]


def wait_for_a_capture(home: Path) -> dict[str, Any]:
    """The first capture that is running."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not captures(home):
        assert time.monotonic() < deadline, "no capture was started"
        time.sleep(0.01)
    return captures(home)[0]


def test_a_capture_is_started_apart_from_the_agent_and_holds_the_lock(waiting: Path, installed: list[str]) -> None:
    with (waiting / "leaked").open("w") as leaked:
        os.set_inheritable(leaked.fileno(), True)
        done = subprocess.run(
            [*installed, "Stop", "codex"],
            input=b"{}",
            env={"CLEW_HOME": str(waiting)},
            capture_output=True,
            close_fds=False,
            check=False,
        )
    # It returned, with its streams at an end, while the capture runs.
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    told = wait_for_a_capture(waiting)
    assert told["argv"] == ["capture", "--spool"]
    assert told["streams"] == ["/dev/null"] * 3
    assert told["leads"]
    assert told["cwd"] == str(waiting)
    assert told["lock"] == str(waiting / "spool/lock")
    assert len(told["open"]) == 5  # the streams, the lock, and the folder it lists
    with (waiting / "spool/lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_twenty_events_start_one_capture(waiting: Path, installed: list[str]) -> None:
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: run(waiting, "Stop", "codex", said=FACTS, program=installed), range(20)))
    wait_for_a_capture(waiting)
    run(waiting, "Stop", "codex", said=FACTS, program=installed)
    assert len(captures(waiting)) == 1
    assert len(notes(waiting)) == 21


def test_a_full_spool_still_starts_a_capture(waiting: Path, installed: list[str]) -> None:
    (waiting / "spool").mkdir()
    for number in range(hook.SPOOL_NOTES):
        (waiting / "spool" / f"codex-{number}.json").write_text("{}\n")
    run(waiting, "Stop", "codex", said=FACTS, program=installed)
    assert wait_for_a_capture(waiting)["argv"] == ["capture", "--spool"]


def test_a_start_of_a_session_starts_no_capture(waiting: Path, installed: list[str]) -> None:
    write_brief(waiting, "/home/me/app", "the brief")
    assert run(waiting, "SessionStart", "codex", said=START, program=installed)
    assert not (waiting / "spool").exists()


def test_the_forwarder_imports_no_other_part_of_clew_and_nothing_slow() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", hook.__file__, "Stop", "codex"],
        input=b"{}",
        env={"CLEW_HOME": "/proc"},
        capture_output=True,
        check=True,
    )
    imported = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert {"fcntl", "select"} <= imported
    assert not {name for name in imported if name.partition(".")[0] in {"clew", "json", "re", "typing", "subprocess"}}
