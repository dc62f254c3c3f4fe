"""Operations on many sessions: filters select them, a dry run shows them, and a report says what became of each."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.terminal import Terminal

from .conftest import Clew

HI = '{"kind": "message_added", "role": "user", "text": "hi", "said_at": %d}\n'
OLD, NEW = 1_700_000_000_000_000, 1_790_000_000_000_000


@pytest.fixture
def ids(clew: Clew) -> list[str]:
    """Two old sessions in web, a new one in web, and an old one in shop."""
    made = []
    for title, project, at in (("a", "web", OLD), ("b", "web", OLD), ("c", "web", NEW), ("d", "shop", OLD)):
        [opened] = clew("open", "--title", title, "--project", project, "--json").objects
        clew("append", opened["id"], stdin=HI % at)
        made.append(opened["id"])
    return made


def states(clew: Clew) -> dict[str, str]:
    return {line["title"]: line["state"] for line in clew("sessions", "--json").objects}


SELECTED = ("--project", "web", "--before", "2025-01-01")


def test_a_dry_run_shows_the_sessions_and_changes_nothing(clew: Clew, ids: list[str]) -> None:
    for command in (("archive",), ("erase",), ("export", "--to", "out"), ("share", "bob"), ("tag", "work")):
        run = clew(*command, *SELECTED, "--dry-run")
        assert run.code == 0, run.err
        assert {line.split()[0] for line in run.out.splitlines()[2:]} == {id[:10] for id in ids[:2]}
        assert run.err.startswith("2 sessions would be ")
        assert run.err.endswith("; nothing was changed\n")
        listed = clew(*command, *SELECTED, "--dry-run", "--json").objects
        assert {line["id"] for line in listed} == set(ids[:2])
    assert set(states(clew).values()) == {"active"}
    assert not Path("out").exists()


def test_archive_closes_and_archives_those_that_are_selected_and_no_other(clew: Clew, ids: list[str]) -> None:
    run = clew("archive", *SELECTED, "--yes", "--reason", "old")
    assert (run.code, run.err) == (0, "archived 2 of 2 sessions\n")
    assert states(clew) == {"a": "archived", "b": "archived", "c": "active", "d": "active"}
    again = clew("archive", *SELECTED, "--yes")
    assert (again.code, again.err) == (0, "archived 0 of 2 sessions, 2 archived before\n")


@pytest.mark.parametrize("command", [("archive",), ("erase",), ("tag", "x"), ("share", "bob"), ("export", "--to", "o")])
def test_nothing_is_done_without_an_id_or_a_filter(clew: Clew, ids: list[str], command: tuple[str, ...]) -> None:
    run = clew(*command, "--yes") if command[0] in ("archive", "erase", "share") else clew(*command)
    assert run.code == 2
    assert "clew" in run.err or "ID" in run.err or "--all" in run.err
    assert set(states(clew).values()) == {"active"}
    both = clew(command[0], ids[0], *command[1:], "--project", "web")
    assert both.code == 2


def test_all_is_every_session(clew: Clew, ids: list[str]) -> None:
    clew("open", "--metadata", '{"runtime": "codex"}')
    run = clew("tag", "--all", "everything")
    assert (run.code, run.err) == (0, "tagged 5 of 5 sessions\n")
    again = clew("tag", "--tag", "everything", "everything")
    assert again.err == "tagged 0 of 5 sessions, 5 had them before\n"
    assert clew("tag", "--all", "everything", "--remove").err == "untagged 5 of 5 sessions\n"


@pytest.mark.parametrize("command", ["archive", "erase"])
def test_without_a_terminal_only_yes_goes_on(clew: Clew, ids: list[str], command: str) -> None:
    run = clew(command, *SELECTED)
    assert run.code == 2
    assert "nobody can be asked here" in run.err
    assert "2 sessions; --yes does it" in run.err
    assert set(states(clew).values()) == {"active"}


def test_what_fails_is_named_and_the_others_are_done(clew: Clew, ids: list[str]) -> None:
    clew("lease", "acquire", ids[0], "--seconds", "600")
    run = clew("archive", *SELECTED, "--yes")
    assert run.code == 4
    lines = run.err.splitlines()
    assert lines[0] == "archived 1 of 2 sessions, 1 failed"
    assert lines[1].startswith(f"  {ids[0][:10]} a: session {ids[0]} is being written by")
    assert states(clew) == {"a": "active", "b": "archived", "c": "active", "d": "active"}
    run = clew("archive", *SELECTED, "--yes", "--json")
    by_status = {line["status"]: line for line in run.objects}
    assert (run.code, by_status["failed"]["error"]["error"]) == (4, "lease_held")
    assert by_status["skipped"]["reason"] == "archived before"


def test_an_export_goes_into_a_folder_once(clew: Clew, ids: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    for form, suffix in (("markdown", "md"), ("jsonl", "jsonl"), ("html", "html")):
        export = ("export", "--project", "web", "--as", form, "--to", str(out))
        assert clew(*export).err == "exported 3 of 3 sessions\n"
        assert {path.name for path in out.glob(f"*.{suffix}")} == {f"{id}.{suffix}" for id in ids[:3]}
        assert clew(*export).err == "exported 0 of 3 sessions, 3 exported before\n"
    clew("append", ids[0], stdin=HI % NEW)
    run = clew("export", "--project", "web", "--to", str(out))
    assert run.code == 4
    assert run.err.startswith("exported 0 of 3 sessions, 2 exported before, 1 failed\n")
    assert "exists and was not changed; --overwrite replaces it" in run.err
    assert clew("export", "--project", "web", "--to", str(out), "--overwrite").err == (
        "exported 1 of 3 sessions, 2 exported before\n"
    )
    assert (out / f"{ids[0]}.md").stat().st_mode & 0o077 == 0
    assert clew("export", "--project", "web").code == 2
    assert clew("export", ids[0], "--to", str(out)).code == 2


def test_native_files_that_were_exported_are_imported_as_the_same_sessions(
    clew: Clew, home: Path, tmp_path: Path
) -> None:
    from support import claude

    path = claude.transcript(tmp_path / "person")
    path.write_bytes(claude.lines(claude.story()))
    clew("import", str(path))
    out = tmp_path / "out"
    assert clew("export", "--all", "--as", "native", "--to", str(out)).err == "exported 1 of 1 session\n"
    [exported] = out.rglob("*.jsonl")
    assert exported.read_bytes() == path.read_bytes()
    assert [line["status"] for line in clew("import", str(out), "--json").objects[:-1]] == ["same"]
    assert len(clew("sessions", "--json").objects) == 1
    other = {"CLEW_HOME": str(tmp_path / "other")}
    assert [line["status"] for line in clew("import", str(out), "--json", **other).objects[:-1]] == ["new"]


def test_share_gives_each_session_once(clew: Clew, ids: list[str]) -> None:
    for _ in range(2):
        assert clew("share", "--project", "web", "bob", "--yes").err == "shared 3 of 3 sessions\n"
    shared = [line["session"] for line in clew("access", "list", "--json").objects]
    assert sorted(shared) == sorted(ids[:3])


def test_erase_takes_forks_before_what_they_were_forked_from(clew: Clew, ids: list[str]) -> None:
    clew("fork", ids[0])
    run = clew("erase", "--project", "web", "--yes")
    assert (run.code, run.err.splitlines()[-1]) == (0, "erased 4 of 4 sessions")
    assert {line["title"] for line in clew("sessions", "--json").objects} == {"d"}


@pytest.mark.parametrize("fails", [False, True], ids=["all", "the last one fails"])
def test_nothing_of_what_was_erased_is_left_in_the_files(clew: Clew, home: Path, fails: bool) -> None:
    word = "unmistakable" + "word"
    made = []
    for n in range(3):
        [opened] = clew("open", "--title", f"{word} {n}", "--project", "web", "--json").objects
        clew("append", opened["id"], stdin=(HI % OLD).replace('"hi"', f'"{word} {n}"'))
        made.append(opened["id"])
    assert clew("search", word).code == 0
    if fails:
        # The oldest comes last, and cannot be erased: its fork is not among those that are selected.
        clew("fork", made[0])
        clew("tag", made[0], "x")
        clew("tag", made[1], "x")
    run = clew("erase", *(("--tag", "x") if fails else ("--project", "web")), "--yes")
    assert run.code == (4 if fails else 0), run.err
    files = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert (b"unmistakableword 1" in files) is False
    assert fails or b"unmistakableword" not in files


def test_a_person_is_asked_and_can_say_no(clew: Clew, home: Path, ids: list[str]) -> None:
    environment = {"CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "TZ": "UTC", "NO_COLOR": "1"}
    with Terminal([sys.executable, "-m", "clew", "archive", *SELECTED], env=environment, columns=80) as terminal:
        assert "This archives 2 sessions" in terminal.expect("Go on?")
        terminal.send("n\r")
        assert terminal.end() == 130
    assert set(states(clew).values()) == {"active"}


def test_ctrl_c_leaves_whole_sessions_and_the_same_command_does_the_rest(clew: Clew, home: Path) -> None:
    for n in range(12):
        clew("open", "--title", str(n))
    environment = {**os.environ, "CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada"}
    command = [sys.executable, "-m", "clew", "archive", "--all", "--yes", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert child.returncode in (0, 130)
    assert {"archived"} <= set(states(clew).values())
    assert clew("archive", "--all", "--yes").code == 0
    assert set(states(clew).values()) == {"archived"}
