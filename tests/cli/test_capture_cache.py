"""The cached report: it is printed without opening the store while it is valid, and not after anything changed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import clew.cli
from clew import capture_cache
from clew.service.capture import in_background
from support import claude

Capture = Callable[[], str]
FOLDER = ".claude/projects/-home-me-app"


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody with one session; no file counts as changed a moment ago."""
    home = tmp_path / "person"
    put(home / FOLDER / f"{claude.SESSION}.jsonl", claude.lines(claude.story()))
    for name in [name for name in os.environ if name.startswith(("CLEW_", "CLAUDE_", "CODEX_"))]:
        monkeypatch.delenv(name)
    for name, value in {"HOME": home, "CLEW_HOME": home / ".clew", "CLEW_PRINCIPAL": "person:ada"}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(capture_cache, "CLOCK_TICK_NS", -(10**12))
    return home


@pytest.fixture
def capture(person: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Capture:
    """Runs `clew capture`, and returns what it printed."""

    def run() -> str:
        monkeypatch.setattr(sys, "argv", ["clew", "capture"])
        assert not exit_code()
        return capsys.readouterr().out

    return run


@pytest.fixture
def cached(person: Path, capture: Capture) -> str:
    """What a capture printed that found nothing new and cached its report."""
    capture()
    printed = capture()
    assert capture_cache.cached_report() is not None
    return printed


def exit_code() -> object:
    try:
        clew.cli.main()
    except SystemExit as ended:
        return ended.code
    return 0


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_a_valid_report_is_printed_again_without_opening_the_store(person: Path, cached: str) -> None:
    code = """
import sys
import clew.cli
sys.argv = ["clew", "capture"]
clew.cli.main()
assert not {"apsw", "msgspec", "click", "clew.app"}.intersection(sys.modules), sorted(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", cached)
    assert "claude-code   1       0     0       0" in cached


def test_only_a_capture_with_nothing_new_caches_its_report(person: Path, capture: Capture) -> None:
    capture()
    assert not (person / ".clew" / capture_cache.NAME).exists()


def test_a_report_about_a_file_that_changed_a_moment_ago_is_not_cached(
    person: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_cache, "CLOCK_TICK_NS", 3_600_000_000_000)
    capture()
    capture()
    assert not (person / ".clew" / capture_cache.NAME).exists()


def a_line_more(person: Path) -> None:
    with (person / FOLDER / f"{claude.SESSION}.jsonl").open("ab") as file:
        file.write(claude.lines([claude.says("more", None, "more")]))


def a_file_more(person: Path) -> None:
    other = claude.lines(claude.story()).replace(claude.SESSION.encode(), b"0" * 36)
    put(person / FOLDER / f"{'0' * 36}.jsonl", other)


def a_project_more(person: Path) -> None:
    put(person / ".claude/projects/-home-me-other/x.jsonl", claude.lines([claude.says("x", None, "x")]))


def a_program_more(person: Path) -> None:
    (person / ".codex/sessions/2026/11/15").mkdir(parents=True)


def a_file_gone(person: Path) -> None:
    (person / FOLDER / f"{claude.SESSION}.jsonl").unlink()


def a_store_changed(person: Path) -> None:
    subprocess.run([sys.executable, "-m", "clew", "open", "--title", "x"], check=True, capture_output=True)


def a_store_gone(person: Path) -> None:
    (person / ".clew" / "clew.db").unlink()


def a_session_erased(person: Path) -> None:
    clew = [sys.executable, "-m", "clew"]
    listed = subprocess.run([*clew, "sessions", "--json"], check=True, capture_output=True).stdout
    subprocess.run([*clew, "erase", json.loads(listed)["id"], "--yes"], check=True, capture_output=True)
    assert not (person / ".clew" / capture_cache.NAME).exists()


def another_principal(person: Path) -> None:
    os.environ["CLEW_PRINCIPAL"] = "person:bob"


def another_home_of_a_program(person: Path) -> None:
    os.environ["CODEX_HOME"] = str(person / "codex")


def a_failure_in_the_background(person: Path) -> None:
    in_background.save_failures(person / ".clew", "codex", [in_background.Failure("codex", 0, "", "it broke", 1)])


def rights_changed(person: Path) -> None:
    (person / FOLDER).chmod(0o700)


def damaged(person: Path) -> None:
    (person / ".clew" / capture_cache.NAME).write_text('{"who": ')


@pytest.mark.parametrize(
    "happens",
    [
        a_line_more, a_file_more, a_project_more, a_program_more, a_file_gone, a_store_changed, a_store_gone,
        a_session_erased, another_principal, another_home_of_a_program,
        a_failure_in_the_background, rights_changed, damaged,
    ],
)  # fmt: skip
def test_a_report_is_not_valid_after_anything_that_it_depends_on_changed(
    happens: Callable[[Path], None], person: Path, cached: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as put_back:
        put_back.setenv("CODEX_HOME", "")
        put_back.delenv("CODEX_HOME")
        put_back.setenv("CLEW_PRINCIPAL", "person:ada")
        assert capture_cache.cached_report() is not None
        happens(person)
        assert capture_cache.cached_report() is None


def test_what_is_new_is_captured_after_a_report_was_cached(person: Path, cached: str, capture: Capture) -> None:
    a_line_more(person)
    assert "claude-code   1       0     1       0" in capture()
    assert "claude-code   1       0     0       0" in capture()


@pytest.mark.parametrize(
    ("words", "store"),
    [
        (("--store", "sqlite:///{home}/other.db"), ""),
        (("--home", "{home}/other"), ""),
        ((), "sqlite:///other.db"),
    ],
    ids=["named", "home named", "relative"],
)
def test_no_report_is_cached_about_a_store_that_the_next_capture_may_not_open(
    words: tuple[str, ...], store: str, person: Path, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "clew", *(word.format(home=tmp_path) for word in words), "capture"]
    environment = {**os.environ, **({"CLEW_STORE": store} if store else {})}
    for _ in range(2):
        subprocess.run(argv, check=True, capture_output=True, cwd=tmp_path, env=environment)
    assert list(tmp_path.rglob(capture_cache.NAME)) == []


def test_a_report_depends_on_a_store_below_the_home_directory(
    person: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_STORE", "sqlite:///~/mine.db")
    (person / ".clew").mkdir()
    capture()
    capture()
    assert capture_cache.cached_report() is not None
    (person / "mine.db").unlink()
    assert capture_cache.cached_report() is None


@pytest.mark.parametrize("how", ["missing", "in the way"])
def test_a_home_that_cannot_hold_the_cached_report_does_not_make_a_capture_fail(
    how: str, person: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_STORE", f"sqlite:///{person}/mine.db")
    if how == "in the way":
        (person / ".clew" / capture_cache.NAME).mkdir(parents=True)
    capture()
    assert "claude-code   1       0     0       0" in capture()
    capture_cache.discard_report(str(person / ".clew"))
    left = {path.name for path in person.glob(".clew/*")} - {"drift.json"}
    assert left == ({capture_cache.NAME} if how == "in the way" else set())


def test_a_report_that_standard_output_cannot_encode_is_left_to_the_capture(person: Path, cached: str) -> None:
    argv = [sys.executable, "-m", "clew", "capture"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(argv, capture_output=True, check=False, env=ascii_only)
    assert b"Traceback" not in done.stderr
    assert b"claude-code" in done.stdout
    reading, writing = os.pipe()
    os.close(reading)
    gone = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (gone.returncode, gone.stderr) == (1, b"")
