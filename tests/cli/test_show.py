"""`clew show`: a session reads as a transcript, whatever is in it, on a terminal and on a pipe."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from rich.cells import cell_len

from clew.app import connect
from clew.cli.showing import on_paper, on_screen
from clew.cli.transcript import Block, Manner, Prose, Span, blocks
from clew.model import events as e
from clew.model.course import course_of
from clew.model.events import KINDS, CallMade, CallReturned, Event, MessageAdded, Opaque, Removed
from clew.model.parts import FileChange
from clew.model.transcript import turns, whole
from clew.runtimes.changes import Line
from clew.store import open_store
from clew.store.objects import objects

from .conftest import Clew

HOSTILE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# 2026-03-01, a minute before midnight.
SUNDAY = 1_772_409_540_000_000

Add = Callable[..., None]
Terminal = Callable[..., "Shown"]


@pytest.fixture
def add(home: Path, session: str) -> Add:
    """Appends drafts to the session, or to another one."""

    def append(*drafts: dict[str, Any], to: str = "") -> None:
        with connect(home=home, principal="person:ada") as plane:
            plane.get(to or session).append(*drafts)

    return append


class Shown:
    """What one run printed to a terminal."""

    def __init__(self, code: int, out: str) -> None:
        self.code = code
        self.out = out
        self.text = COLOURS.sub("", out)


@pytest.fixture
def terminal(home: Path) -> Terminal:
    """Runs `clew` on a terminal of its own."""
    left_out = ("CLEW_", "NO_COLOR", "PAGER", "LESS", "COLUMNS", "LINES", "COLORTERM", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment = {
        **kept, "CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "TZ": "UTC", "TERM": "xterm-256color",
        "CLEW_PAGER": "",
    }  # fmt: skip

    def run(*arguments: str, columns: int = 80, rows: int = 24, **more: str) -> Shown:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with subprocess.Popen(
            [sys.executable, "-m", "clew", *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
            env={**environment, **more},
        ) as child:  # fmt: skip
            os.close(theirs)
            found = b""
            try:
                while data := os.read(ours, 65536):
                    found += data
            except OSError:
                pass  # Linux reports the end of a terminal whose other side is closed as an error.
            os.close(ours)
        return Shown(child.returncode, found.decode().replace("\r\n", "\n"))

    return run


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"kind": "message_added", "role": role, "text": text, **more}


def called(call: str, tool: str, input: Any = None, **more: Any) -> dict[str, Any]:
    return {"kind": "call_made", "call": call, "tool": tool, "input": input or {}, **more}


def returned(call: str, output: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "call_returned", "call": call, "output": output, **more}


def numbered(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def below(text: str, head: str) -> list[str]:
    """The lines of a block, without their indentation: those under the one line that holds this head."""
    lines = text.split("\n")
    [start] = [number for number, line in enumerate(lines) if head in line]
    end = next((number for number in range(start + 1, len(lines)) if not lines[number].strip()), len(lines))
    return [line.strip() for line in lines[start + 1 : end]]


# The whole ------------------------------------------------------------------------------------------------------------


def test_the_head_comes_first_then_the_conversation_then_what_is_known(clew: Clew, session: str, add: Add) -> None:
    add(
        {"kind": "decision_made", "decision": "d", "choice": "use WAL", "why": "readers never block"},
        {"kind": "fact_learned", "fact": "f", "text": "one database"},
        {"kind": "progress_noted", "done": "the fix", "next": "the docs", "open": ["who reviews?"]},
        said("why does it lock?"),
        called("c", "Read", {"file_path": "src/db.py"}),
    )
    shown = clew("show", session).out
    order = [
        f"session      {session}", "title        Fix the lock", "state        active", "project      default",
        "agent        reviewer", "why does it lock?", "\ndecisions\n  use WAL (readers never block)",
        "\nfacts\n  one database", "\nprogress\n  done: the fix\n  next: the docs\n  open: who reviews?",
        "\nworking set\n  src/db.py (read 1, written 0)",
    ]  # fmt: skip
    assert [shown.find(part) for part in order] == sorted(shown.find(part) for part in order)
    assert all(part in shown for part in order)


def test_a_session_in_which_nothing_was_said_says_so(clew: Clew, session: str) -> None:
    assert f"nothing was said yet; append to it with: clew append {session[:10]}" in clew("show", session).out


def test_an_event_has_its_seq_and_local_time_and_a_day_has_a_line(clew: Clew, session: str, add: Add) -> None:
    add(said("late", said_at=SUNDAY), said("early", said_at=SUNDAY + 60_000_000))
    shown = clew("show", session).out
    assert "── 2026-03-01 ──\n\n  2 23:59   you\n            late\n" in shown
    assert "── 2026-03-02 ──\n\n  3 00:00   you\n            early\n" in shown
    there = clew("show", session, TZ="Etc/GMT-3").out
    assert "── 2026-03-02 ──\n\n  2 02:59   you" in there
    assert there.count("──\n") == 1


def test_a_record_without_a_time_has_that_of_the_one_before(clew: Clew, session: str, add: Add) -> None:
    add({"kind": "x.first", "source": "1"}, said("hi", said_at=SUNDAY, source="2"), {"kind": "x.mode", "source": "3"})
    shown = clew("show", session).out
    assert "  2 23:59   x.first\n" in shown
    assert "  4 23:59   x.mode\n" in shown


@pytest.mark.parametrize("zone", ["Etc/GMT-14", "Etc/GMT+12"])
def test_a_time_that_cannot_be_is_shown_as_one_that_can(clew: Clew, session: str, add: Add, zone: str) -> None:
    add(said("before all", said_at=-(2**62)), said("after all", said_at=2**62))
    run = clew("show", session, TZ=zone)
    assert (run.code, run.err) == (0, "")
    assert "before all" in run.out
    assert "after all" in run.out


def test_everybody_is_called_by_name(clew: Clew, session: str, add: Add) -> None:
    add(
        said("mine"), said("the answer", "assistant", model="sonnet-5"), said("rules\n" * 9, "system"),
        said("told so", "developer"),
    )  # fmt: skip
    clew("append", session, stdin=json.dumps(said("yours")), CLEW_PRINCIPAL="person:bob")
    shown = clew("show", session).out
    assert re.search(r"2 \d\d:\d\d   you\n +mine\n", shown)
    assert re.search(r"3 \d\d:\d\d   reviewer  sonnet-5\n +the answer\n", shown)
    assert re.search(
        r"4 \d\d:\d\d   system\n( +rules\n){3} +… 3 lines more, --full shows them\n( +rules\n){3}\n", shown
    )
    assert re.search(r"5 \d\d:\d\d   developer\n +told so\n", shown)
    assert re.search(r"6 \d\d:\d\d   bob\n +yours\n", shown)
    [nameless] = clew("open", "--json").objects
    add(said("hello", "assistant", model="sonnet-5"), said("again", "assistant"), to=nameless["id"])
    assert re.search(r"2 \d\d:\d\d   sonnet-5\n(.|\n)*3 \d\d:\d\d   assistant\n", clew("show", nameless["id"]).out)


def test_json_is_the_session_and_not_the_transcript(clew: Clew, session: str, add: Add) -> None:
    add(said("hi"))
    [found] = clew("show", session, "--json").objects
    assert list(found) == [
        "session", "lineage", "forks", "subagent_of", "subagents", "facts", "decisions", "progress", "scratch",
        "working_set", "notes",
    ]  # fmt: skip


def test_a_reader_that_leaves_is_met_with_silence(clew: Clew, home: Path, session: str, add: Add) -> None:
    add(*[said("hi" * 200)] * 500)
    command = [sys.executable, "-m", "clew", "show", session]
    environment = {**os.environ, "CLEW_HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""


# Calls ----------------------------------------------------------------------------------------------------------------

TELLING = {
    "a command": ({"command": "pytest -x", "timeout": 5}, "pytest -x"),
    "a command of several lines": ({"command": "set -e\nls"}, "set -e ls"),
    "a command in words": ({"command": ["git", "log", "a b"]}, "git log 'a b'"),
    "a script for a shell": ({"cmd": ["bash", "-lc", "ls | wc"]}, "ls | wc"),
    "a path": ({"file_path": "a.py", "offset": 3}, "a.py"),
    "a path in the directory of the session": ({"filePath": "/home/ada/shop/src/a.py"}, "src/a.py"),
    "a pattern and where": ({"pattern": "def f", "path": "src", "mode": "x"}, "def f in src"),
    "an address": ({"url": "https://example.org/x", "prompt": "read"}, "https://example.org/x"),
    "a query": ({"query": "wal mode", "count": 5}, "wal mode"),
    "a task": ({"description": "Count files", "prompt": "Count all files"}, "Count files"),
    "a command of an editor": ({"command": "view", "path": "a.py"}, "view a.py"),
    "nothing telling": ({"id": 9, "deep": {"a": 1}, "todos": [1, 2], "on": True}, "id=9 deep={1} todos=[2] on=True"),
    "JSON in a text": ({"input": '{"command":["ls"]}'}, "ls"),
    "a text": ({"input": "await run()"}, "input=await run()"),
}  # fmt: skip


def test_a_call_is_told_by_its_most_telling_input(clew: Clew, session: str, add: Add) -> None:
    add(
        {"kind": "runtime_attached", "runtime": "x", "cwd": "/home/ada/shop"},
        *(called(name, name, input) for name, (input, _) in TELLING.items()),
    )
    shown = clew("show", session).out
    for name, (_, telling) in TELLING.items():
        assert f"   ● {name}  {telling}  no return\n" in shown


def test_an_outcome_stands_next_to_its_call(clew: Clew, session: str, add: Add) -> None:
    add(
        called("a", "one"), returned("a", "x"), called("b", "many"), returned("b", numbered(7)),
        called("c", "bad"), returned("c", "no", failed=True), called("d", "none"), returned("d", None),
    )  # fmt: skip
    shown = clew("show", session).out
    for line in ("● one  ok, 1 line\n", "● many  ok, 7 lines\n", "● bad  failed, 1 line\n", "● none  ok, no output\n"):
        assert line in shown


def test_output_is_folded_to_its_ends_and_full_shows_it(clew: Clew, session: str, add: Add) -> None:
    add(called("c", "Bash"), returned("c", numbered(134)))
    folded = ["line 1", "line 2", "line 3", "… 128 lines more, --full shows them", "line 132", "line 133", "line 134"]
    assert below(clew("show", session).out, "● Bash") == folded
    assert below(clew("show", session, "--full").out, "● Bash") == numbered(134).split("\n")[:-1]


def test_a_fold_that_would_save_nothing_is_not_made(clew: Clew, session: str, add: Add) -> None:
    add(called("c", "Bash"), returned("c", numbered(7)))
    assert below(clew("show", session).out, "● Bash") == numbered(7).split("\n")[:-1]


def test_more_of_a_failed_output_is_shown_and_in_red(clew: Clew, terminal: Terminal, session: str, add: Add) -> None:
    add(called("c", "Bash"), returned("c", numbered(50), failed=True))
    ends = [f"line {number}" for number in (1, 2, 3, *range(39, 51))]
    folded = [*ends[:3], "… 35 lines more, --full shows them", *ends[3:]]
    assert below(clew("show", session).out, "● Bash") == folded
    assert "\x1b[31mline 50\x1b[0m" in terminal("show", session).out


def test_a_long_line_is_folded_too(clew: Clew, terminal: Terminal, session: str, add: Add) -> None:
    add(called("c", "Bash", {"command": "echo " + "y" * 5000}), returned("c", "x" * 5000))
    shown = clew("show", session).out
    assert "x" * 299 + "…" in shown
    assert "x" * 300 not in shown
    assert "y" * 300 not in shown
    full = clew("show", session, "--full").out
    assert "x" * 5000 in full
    assert "y" * 5000 in full
    assert re.search(r"● Bash  echo y+…  ok, 1 line\n", terminal("show", session).text)


def test_full_shows_the_whole_input_of_a_call(clew: Clew, session: str, add: Add) -> None:
    add(called("c", "Bash", {"command": "set -e\nmake", "timeout": 60, "env": {"A": "1"}}), returned("c", "made"))
    assert below(clew("show", session, "--full").out, "● Bash") == [
        "set -e", "make", "{", '"timeout": 60,', '"env": {', '"A": "1"', "}", "}", "made",
    ]  # fmt: skip


OUTPUTS: dict[str, tuple[Any, list[str]]] = {
    "blocks of text": ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["a", "b"]),
    "JSON": ({"ok": True}, ["{", '"ok": true', "}"]),
    "a text that is wrapped": ('{"output":"gone\\n","metadata":{"exit_code":127}}', ["gone", "[exit code 127]"]),
    "more than a text": ({"output": "x", "error": "y"}, ["{", '"output": "x",', '"error": "y"', "}"]),
    "colours": ("\x1b[31mred\x1b[0m and \x1b[2Jgone", ["red and \\x1b[2Jgone"]),
    "ends of lines": ("a\r\nb\rc", ["a", "b\\x0dc"]),
}


def test_output_is_told_as_text(clew: Clew, session: str, add: Add) -> None:
    add(*(draft for name, (output, _) in OUTPUTS.items() for draft in (called(name, name), returned(name, output))))
    shown = clew("show", session).out
    assert {name: below(shown, f"● {name}") for name in OUTPUTS} == {name: told for name, (_, told) in OUTPUTS.items()}


def test_each_return_is_under_its_call(clew: Clew, session: str, add: Add) -> None:
    add(
        called("a", "first"), called("b", "second"), called("x", "third"), returned("b", "of the second"),
        returned("a", "of the first"), returned("lost", "of nobody"),
        # Some programs number the calls of every answer anew.
        called("x", "fourth"), returned("x", "of the fourth"),
    )  # fmt: skip
    shown = clew("show", session).out
    assert below(shown, "● first") == ["of the first"]
    assert below(shown, "● second") == ["of the second"]
    assert below(shown, "● third  no return") == []
    assert below(shown, "● the return of a call that is not here  ok, 1 line") == ["of nobody"]
    assert below(shown, "● fourth") == ["of the fourth"]


OLD, NEW = "a\nb\nc\nd\ne\nf", "a\nb\nc\nD\ne\nf"
CHANGED = ["a", "b", "c", "-d", "+D", "e", "f"]
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-d\n+D\n*** End Patch"
PATCHED = ["*** Begin Patch", "*** Update File: a.py", "@@", "-d", "+D", "*** End Patch"]
EDITS = {
    "Claude Code": ("Edit", {"file_path": "a.py", "old_string": OLD, "new_string": NEW}, "+1 -1", CHANGED),
    "several at once": (
        "MultiEdit",
        {"file_path": "a.py", "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "p", "new_string": ""}]},
        "+1 -2",
        ["-x", "+y", "⋯", "-p"],
    ),
    "OpenCode": ("edit", {"filePath": "a.py", "oldString": OLD, "newString": NEW}, "+1 -1", CHANGED),
    "Copilot and editors": ("edit", {"path": "a.py", "old_str": OLD, "new_str": NEW}, "+1 -1", CHANGED),
    "Pi": ("edit", {"path": "a.py", "edits": [{"oldText": OLD, "newText": NEW}]}, "+1 -1", CHANGED),
    "Droid": ("MultiEdit", {"file_path": "a.py", "changes": [{"old_str": OLD, "new_str": NEW}]}, "+1 -1", CHANGED),
    "Kimi": ("StrReplaceFile", {"path": "a.py", "edit": {"old": OLD, "new": NEW}}, "+1 -1", CHANGED),
    "Codex": ("apply_patch", {"input": PATCH}, "+1 -1", PATCHED),
    "Codex in a shell": ("shell", {"command": ["apply_patch", PATCH]}, "+1 -1", PATCHED),
    "a diff of git": (
        "patch", {"patch": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-d\n+D"}, "+1 -1",
        ["--- a/a.py", "+++ b/a.py", "@@ -1 +1 @@", "-d", "+D"],
    ),
    "an insertion": (
        "str_replace_editor", {"command": "insert", "path": "a.py", "insert_line": 3, "new_str": "x"}, "+1", ["+x"],
    ),
    "a new file": ("Write", {"file_path": "a.py", "content": "x\ny\n"}, "+2", ["+x", "+y"]),
    "Copilot's new file": ("create", {"path": "a.py", "file_text": "x"}, "+1", ["+x"]),
    "Gemini's new file": ("write_file", {"file_path": "a.py", "content": "x"}, "+1", ["+x"]),
    "no change": ("Edit", {"path": "a.py", "old_string": "x", "new_string": "x"}, "1 line", ["no line is another"]),
}  # fmt: skip


def test_an_edit_is_shown_as_a_diff(clew: Clew, session: str, add: Add) -> None:
    add(*(draft for name, (tool, input, _, _) in EDITS.items() for draft in (
        called(name, f"{name}: {tool}", input), returned(name, "The file was updated.")
    )))  # fmt: skip
    shown, full = clew("show", session).out, clew("show", session, "--full").out
    for name, (tool, _, count, lines) in EDITS.items():
        assert re.search(rf"● {name}: {tool}  .*a\.py  ok, {re.escape(count)}\n", shown)
        assert below(shown, f"● {name}:") == lines
        assert below(full, f"● {name}:") == [*lines, "The file was updated."]


def test_a_failed_edit_says_why(clew: Clew, session: str, add: Add) -> None:
    add(called("c", "Edit", {"path": "a.py", "old_string": "x", "new_string": "y"}), returned("c", "no", failed=True))
    shown = clew("show", session).out
    assert "● Edit  a.py  failed, 1 line\n" in shown
    assert below(shown, "● Edit") == ["-x", "+y", "no"]


def test_the_lines_of_a_diff_have_their_colours(terminal: Terminal, session: str, add: Add) -> None:
    add(called("c", "Edit", {"path": "a.py", "old_string": "x", "new_string": "y"}))
    shown = terminal("show", session).out
    assert "\x1b[31m-x\x1b[0m" in shown
    assert "\x1b[32m+y\x1b[0m" in shown


def test_a_new_file_is_folded_to_its_first_lines_and_a_change_to_its_ends(clew: Clew, session: str, add: Add) -> None:
    new = {"path": "n", "content": numbered(30)}
    add(called("a", "Write", new), called("b", "Edit", {"path": "o", "old_string": "x", "new_string": numbered(2000)}))
    shown = clew("show", session).out
    assert below(shown, "● Write") == [*(f"+line {n}" for n in range(1, 9)), "… 22 lines more, --full shows them"]
    change = below(shown, "● Edit")
    assert change[:2] == ["-x", "+line 1"]
    assert change[16] == "… 1,982 lines more, --full shows them"
    assert change[-2:] == ["+line 2000", "+"]


# Messages and other events --------------------------------------------------------------------------------------------


def test_thinking_is_counted_and_shown_when_asked_for(clew: Clew, session: str, add: Add) -> None:
    thought = {"type": "thinking", "text": "is it *a race*? " * 80}
    add(
        {"kind": "message_added", "role": "assistant", "parts": [thought]},
        {"kind": "message_added", "role": "assistant", "parts": [thought, {"type": "text", "text": "It is."}]},
        {"kind": "message_added", "role": "assistant", "parts": [{"type": "thinking", "text": "", "signature": "x"}]},
    )
    shown = clew("show", session).out
    assert re.search(r"2 \d\d:\d\d   thinking \(320 words\)\n", shown)
    assert re.search(r"3 \d\d:\d\d   reviewer\n +thinking \(320 words\)\n +It is\.\n", shown)
    assert not re.search(r"4 \d\d:\d\d ", shown)
    assert "race" not in shown
    assert clew("show", session, "--thinking").out.count("is it *a race*?") == 160


def test_images_and_files_are_named(clew: Clew, home: Path, session: str, add: Add) -> None:
    with open_store(f"sqlite:///{home / 'clew.db'}") as store:
        blob = objects.save(store, b"bytes")
    image = {"type": "image", "blob": blob, "media_type": "image/png"}
    file = {"type": "file", "blob": blob, "media_type": "application/pdf", "name": "a\x1b.pdf"}
    add(
        {"kind": "message_added", "role": "user", "parts": [{"type": "text", "text": "look"}, image, file]},
        called("c", "screenshot"),
        {"kind": "call_returned", "call": "c", "parts": [image]},
    )
    shown = clew("show", session).out
    assert below(shown, "you") == ["look", "[image png]", "[file application/pdf, a\\x1b.pdf]"]
    assert below(shown, "● screenshot  ok\n".strip()) == ["[image png]"]


def test_subagents_stand_behind_a_bar(clew: Clew, session: str, add: Add) -> None:
    add(
        called("t", "Task", {"description": "Search"}), said("Search the docs", side="side"),
        said("Found.\n\nAll of it.", "assistant", side="side", model="haiku"), called("g", "Grep", side="side"),
        said("Me too.", "assistant", side="agent-7"), returned("t", "Found."),
    )  # fmt: skip
    shown = clew("show", session).out
    assert re.search(r"3 \d\d:\d\d   │ to subagent\n {12}│ Search the docs\n", shown)
    assert re.search(r"4 \d\d:\d\d   │ subagent  haiku\n {12}│ Found\.\n {12}│\n {12}│ All of it\.\n", shown)
    assert re.search(r"5 \d\d:\d\d   │ ● Grep  no return\n", shown)
    assert re.search(r"6 \d\d:\d\d   │ agent-7\n", shown)
    assert below(shown, "● Task") == ["Found."]


def test_a_compaction_is_a_line_with_its_summary_folded(clew: Clew, session: str, add: Add) -> None:
    add(said("before"), {"kind": "compacted", "summary": numbered(20)}, said("after"))
    shown = clew("show", session).out
    assert below(shown, "── earlier conversation summarised ──")[3] == "… 14 lines more, --full shows them"
    assert shown.index("before") < shown.index("summarised") < shown.index("after")
    assert "line 10\n" in clew("show", session, "--full").out


def test_what_was_taken_back_is_not_shown_and_a_correction_is_in_its_place(clew: Clew, session: str, add: Add) -> None:
    add(
        said("first", source="a"), said("a mistake", source="b"), {"kind": "rewound", "to": "a"},
        said("the right way", source="c"), {"kind": "x.note", "source": "n"}, {"kind": "x.between"},
        said("the end", source="d"),
        said("first, corrected", source="a~2"), {"kind": "x.other", "source": "n~2"},
    )  # fmt: skip
    shown = clew("show", session).out
    assert "a mistake" not in shown
    assert "x.note" not in shown
    places = [shown.find(text) for text in ("first, corrected", "the right way", "x.other", "x.between", "the end")]
    assert "1 event was taken back by a rewind" in shown
    assert places == sorted(places)
    assert -1 not in places
    assert clew("show", session, "--at", "3").out.count("event 3 is not part of the conversation as it is now") == 1
    assert "a mistake" in clew("show", session, "--events", "--after", "2", "--upto", "3").out


def test_pruned_events_are_told_in_one_line(clew: Clew, session: str, add: Add) -> None:
    add(*[said("canary")] * 7, {"kind": "fact_learned", "fact": "f", "text": "kept"}, said("canary"))
    clew("retention", "set", "default", "--keep-days", "0")
    clew("retention", "apply", "--yes")
    shown = clew("show", session).out
    assert re.search(r"  2 \d\d:\d\d   7 events were pruned\n  9 \d\d:\d\d   fact learned: kept\n", shown)
    assert re.search(r" 10 \d\d:\d\d   1 event was pruned\n", shown)
    assert "canary" not in shown


def test_an_erased_session_says_that_it_was(clew: Clew, session: str, add: Add) -> None:
    add(*[said("canary")] * 7)
    clew("erase", session, "--yes", "--reason", "the customer asked")
    shown = clew("show", session).out
    assert "title        (erased)\nstate        erased\n" in shown
    assert "8 events were erased\n" in shown
    assert "this session was erased, 8 events, the customer asked\n" in shown
    assert "canary" not in shown


def test_foreign_events_are_told_by_their_kinds_in_one_line(clew: Clew, session: str, add: Add) -> None:
    add(*[{"kind": "x.progress", "secret": 1}] * 3, {"kind": "x.mode"}, {"kind": "x.progress"})
    shown = clew("show", session).out
    assert re.search(r"  2 \d\d:\d\d   x\.progress \(4\), x\.mode\n", shown)
    assert "nothing was said" not in shown
    assert "secret" not in shown


def test_a_fork_shows_its_ancestors_events_and_where_it_begins(clew: Clew, session: str, add: Add) -> None:
    add(said("shared"), said("not shared"))
    [child] = clew("fork", session, "--at", "2", "--json").objects
    add(said("own"), to=child["id"])
    shown = clew("show", child["id"]).out
    assert "not shared" not in shown
    line = shown.index(f"── forked from {session} at 2 ──")
    assert shown.index("shared") < line < shown.index("own\n")


def test_lifecycle_and_people_are_told_in_passing(clew: Clew, session: str, add: Add) -> None:
    add(said("hi"), {"kind": "approval_asked", "approval": "a", "question": "may I?"})
    add({"kind": "approval_given", "approval": "a", "allowed": False, "note": "no"})
    clew("pause", session, "--reason", "lunch\x1b[2J")
    shown = clew("show", session).out
    assert "approval asked: may I?\n" in shown
    assert "approval given: not allowed, no\n" in shown
    assert "session paused: lunch\\x1b[2J\n" in shown


def example(kind: str) -> Any:
    """A body of a kind with every field filled."""
    values: dict[Any, Any] = {
        Raw: Raw(b'{"a": [1]}'), str: "text", int: 7, bool: True, e.Usage | None: e.Usage(input=1), e.Usage: e.Usage(),
        e.Budget | None: e.Budget(tokens=5), e.Budget: e.Budget(cost_micros=5), tuple[int, ...]: (1, 2),
        tuple[str, ...]: ("a", "b"), tuple[tuple[int, int], ...]: ((1, 2),),
        tuple[e.Part, ...]: (e.TextPart(text="a"), e.ThinkingPart(text="b"), e.ImagePart(blob="c")),
        tuple[e.Touch, ...]: (e.Touch(what="a.py"),),
        tuple[FileChange, ...]: (FileChange(path="a.py", before="", after="00" * 32),),
        e.Workspace: e.Workspace(folder="/work"),
    }  # fmt: skip
    hints = get_type_hints(KINDS[kind])
    return KINDS[kind](**{name: values[hints[name]] for name in KINDS[kind].__struct_fields__})


def events_of(*bodies: Any) -> list[Event]:
    return [
        Event("s" * 20, seq, seq, 10**15, None, "person:ada", None, b"", body) for seq, body in enumerate(bodies, 1)
    ]


def drawn(*bodies: Any, **manner: Any) -> tuple[str, str]:
    events = events_of(*bodies)
    by_seq = {event.seq: event for event in events}
    folded = turns(events, whole(course_of(events), by_seq.get))
    shown = (item for turn in folded for item in turn.items if not item.is_bookkeeping)
    found = list(blocks(shown, Manner(**manner)))
    return "".join(on_paper(found)), "".join(on_screen(found, 80, colours=False))


@pytest.mark.parametrize("kind", [*KINDS, "x.foreign", "removed"])
@pytest.mark.parametrize("full", [False, True])
def test_every_kind_of_event_can_be_shown(kind: str, full: bool) -> None:
    others: dict[str, Any] = {
        "x.foreign": Opaque(kind="x.foreign", raw="{}"), "removed": Removed(kind="message_added", how="pruned"),
    }  # fmt: skip
    body = others.get(kind) or example(kind)
    paper, screen = drawn(body, body, full=full, thinking=full)
    quiet = {
        "session_opened", "turn_started", "turn_ended", "usage_counted", "rewound", "scratch_set", "scratch_cleared",
        "bodies_pruned", "lease_taken", "lease_released",
        # The list and the head of the session show these.
        "session_tagged", "session_untagged", "session_starred", "session_unstarred", "note_removed",
    }  # fmt: skip
    assert bool(paper) == (kind not in quiet)
    assert bool(screen) == (kind not in quiet)


# A part of it ---------------------------------------------------------------------------------------------------------


def test_at_shows_the_place_around_an_event_and_how_to_see_the_rest(clew: Clew, session: str, add: Add) -> None:
    add(*(said(f"message {number}") for number in range(2, 101)))
    shown = clew("show", session, "--at", "50").out
    assert re.findall(r"message (\d+)", shown) == [str(number) for number in range(30, 71)]
    assert re.findall(r"(\d+) \d\d:\d\d ▶ ", shown) == ["50"]
    assert f"… 28 earlier events: clew show {session[:10]} --at 29 (without --at for all)\n" in shown
    assert f"… 30 later events: clew show {session[:10]} --at 71 (without --at for all)\n" in shown
    whole = clew("show", session, "--at", "2").out
    assert "earlier event" not in whole
    assert re.findall(r"message (\d+)", whole) == [str(number) for number in range(2, 23)]


def test_at_shows_all_of_the_event_that_was_asked_for(clew: Clew, session: str, add: Add) -> None:
    thought = {"type": "thinking", "text": "the needle"}
    add(
        called("a", "Bash"), returned("a", numbered(30)), called("b", "Bash"), returned("b", numbered(30)),
        {"kind": "message_added", "role": "assistant", "parts": [thought]},
    )  # fmt: skip
    # A return is found under its call.
    shown = clew("show", session, "--at", "5").out
    assert re.search(r"4 \d\d:\d\d ▶ ● Bash", shown)
    assert shown.count("line 15\n") == 1
    assert "the needle" in clew("show", session, "--at", "6").out


@pytest.mark.parametrize("seq", ["0", "-1", "3", "99999999999"])
def test_at_beyond_the_session_says_where_it_ends(clew: Clew, session: str, add: Add, seq: str) -> None:
    add(said("hi"))
    run = clew("show", session, "--at", seq)
    assert (run.code, run.out) == (2, "")
    assert run.err == f"error: there is no event {seq} in {session}: its events are 1 to 2\n"


def test_last_shows_the_last_turns(clew: Clew, session: str, add: Add) -> None:
    for number in (1, 2, 3):
        add(said(f"question {number}"), said(f"answer {number}", "assistant"), said("aside", side="side"))
    assert re.findall(r"(?:question|answer) \d", clew("show", session, "--last", "2").out) == [
        "question 2", "answer 2", "question 3", "answer 3",
    ]  # fmt: skip
    assert f"… 3 earlier events: clew show {session[:10]}\n" in clew("show", session, "--last", "2").out
    assert "earlier" not in clew("show", session, "--last", "3").out
    nothing = clew("show", session, "--last", "0").out
    assert nothing.startswith(f"session      {session}\n")
    assert "question" not in nothing


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--at", "1", "--last", "1"], "--at and --last"),
        (["--after", "1"], "need --events"),
        (["--upto", "1"], "--at SEQ"),
        (["--last", "-1"], "'--last'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(clew: Clew, session: str, options: list[str], words: str) -> None:
    run = clew("show", session, *options)
    assert (run.code, run.out) == (2, "")
    assert words in run.err


def test_long_lists_are_folded(clew: Clew, session: str, add: Add) -> None:
    add(*({"kind": "fact_learned", "fact": str(number), "text": f"fact {number}"} for number in range(30)))
    shown = clew("show", session, "--last", "0").out
    assert "  fact 19\n  … 10 more, --full shows them\n" in shown
    assert "  fact 29\n" in clew("show", session, "--last", "0", "--full").out


# A pipe and a terminal ------------------------------------------------------------------------------------------------

MARKDOWN = "# Plan\n\nIt is **bold** and `code`\nand a line  \n\n```python\nx = 1\n\n\ny = 2\n```\n<div>&lt;\n"


def test_a_pipe_gets_markdown_as_it_was_written_and_no_colours(clew: Clew, session: str, add: Add) -> None:
    add(said(MARKDOWN, "assistant"), called("c", "Bash"), returned("c", "x", failed=True))
    shown = clew("show", session, NO_COLOR="").out
    assert "".join(f"            {line}\n" if line else "\n" for line in MARKDOWN.split("\n")[:-1]) in re.sub(
        r"(?m)^ +$", "", shown
    )
    assert "\x1b" not in shown


def test_a_terminal_gets_markdown_laid_out(terminal: Terminal, session: str, add: Add) -> None:
    add(said(MARKDOWN, "assistant"))
    shown = terminal("show", session)
    assert "\x1b[1mbold\x1b[0m" in shown.out
    assert "**" not in shown.text
    assert below(shown.text, "It is bold and code") == ["and a line"]
    # Nothing is left out, and code keeps its lines.
    assert "<div>&lt;\n" in shown.text
    assert re.search(r"  x = 1\n\n\n +y = 2\n", shown.text)


def test_nothing_is_coloured_where_colours_are_not_wanted(terminal: Terminal, session: str, add: Add) -> None:
    add(said("# Plan\n```python\nx = 1\n```"), called("c", "Edit", {"path": "a", "old_string": "x", "new_string": "y"}))
    codes = re.findall(r"\x1b\[([0-9;]*)m", terminal("show", session, NO_COLOR="1").out)
    assert {code for found in codes for code in found.split(";")} <= {"0", "1", "2", "3", "4"}
    assert "\x1b" not in terminal("show", session, TERM="dumb").out


def test_wide_characters_are_counted_as_wide(terminal: Terminal, session: str, add: Add) -> None:
    text = "幫我檢查一下 go.mod 裡面 為何版本是 1.24 " * 10
    add(said(text), called("c", "Bash", {"command": text}), returned("c", text))
    for columns in (40, 80, 120):
        lines = terminal("show", session, columns=columns).text.split("\n")
        assert max(map(cell_len, lines)) <= columns
        [call] = [line for line in lines if "● Bash" in line]
        assert re.search(r"  幫.*…  ok, 1 line$", call)
        assert cell_len(call) >= columns - 1


def test_a_wide_terminal_is_not_filled(terminal: Terminal, session: str, add: Add) -> None:
    add(said("word " * 200))
    assert max(map(len, terminal("show", session, columns=300).text.split("\n"))) <= 120


ATTACKS = [
    "\x1b]0;owned\x07", "\x1b[2J\x1b[1;1H", "\x9b2J", "a\rb", "\u202eevil\u2066", "\x08\x08", "\x00",
    "&#x202e; &rlm; &#13;", "<http://a/%1b%5d0;owned%07%e2%80%ae>", "[text](http://a/%1b 'title\x1b')", "\ufeff",
]  # fmt: skip


def test_stored_text_drives_no_terminal(clew: Clew, terminal: Terminal, add: Add) -> None:
    text = "\n\n".join(ATTACKS)
    [opened] = clew("open", "--title", "\x1b]0;owned\x07\u202e", "--agent", "x", "--json").objects
    add(
        said(text), said(text, "assistant", model=text), said(text, side=text), said(text, text),
        {"kind": "message_added", "role": "assistant", "parts": [{"type": "thinking", "text": text}]},
        called("c", text, {"command": text}), returned("c", text), called("d", "t", {text: text}),
        returned("d", {text: text}, failed=True), called("e", "t", {"path": text, "old": text, "new": "x"}),
        called("f", "t", {"path": text, "content": text}), {"kind": "compacted", "summary": text},
        {"kind": "session_titled", "title": text}, {"kind": "x.y", "text": text},
        {"kind": "decision_made", "decision": "d", "choice": text, "why": text},
        {"kind": "scratch_set", "name": text, "value": text}, to=opened["id"],
    )  # fmt: skip
    for options in ([], ["--full", "--thinking"]):
        paper = clew("show", opened["id"], *options).out
        screen = terminal("show", opened["id"], *options)
        assert (screen.code, HOSTILE.findall(paper), HOSTILE.findall(screen.text)) == (0, [], [])
        for shown in (paper, screen.text):
            assert "\\x1b]0;owned\\x07" in shown
            assert "\\u202eevil\\u2066" in shown
            assert "a\\x0db" in shown


@settings(max_examples=60)
@given(st.text(max_size=60) | st.lists(st.sampled_from(ATTACKS), max_size=4).map("".join), st.booleans())
def test_no_text_anywhere_drives_a_terminal(text: str, full: bool) -> None:
    json_text = Raw(json.dumps({"command": text}).encode("utf-8", "replace"))
    for shown in drawn(
        MessageAdded(role="user", text=text),
        MessageAdded(role=text, text=f"- {text}\n> {text}\n```{text}\n{text}", model=text, side=text),
        CallMade(call="c", tool=text, input=json_text),
        CallReturned(call="c", output=json_text, failed=full),
        full=full,
    ):
        assert not HOSTILE.search(shown)


def test_what_is_printed_is_plain_whatever_a_block_holds() -> None:
    block = Block(gutter="\x1b[1m", head=(Span("\x1b[2J"),), body=(Line("\u202e"), Prose("<http://a/%1b>")))
    for shown in (*on_paper([block]), *on_screen([block], 80, colours=False)):
        assert not HOSTILE.search(shown)


def test_a_link_shows_where_it_leads_and_leads_nowhere(terminal: Terminal, session: str, add: Add) -> None:
    add(said("[your bank](http://evil.example/x) ![](http://evil.example/y.png)\n\n[a]: http://evil.example/z"))
    shown = terminal("show", session)
    for address in "xyz":
        assert f"http://evil.example/{address}" in shown.text
    assert "\x1b]8" not in shown.out


# The pager ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A folder with a program called less, which writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "less"
    program.write_text(f'#!/bin/sh\necho "paged by $0 $*"\ncat > {tmp_path}/paged\n')
    program.chmod(0o755)
    (folder / "more").symlink_to(program)
    return folder


def test_only_what_is_longer_than_the_screen_is_paged(
    terminal: Terminal, pager: Path, session: str, add: Add, tmp_path: Path
) -> None:
    add(*(said(f"message {number}") for number in range(20)))
    path = f"{pager}:{os.environ['PATH']}"
    long = terminal("show", session, PATH=path, CLEW_PAGER=str(pager / "less"))
    assert long.text == f"paged by {pager / 'less'} -R\n"
    paged = (tmp_path / "paged").read_text()
    assert "\x1b[1;32myou\x1b[0m" in paged
    unpaged = terminal("show", session, "--no-pager", CLEW_PAGER=str(pager / "less"))
    short = terminal("show", session, rows=200, CLEW_PAGER=str(pager / "less"))
    for shown in (unpaged.out, short.out):
        # All but how long ago it was.
        assert shown.partition("──")[2] == paged.partition("──")[2] != ""


def test_the_pager_is_the_persons_own(terminal: Terminal, pager: Path, session: str, add: Add, tmp_path: Path) -> None:
    add(*[said("hi")] * 20)
    path = {"PATH": f"{pager}:{os.environ['PATH']}"}
    kept = {"CLEW_PAGER": "more -c", "PAGER": "less"}
    assert terminal("show", session, **path, **kept).text == f"paged by {pager / 'more'} -c\n"
    # Of a pager other than less nobody knows whether it shows colours as colours.
    assert "\x1b" not in (tmp_path / "paged").read_text()
    for nothing in ("", "cat", "no-such-pager"):
        assert "paged by" not in terminal("show", session, **path, CLEW_PAGER=nothing, PAGER="less").text
    wrong = terminal("show", session, CLEW_PAGER="less 'x")
    assert wrong.code == 2
    assert (
        wrong.text
        == "error: $CLEW_PAGER is not a valid command: No closing quotation; set it to one, such as 'less -R'\n"
    )


def test_without_a_pager_of_their_own_people_get_less(pager: Path, home: Path, session: str, add: Add) -> None:
    add(*[said("hi")] * 20)
    code = "from clew.cli import pager; print(pager.command())"
    kept = {"TERM": "xterm", "PATH": str(pager)}
    found = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for environment in (kept, {**kept, "PAGER": "more"}, {**kept, "PATH": "/nowhere"}, {**kept, "TERM": "dumb"})
    ]
    assert found == ["['less', '-FX', '-R']\n", "['more']\n", "None\n", "None\n"]


def test_a_pager_that_is_closed_early_is_no_error(terminal: Terminal, session: str, add: Add) -> None:
    add(*[said("hi " * 500)] * 300)
    shown = terminal("show", session, CLEW_PAGER="head -n 2")
    assert shown.code == 0
    assert shown.text == f"session      {session}\ntitle        Fix the lock\n"
