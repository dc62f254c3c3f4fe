"""`clew search`, `sessions`, `usage`, `files` and `rebuild` as people meet them."""

import csv
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
from typing import Any

import pytest
from msgspec import Raw
from msgspec import json as msgspec_json

from clew.app import connect
from clew.cli.results.search import print_search
from clew.model.events import CallMade, CallReturned, Draft, MessageAdded, RuntimeAttached, SessionTitled, Usage
from clew.service.find.search import SearchPage

from .conftest import Clew

# 2020-05-04, a Monday, 00:00 UTC.
MONDAY = 1_588_550_400_000_000
HOUR = 3_600_000_000
HOSTILE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def raw(value: Any) -> Raw:
    return Raw(msgspec_json.encode(value))


@pytest.fixture
def shop(home: Path) -> str:
    """A store with two sessions; the id of the one that was worked in."""
    with connect(home=home, principal="person:ada") as plane:
        one = plane.session("Fix the lock", agent="reviewer", project="shop")
        one.append(
            Draft(body=RuntimeAttached(runtime="codex"), said_at=MONDAY),
            Draft(body=MessageAdded(role="user", text="why is the database locked?"), said_at=MONDAY),
            Draft(body=CallMade(call="1", tool="Edit", input=raw({"file_path": "src/lock.py"})), said_at=MONDAY + HOUR),
            Draft(body=CallReturned(call="1", output=raw("lock error"), failed=True), said_at=MONDAY + HOUR),
            Draft(
                body=MessageAdded(
                    role="assistant", text="fixed the lock", model="claude-sonnet-4-5",
                    usage=Usage(input=1_000_000, output=100_000, cache_read=10),
                ),
                said_at=MONDAY + 2 * HOUR,
            ),
        )  # fmt: skip
        other = plane.session("Other")
        other.append(MessageAdded(role="user", text="nothing of the sort"))
        return one.id


# Search ---------------------------------------------------------------------------------------------------------------


def test_hits_are_grouped_by_session_with_their_places(clew: Clew, shop: str) -> None:
    found = clew("search", "lock", "--when", "2020")
    assert re.sub(r"\d+ d ago", "long ago", found.out) == (
        f"{shop[:10]}  Fix the lock\n"
        "            codex · shop · long ago\n"
        "      6  answered  fixed the lock\n"
        "      5  failed    lock error\n"
        "      4  run       Edit  src/lock.py\n"
    )
    assert found.err == f"3 hits; clew show {shop[:10]} --at 6 shows the place\n"
    few = clew("search", "lock*", "locked*", "--flat", "--limit", "1")
    assert few.out == f"{shop[:10]}  2020-05-04 00:00       3  asked     why is the database locked?\n"
    assert few.err == f"1 hit; clew show {shop[:10]} --at 3 shows the place\n"


def test_pages_are_turned(clew: Clew, shop: str) -> None:
    first = clew("search", "lock", "--flat", "--limit", "2", "--when", "2020")
    after = re.search(r"; the next page: --after (\d+)\n$", first.err)
    assert after is not None
    second = clew("search", "lock", "--flat", "--limit", "2", "--when", "2020", "--after", after[1])
    assert [line.split()[3] for line in (first.out + second.out).splitlines()] == ["6", "5", "4"]
    assert "next page" not in second.err


def test_a_phrase_says_no_more_than_it_knows(clew: Clew, shop: str) -> None:
    found = clew("search", '"fixed the lock"', "--role", "answered")
    assert found.out.count("\n") == 3
    assert found.err == f"clew show {shop[:10]} --at 6 shows the place\n"


def test_search_as_json(clew: Clew, shop: str) -> None:
    [found] = clew("search", "lock", "--outcome", "error", "--json").objects
    [session] = found["sessions"]
    [hit] = session["hits"]
    assert (found["total"], found["total_is_exact"], found["next"], found["partial"]) == (1, True, "", False)
    assert (session["session"], session["title"], session["count"]) == (shop, "Fix the lock", 1)
    assert hit == {
        "session": shop, "seq": 5, "at": MONDAY + HOUR, "role": "returned", "tool": "", "failed": True,
        "snippet": {"text": "lock error", "marks": [[0, 4]]},
    }  # fmt: skip


def test_what_is_wrong_is_said(clew: Clew, shop: str) -> None:
    for arguments, code, message in (
        ([], 2, "nothing to look for: give a word, or at least a filter"),
        (["--", "-lock"], 2, "the query only excludes words; add one to look for"),
        (["lock", "--project", "shopp"], 3, "no project 'shopp'; did you mean shop?"),
    ):
        found = clew("search", *arguments)
        assert (found.code, found.out) == (code, "")
        assert message in found.err
    assert clew("search", "lock", "--role", "said", "--json").error["error"] == "invalid_input"


def test_nothing_found_is_no_error(clew: Clew, shop: str) -> None:
    found = clew("search", "nobody", "said", "this")
    assert (found.code, found.out, found.err) == (0, "", "nothing found\n")


def test_a_word_to_exclude_is_typed_like_any_other(clew: Clew, shop: str) -> None:
    every = len(clew("search", "lock", "--flat").out.splitlines())
    without = [
        clew("search", *words).out for words in (("lock", "-error", "--flat"), ("--flat", "lock", "--", "-error"))
    ]
    assert without[0] == without[1]
    assert 0 < len(without[0].splitlines()) < every
    assert len(clew("search", "lock", "-n1", "--flat").out.splitlines()) == 1


def test_partial_matches_are_called_so(clew: Clew, shop: str) -> None:
    found = clew("search", "who", "broke", "the", "lock")
    assert "lock" in found.out
    assert found.err.startswith("partial: no passage has all the words, and these have the most of them; clew show ")
    [page] = clew("search", "who broke the lock", "--json").objects
    assert page["partial"] is True
    assert not clew("search", "lock", "--json").objects[0]["partial"]


def test_a_look_that_ended_early_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    print_search(SearchPage(sessions=[], hits=[], total=None, total_is_exact=False, next="123"))
    assert capsys.readouterr().err == "nothing found in the newest; to search older ones: --after 123\n"


# The others -----------------------------------------------------------------------------------------------------------


def test_sessions_as_a_table_and_as_json(clew: Clew, shop: str) -> None:
    found = clew("sessions", "--project", "shop")
    head, _, line = found.out.splitlines()
    assert head.split() == [
        "id",
        "last",
        "state",
        "runtime",
        "agent",
        "project",
        "turns",
        "calls",
        "errors",
        "cost",
        "title",
    ]
    assert re.sub(r"\d+ d ago", "ago", line).split() == [
        shop[:10], "ago", "idle", "codex", "reviewer", "shop", "1", "1", "1", "$4.50", "Fix", "the", "lock",
    ]  # fmt: skip
    [one] = clew("sessions", "--file", "lock.py", "--failed", "--json").objects
    assert (one["id"], one["turns"], one["errors"], one["cost_micros"]) == (shop, 1, 1, 4_500_003)
    assert "no such sessions" in clew("sessions", "--agent", "nobody").err
    newest, oldest = clew("sessions", "--json").objects
    assert (newest["title"], oldest["title"]) == ("Other", "Fix the lock")
    assert [one["id"] for one in clew("sessions", "--before", newest["id"], "--json").objects] == [shop]


def test_usage_as_a_table_csv_and_json(clew: Clew, home: Path, shop: str) -> None:
    with connect(home=home, principal="person:ada") as plane:
        for model in ("=HYPERLINK(1)", "\t@x", "plain, with a comma"):
            plane.session().append(MessageAdded(role="assistant", text="x", model=model, usage=Usage(input=7)))
    table = clew("usage", "--by", "model", "--when", "2020")
    assert table.out.splitlines()[2].split() == [
        "claude-sonnet-4-5", "1", "1,000,000", "100,000", "10", "0", "$4.50",
    ]  # fmt: skip
    assert table.out.splitlines()[3].split() == ["total", "1", "1,000,000", "100,000", "10", "0", "$4.50"]
    assert "list prices of 20" in table.err
    rows = list(csv.reader(clew("usage", "--by", "model", "--csv").out.splitlines()))
    assert rows[0] == [
        "model", "answers", "input", "output", "cache_read", "cache_write", "reasoning", "cost_usd", "unpriced_tokens",
    ]  # fmt: skip
    assert rows[1] == ["claude-sonnet-4-5", "1", "1000000", "100000", "10", "0", "0", "4.500003", "0"]
    # No spreadsheet takes a name for a formula.
    assert sorted(row[0] for row in rows[2:]) == ["'\t@x", "'=HYPERLINK(1)", "plain, with a comma"]
    [report] = clew("usage", "--by", "month", "--by", "agent", "--until", "2020", "--json").objects
    assert [row["by"] for row in report["rows"]] == [{"month": "2020-05", "agent": "reviewer"}]
    assert (report["total"]["cost_micros"], report["unpriced"]) == (4_500_003, {})
    unpriced = clew("usage", "--since", "2021").err
    assert (
        "there is no price for: \t@x (7 tokens), =HYPERLINK(1) (7 tokens), plain, with a comma (7 tokens)" in unpriced
    )
    assert clew("usage", "--when", "2019").err == "no usage in that time\n"


def test_prices_of_ones_own_win(clew: Clew, home: Path, shop: str) -> None:
    (home / "prices.json").write_text(json.dumps({"models": {"claude-sonnet-4-5": {"input": 1, "output": 1}}}))
    [report] = clew("usage", "--json").objects
    assert report["total"]["cost_micros"] == 1_100_010
    (home / "prices.json").write_text("{")
    found = clew("usage")
    assert found.code == 2
    assert "prices.json cannot be used" in found.err


def test_files_as_a_table_and_as_json(clew: Clew, shop: str) -> None:
    head, _, line = clew("files", "lock.py").out.splitlines()
    assert head.split() == ["id", "last", "read", "written", "by", "call", "runtime", "path", "title"]
    assert re.sub(r"\d+ d ago", "ago", line).split() == [
        shop[:10], "ago", "1", "4", "codex", "src/lock.py", "Fix", "the", "lock",
    ]  # fmt: skip
    [one] = clew("files", "/home/ada/shop/src/lock.py", "--json").objects
    assert (one["session"], one["path"], one["read"], one["written"]) == (shop, "src/lock.py", 0, 1)
    assert "no session touched such a file" in clew("files", "nowhere.py").err


def test_files_of_a_folder_of_a_pattern_and_the_most_touched(clew: Clew, shop: str) -> None:
    for path in ("src/", "src", "src/*.py", "**/lock.py"):
        assert [one["path"] for one in clew("files", path, "--json").objects] == ["src/lock.py"], path
    shown = clew("files")
    head, _, line = shown.out.splitlines()
    assert head.split() == ["path", "sessions", "read", "written", "last", "id", "project"]
    assert re.sub(r"\d+ d ago", "ago", line).split() == ["src/lock.py", "1", "1", "ago", shop[:10], "shop"]
    assert shown.err == "`clew files PATH` shows the sessions that touched one\n"
    # A shell fills a pattern in when it has no quotes.
    filled_in = clew("files", "src/a.py", "src/b.py")
    assert filled_in.code == 2
    assert filled_in.err.endswith("Quote a pattern, so that the shell leaves it alone, as in: clew files 'src/*.py'\n")
    assert clew("files", ".").err.startswith("no session touched such a file; ")


def test_views_are_built_again(clew: Clew, home: Path, shop: str) -> None:
    before = clew("search", "lock", "--json").out
    assert clew("rebuild").out == "all views built again from 8 events\n"
    assert clew("rebuild", "text", "--json").objects == [{"view": "text", "events": 8}]
    assert clew("search", "lock", "--json").out == before
    refused = clew("rebuild", "words")
    assert (refused.code, refused.err) == (
        2,
        "error: no view 'words'; there are artifacts, commits, course, files, knowledge, labels, landmarks, points, "
        "sessions, text, usage\n",
    )


def test_an_empty_store_says_so(clew: Clew) -> None:
    assert clew("search", "lock").err == "nothing found\n"
    assert "no such sessions" in clew("sessions").err
    assert clew("usage").err == "no usage in that time\n"
    assert clew("rebuild").out == "all views built again from 0 events\n"


# On a terminal --------------------------------------------------------------------------------------------------------

Terminal = Callable[..., str]


@pytest.fixture
def terminal(home: Path) -> Terminal:
    """What `clew` prints on a terminal of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "NO_COLOR", "COLUMNS"))}
    environment = {
        **kept, "CLEW_HOME": str(home), "CLEW_PRINCIPAL": "person:ada", "TZ": "UTC", "TERM": "xterm", "CLEW_PAGER": "",
    }  # fmt: skip

    def run(*arguments: str, columns: int = 80) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        command = [sys.executable, "-m", "clew", *arguments]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as child:
            os.close(theirs)
            found = b""
            try:
                while data := os.read(ours, 65536):
                    found += data
            except OSError:
                pass  # Linux reports the end of a terminal whose other side is closed as an error.
            os.close(ours)
        assert child.returncode == 0, found
        return found.decode().replace("\r\n", "\n")

    return run


def test_words_are_marked_on_a_terminal(terminal: Terminal, shop: str) -> None:
    assert "fixed the \x1b[33m\x1b[1mlock\x1b[0m" in terminal("search", "lock")
    narrow = COLOURS.sub("", terminal("search", "lock", columns=50)).splitlines()
    assert max(map(len, narrow[:-2])) <= 50


def test_stored_text_drives_no_terminal(clew: Clew, terminal: Terminal, home: Path) -> None:
    attack = "needle \x1b]0;owned\x07\x1b[2J\x9b2J a\rb \u202eevil\u2066 \x08\x00\ufeff"
    name = attack.replace("\0", "")
    with connect(home=home, principal="person:ada") as plane:
        session = plane.session(name, agent=name, project=name)
        session.append(
            RuntimeAttached(runtime=attack, machine=attack, cwd=attack),
            MessageAdded(role="user", text=attack),
            MessageAdded(role="assistant", text=attack, model=attack, usage=Usage(input=5)),
            CallMade(call="1", tool=attack, input=raw({"command": attack})),
            CallMade(call="2", tool="Read", input=raw({"file_path": f"{attack}/needle.py"})),
            CallReturned(call="1", output=raw(attack), failed=True),
            SessionTitled(title=name),
        )
    for arguments in (
        ["search", "needle"], ["sessions"], ["files", "needle.py"],
        ["usage", "--by", "model", "--by", "agent", "--by", "project", "--by", "runtime"],
    ):  # fmt: skip
        shown = COLOURS.sub("", terminal(*arguments, columns=300))
        assert HOSTILE.findall(shown) == []
        assert "owned" in shown
    for arguments in (["search", "needle", "--flat"], ["sessions"], ["usage", "--by", "model", "--csv"]):
        found = clew(*arguments)
        assert HOSTILE.findall(found.out + found.err) == []
        assert "\\x1b]0;owned\\x07" in found.out


AGO = re.compile(r"\d+ s ago")


@pytest.mark.parametrize("words", [("sessions",), ("search", "lock"), ("usage",), ("files", "lock.py")])
def test_views_that_were_damaged_are_built_again_and_that_is_said_once(
    clew: Clew, home: Path, shop: str, words: tuple[str, ...]
) -> None:
    before = clew(*words)
    (home / "clew-views.db").write_bytes(b"garbage" * 1000)
    again = clew(*words)
    assert AGO.sub("ago", again.out) == AGO.sub("ago", before.out)
    assert again.err.count("damaged and have been built again") == 1
    assert "built again" not in clew(*words).err
