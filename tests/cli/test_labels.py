"""`clew title`, `tag`, `tags`, `star`, `note`, and the list that shows them."""

import sys
from pathlib import Path

import pytest

from support.terminal import Terminal

from .conftest import Clew

HI = '{"kind": "message_added", "role": "user", "text": "hi"}\n'


def test_a_session_is_titled_tagged_starred_and_noted(clew: Clew, session: str) -> None:
    clew("append", session, stdin=HI)
    assert clew("title", session[:6], "The", "lock", "again").out == f"{session[:10]} The lock again\n"
    assert clew("tag", session[:6], "Work", "urgent").out == f"{session[:10]} The lock again #urgent #work\n"
    assert clew("star", session[:6]).out == f"{session[:10]} ★ The lock again #urgent #work\n"
    noted = clew("note", session[:6], "ask", "Bob")
    assert noted.out.splitlines()[1] == "  ask Bob"
    [line] = clew("sessions", "--tag", "work", "--starred", "--json").objects
    assert (line["title"], line["tags"], line["starred"], line["notes"]) == (
        "The lock again", ["urgent", "work"], True, 1,
    )  # fmt: skip
    assert "★ The lock again #urgent #work" in clew("sessions").out
    shown = clew("show", session).out
    assert "tags         urgent, work, starred\n" in shown
    assert "ask Bob (ada, " in shown
    assert clew("tags", "--json").objects[0]["tag"] == "urgent"
    assert clew("tag", session, "work", "--remove").out.endswith("again #urgent\n")
    assert "★" not in clew("star", session, "--remove").out
    note = noted.out.split()[0]
    assert clew("note", session, "--remove", note).err.startswith("no notes; ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("title", "ID", " "), "error: the title is empty; give at least one word\n"),
        (("title", "ID", "x" * 201), "error: the title has 201 characters; give at most 200\n"),
        (("tag", "ID"), "error: no tag is named; give one or several, as in: clew tag ID work urgent\n"),
        (("tag", "ID", "a b"), "error: 'a b' is not a valid tag; use 1 to 40 letters, digits and . : / + @ # - _"),
        (("tag",), "error: no session is named; give an ID, or filters such as --project NAME or --tag TAG"),
        (("note", "ID", " "), "error: the note is empty; give at least one word\n"),
        (("note", "ID", "x", "--remove", "y"), "error: a text adds a note and --remove takes one away; use one"),
        (("note", "ID", "--remove", "nothing"), "has no note 'nothing'\nhint: clew note "),
        (("sessions", "--tag", "wrok"), "error: no session has the tag 'wrok'; did you mean work?\nhint: clew tags\n"),
        (("star", "zzzz"), "error: no session 'zzzz' in this store"),
    ],
)
def test_a_wrong_label_is_refused_with_what_to_do(
    clew: Clew, session: str, arguments: tuple[str, ...], said: str
) -> None:
    clew("tag", session, "work")
    run = clew(*(session if word == "ID" else word for word in arguments))
    assert run.code in (2, 3)
    assert said in run.err


def test_a_list_says_how_many_more_there_are_and_how_to_see_them(clew: Clew) -> None:
    for n in range(5):
        clew("open", "--title", f"number {n}")
    first = clew("sessions", "-n", "2")
    last = first.out.splitlines()[-1].split()[0]
    assert first.err == f"2 of 5; --limit 5 shows more, --before {last} shows older ones\n"
    assert clew("sessions", "-n", "5").err == clew("sessions").err == ""
    second = clew("sessions", "-n", "2", "--before", last)
    assert "number 2" in second.out
    assert "number 1" in second.out
    assert clew("sessions", "-n", "2", "--json").err == ""


@pytest.mark.parametrize("columns", [40, 80])
def test_a_list_is_readable_on_a_narrow_terminal(clew: Clew, home: Path, session: str, columns: int) -> None:
    clew("append", session, stdin=HI)
    clew("title", session, "Why do two writers lock the database, and what would it take to change that?")
    environment = {"CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "TZ": "UTC", "CLEW_PAGER": ""}
    with Terminal([sys.executable, "-m", "clew", "sessions"], env=environment, columns=columns) as terminal:
        assert terminal.end() == 0
    shown = terminal.seen
    assert session[:10] in shown
    assert "Why do two" in shown
    assert all(len(line) <= columns for line in shown.splitlines() if session[:10] in line)


def test_empty_sessions_are_hidden_and_shown_with_all(clew: Clew) -> None:
    clew("open", "--metadata", '{"runtime": "codex"}')
    run = clew("sessions")
    assert (run.out, run.err) == ("", "1 empty session is hidden; --all shows it\n")
    clew("open", "--metadata", '{"runtime": "codex"}')
    clew("open", "--title", "mine")
    run = clew("sessions")
    assert (len(run.out.splitlines()), run.err) == (3, "2 empty sessions are hidden; --all shows them\n")
    assert len(clew("sessions", "--all", "--json").objects) == 3
    assert clew("sessions", "--all").err == ""
