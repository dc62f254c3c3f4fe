"""Help: every page as it is shown at two widths, every command in one section, no summary cut, near names suggested.

`python tests/cli/help_pages.py` writes the pages anew.
"""

import json
from difflib import unified_diff
from pathlib import Path

import click
import pytest

from clew.cli.help import ALIASES, SECTIONS
from clew.cli.run import clew as program
from clew.service.kernel.registry import load

from . import help_pages
from .conftest import Clew


@pytest.mark.parametrize("width", help_pages.WIDTHS)
def test_every_help_page_is_as_it_was(width: int) -> None:
    shown, kept = help_pages.book(width), (help_pages.FOLDER / f"{width}.txt").read_text()
    assert not [*unified_diff(kept.splitlines(), shown.splitlines(), lineterm="", n=1)]


@pytest.mark.parametrize("width", help_pages.WIDTHS)
def test_no_line_of_a_help_page_is_cut_or_too_wide(width: int) -> None:
    for path, text in help_pages.pages(width).items():
        for line in text.splitlines():
            assert len(line) <= width, (path, line)
    for path, text in help_pages.pages(width).items():
        if "Options:" in text:
            assert "..." not in text.partition("  -h, --help")[2], path


def test_every_command_is_in_one_section() -> None:
    context = click.Context(program, info_name="clew")
    commands = (program.get_command(context, name) for name in program.list_commands(context))
    shown = sorted(command.name or "" for command in commands if command is not None and not command.hidden)
    placed = sorted(name for names in SECTIONS.values() for name in names.split())
    assert len(placed) == len(set(placed))
    assert set(shown) - set(placed) == set()


def test_what_programs_start_is_not_shown(clew: Clew) -> None:
    shown = clew("--help").out
    assert "\nEveryday:\n" in shown
    assert "\nGo on:\n" in shown
    assert "  follow" not in shown
    assert "  watch" not in shown


def test_names_of_other_programs_do_what_people_expect(clew: Clew, session: str) -> None:
    expected = clew("sessions", "--json").out
    for alias in ("ls", "list", "log"):
        assert clew(alias, "--json").out == expected
    assert set(ALIASES) == {"ls", "list", "log"}
    assert json.loads(clew("log", session, "--json").out)["session"]["id"] == session
    shown = clew("show", "latest", "--json")
    assert shown.objects[0]["session"]["id"] == session
    assert shown.err == f"latest: {session[:10]} Fix the lock\n"


def test_the_latest_session_is_that_of_this_folder(clew: Clew, session: str) -> None:
    folder = str(Path.cwd())
    line = json.dumps({"kind": "runtime_attached", "runtime": "codex", "cwd": folder}) + "\n"
    assert clew("append", session, stdin=line).code == 0
    newer = clew("open", "--title", "elsewhere", "--json").objects[0]["id"]
    assert newer != session
    assert clew("sessions", "--folder", folder, "--json").objects[0]["id"] == session
    assert len(clew("sessions", "--folder", folder, "--json").objects) == 1
    assert clew("show", "latest", "--json").objects[0]["session"]["id"] == session


def test_latest_without_a_session_says_so(clew: Clew) -> None:
    shown = clew("show", "latest")
    assert (shown.code, shown.err) == (3, "error: there is no session yet\nhint: clew sessions\n")


def test_a_message_names_the_option_the_value_and_the_range(clew: Clew, session: str) -> None:
    for words, message in (
        (["sessions", "--limit", "0"], "--limit is 0; it must be a whole number from 1 to 10,000"),
        (["fork", session, "--at", "0"], "--at is 0; it must be a whole number of 1 or more"),
        (["open", "--budget-tokens", "-4"], "--budget-tokens is -4; it must be a whole number of 1 or more"),
        (["export", session, "--upto", "0"], "--upto is 0; it must be a whole number of 1 or more"),
        (["sessions", "--runtime", "codx"], "no runtime 'codx'; did you mean codex?"),
        (["usage", "--runtime", "gemni-cli"], "no runtime 'gemni-cli'; did you mean gemini-cli?"),
        (["sessions", "--project", "defualt"], "no project 'defualt'; did you mean default?"),
    ):
        run = clew(*words)
        assert run.code in (2, 3)
        assert run.err.startswith(f"error: {message}"), run.err
        assert "$." not in clew(*words, "--json").err


def test_no_operation_says_where_in_an_object_an_error_is() -> None:
    """The types of every argument are told in words; a wrong one of each kind is tried."""
    from clew.model.errors import InvalidInput
    from clew.service.kernel.call import _parse

    for operation in load().values():
        for parameter in operation.parameters:
            for wrong in (object(), -(10**9), "", {"a": 1}):
                needed = {one.name: wrong for one in operation.parameters if one.required}
                try:
                    _parse(operation, needed | {parameter.name: wrong})
                except InvalidInput as error:
                    assert "$" not in str(error), (operation.name, str(error))  # noqa: PT017  # many may pass
                    assert "Expected" not in str(error), (operation.name, str(error))  # noqa: PT017


def test_privacy_shows_and_changes_only_when_asked(clew: Clew, session: str) -> None:
    assert clew("privacy", session, "--private").code == 0
    shown = clew("privacy", session)
    assert shown.out == f"{session} is private: ada and whom it is shared with can see it\n"
    assert clew("privacy", session, "--json").objects[0]["private"] is True
    assert clew("privacy", session, "--open", "--json").objects[0]["private"] is False
    assert "is open: all who may see default" in clew("privacy", session).out


def test_a_policy_needs_a_project_that_exists(clew: Clew, session: str) -> None:
    run = clew("retention", "set", "defualt", "--keep-days", "3")
    assert (run.code, run.err) == (3, "error: no project 'defualt'; did you mean default?\n")


def test_what_cannot_be_undone_says_what_it_will_do_and_needs_yes(clew: Clew, session: str) -> None:
    for words, will in (
        (["erase", session], f"This erases {session} Fix the lock (1 event) for good"),
        (["key", "revoke", "abc"], "This ends the key abc for good"),
        (["principal", "disable", "bob"], "This shuts bob out"),
        (["agent", "remove", "rev"], "This removes what is registered of the agent rev"),
    ):
        run = clew(*words)
        assert run.code == 2
        assert f"nothing was done, because nobody can be asked here. {will}" in run.err
        assert run.err.rstrip().endswith("--yes does it")
    assert clew("show", session, "--json").objects[0]["session"]["state"] == "opened"


def test_tail_prints_as_many_events_as_there_are_to_print(clew: Clew, session: str) -> None:
    line = '{"kind": "message_added", "role": "user", "text": "hi"}\n'
    clew("append", session, stdin=line * 5)
    other = clew("open", "--project", "other", "--json").objects[0]["id"]
    clew("append", other, stdin=line * 5)
    assert [event["seq"] for event in clew("tail", "--project", "default", "-n", "3", "--json").objects] == [4, 5, 6]
    assert [event["seq"] for event in clew("tail", session, "-n", "2", "--json").objects] == [5, 6]
    assert clew("tail", "-n", "0").out == ""
    assert clew("tail", "-n", "-1").code == 2
