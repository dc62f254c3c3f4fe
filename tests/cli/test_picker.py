"""`clew` alone: a person picks a session and goes on with it; without a terminal it is a list."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.cli.picker import fitted
from clew.cli.session_choices import PAGE, SessionChoices
from support import claude
from support.planes import plane_on
from support.terminal import ENTER, ESCAPE, Terminal

from .conftest import Clew

TAB, REDRAW, HOSTILE = "\t", "\x0c", "evil \x1b]0;pwned\x07 title"
# Codes for a colour of text or ground; bold, dim and reverse are none.
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;\d+)*m")


@pytest.fixture
def mine(tmp_path: Path, home: Path) -> dict[str, str]:
    """A person with a session in app and one elsewhere, and programs that write down how they were called."""
    for folder, session, title in (
        ("app", claude.SESSION, "why does the lock fail?"), ("other", claude.SESSION.replace("1", "7"), HOSTILE),
    ):  # fmt: skip
        (tmp_path / folder).mkdir()
        transcript = tmp_path / ".claude/projects" / f"-home-me-{folder}" / f"{session}.jsonl"
        transcript.parent.mkdir(parents=True)
        story = [
            claude.says(f"{folder} 1", None, title),
            claude.answers(f"{folder} 2", f"{folder} 1", claude.text("because of WAL")),
        ]
        transcript.write_bytes(
            claude.lines([line | {"cwd": str(tmp_path / folder), "sessionId": session} for line in story])
        )
    (tmp_path / "bin").mkdir()
    for program in ("claude", "codex"):
        script = tmp_path / "bin" / program
        script.write_text(f'#!/bin/sh\necho "$PWD: {program} $@"\n')
        script.chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "XDG_"))},
        "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "CLEW_HOME": str(home), "NO_COLOR": "1",
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin", "CLEW_PRINCIPAL": "person:ada", "CLEW_PAGER": "", "TZ": "UTC",
    }  # fmt: skip


@contextmanager
def started(mine: dict[str, str], *words: str, columns: int = 120) -> Iterator[Terminal]:
    folder = Path(mine["HOME"]) / "app"
    program = ["/bin/sh", "-c", f'cd {folder} && exec "$0" "$@"', sys.executable, "-m", "clew", *words]
    with Terminal(program, mine, columns=columns) as terminal:
        yield terminal


@pytest.fixture
def captured(mine: dict[str, str], clew: Clew, home: Path) -> None:
    assert clew("capture", **mine).code == 0
    (home / "offered").touch()


def test_a_newcomer_sees_all_work_goes_on_elsewhere_and_takes_it_back(mine: dict[str, str], clew: Clew) -> None:
    with started(mine) as terminal:
        terminal.expect("2 sessions: claude-code 2")
        for _ in range(2):
            terminal.expect("[y/N]")
            terminal.send("n\n")
        terminal.expect("Start clew whenever you log in? [y/N]")
        terminal.send("n\n")
        terminal.expect("~/app · 1 session")
        assert "evil" not in terminal.expect("why does the lock fail?")
        terminal.send(TAB + REDRAW)
        terminal.expect("evil \\x1b]0;pwned\\x07 title")
        terminal.send("/FAIL lock" + ENTER + REDRAW)
        assert "evil" not in terminal.expect("all folders · 1 of 2 sessions")
        terminal.send("c")
        terminal.expect("Go on in which program?")
        assert "claude-code" not in terminal.expect("codex")
        terminal.send(ENTER)
        terminal.expect(f"{mine['HOME']}/app: codex resume ")
        assert terminal.end() == 0
        assert "\x1b]" not in terminal.seen
    forks = [line for line in clew("sessions", "--json", **mine).objects if line["parent"]]
    assert [fork["runtime"] for fork in forks] == ["codex"]
    with started(mine, "undo") as terminal:
        terminal.expect(f"{forks[0]['id']} is taken back")
        assert terminal.end() == 0
    assert not [*(Path(mine["HOME"]) / ".codex").rglob("*.jsonl")]
    with started(mine, "project", "merge", "other", "app") as terminal:
        terminal.expect("all sessions of other sessions of app")
        terminal.send("y\n")
        assert terminal.end() == 0
    assert {line["project"] for line in clew("sessions", "--json", "--all", **mine).objects} == {"app"}
    with started(mine, "--help") as terminal:
        terminal.expect("Everyday:")
        terminal.expect("Go on:")
        assert terminal.end() == 0


def test_enter_goes_on_in_the_programs_own_session(mine: dict[str, str], captured: None) -> None:
    with started(mine) as terminal:
        terminal.expect("why does the lock fail?")
        terminal.send(ENTER)
        terminal.expect(f"{mine['HOME']}/app: claude --resume {claude.SESSION}")
        assert terminal.end() == 0


def test_a_session_is_shown_and_forked_from_the_list(mine: dict[str, str], captured: None, clew: Clew) -> None:
    with started(mine) as terminal:
        terminal.expect("q leave")
        terminal.send("s")
        terminal.expect("because of WAL")
        terminal.expect("press Enter")
        terminal.send("\n")
        terminal.expect("q leave")
        terminal.send("f")
        terminal.expect("forked as ")
        terminal.send("q")
        assert terminal.end() == 0
    assert len([line for line in clew("sessions", "--json", **mine).objects if line["parent"]]) == 1


def test_a_program_that_is_not_installed_is_told_in_the_list(mine: dict[str, str], captured: None) -> None:
    (Path(mine["HOME"]) / "bin/claude").unlink()
    with started(mine) as terminal:
        terminal.expect("q leave")
        terminal.send(ENTER)
        terminal.expect("error: claude is not on the PATH")
        terminal.send(ESCAPE)
        assert terminal.end() == 0


def test_what_was_written_since_is_captured_while_the_list_is_shown(mine: dict[str, str], captured: None) -> None:
    newer = Path(mine["HOME"]) / ".claude/projects/-home-me-app" / f"{claude.SESSION.replace('1', '8')}.jsonl"
    line = claude.says("newer", None, "a newer question") | {"cwd": f"{mine['HOME']}/app", "sessionId": newer.stem}
    newer.write_bytes(claude.lines([line]))
    with started(mine) as terminal:
        terminal.expect("a newer question")
        terminal.send("\x03")
        assert terminal.end() == 0


def test_forty_columns_show_titles_and_no_colour(mine: dict[str, str], captured: None) -> None:
    with started(mine, columns=40) as terminal:
        terminal.expect("why does the lock fail?")
        terminal.expect("q leave")
        terminal.send("q")
        assert terminal.end() == 0
        assert not COLOUR.search(terminal.raw)


def test_without_a_terminal_it_is_the_list_of_this_folder_or_else_of_all(
    mine: dict[str, str], captured: None, tmp_path: Path
) -> None:
    def listed(folder: str) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        words = [sys.executable, "-m", "clew"]
        done = subprocess.run(words, cwd=tmp_path / folder, env=mine, capture_output=True, text=True, check=True)
        return done.stdout

    assert "why does the lock fail?" in listed("app")
    assert "evil" not in listed("app")
    assert "why does the lock fail?" in listed("empty")
    assert "evil" in listed("empty")


def test_a_line_fits_and_shows_no_control_character() -> None:
    assert fitted([("ab", 4), ("long title", 0)], 10) == "ab  long …"
    assert fitted([("なぜテスト", 0)], 6) == "なぜ… "
    assert fitted([("\x1b[31mred\n", 0)], 20) == "\\x1b[31mred ".ljust(20)
    assert fitted([("x", 4), ("y", 4)], 2) == "x "


def test_pages_are_loaded_as_the_cursor_and_the_filter_need_them(tmp_path: Path) -> None:
    with plane_on(f"sqlite:///{tmp_path}/clew.db") as plane:
        for number in range(PAGE + 50):
            plane.session(f"task number {number}").close()
        choices = SessionChoices(plane.client, "")
        assert (len(choices), choices.wants_more) == (PAGE, False)
        choices.cursor = PAGE - 1
        assert choices.wants_more
        choices.filter("NUMBER 3 task")
        assert choices.wants_more
        choices.load_more()
        assert not choices.wants_more
        titles = {choices.row(number, 80)[-1][0] for number in range(len(choices))}
        assert {"task number 3", "task number 30"} <= titles
        assert len(titles) == sum("3" in str(number) for number in range(PAGE + 50))
        assert choices.title == f"clew · all folders · {len(titles)} of {PAGE + 50} sessions"
        choices.cursor = 3
        before = choices.chosen
        choices.reload()
        assert choices.chosen == before
