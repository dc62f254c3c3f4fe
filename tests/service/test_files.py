"""Files: which sessions touched one, found by a name, the end of a path, or all of it."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from clew.model.access import Grant, Right
from clew.model.errors import InvalidInput, NotFound
from clew.model.events import CallMade, Draft, RuntimeAttached, Touch
from clew.service import Context, call
from clew.store import Store
from support.talks import HOUR, MONDAY, add, on, opened


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    context.close()


def read(path: str, hour: int = 0) -> Draft:
    return _call("Read", path, hour)


def wrote(path: str, hour: int = 0) -> Draft:
    return _call("Edit", path, hour)


def _call(tool: str, path: str, hour: int) -> Draft:
    input = Raw(msgspec.json.encode({"file_path": path}))
    return Draft(body=CallMade(call="c", tool=tool, input=input), said_at=MONDAY + hour * HOUR)


def touched(context: Context, path: str, **filters: Any) -> list[str]:
    return [one.path for one in call(context, "files", {"path": path, **filters})]


def test_how_often_and_by_which_call(context: Context) -> None:
    session = opened(
        context, RuntimeAttached(runtime="codex"), read("app/billing.py", 1), read("app/billing.py", 2),
        wrote("app/billing.py", 3), read("app/other.py", 4), project="shop", title="Bills",
    )  # fmt: skip
    [one] = call(context, "files", {"path": "billing.py"})
    assert (one.session, one.title, one.runtime, one.project) == (session.id, "Bills", "codex", "shop")
    assert (one.type, one.path, one.read, one.written) == ("file", "app/billing.py", 2, 1)
    assert (one.read_seq, one.written_seq, one.last_at) == (4, 5, MONDAY + 3 * HOUR)
    add(context, session, wrote("app/billing.py", 2))
    [one] = call(context, "files", {"path": "billing.py"})
    assert (one.read, one.written, one.written_seq, one.last_at) == (2, 2, 7, MONDAY + 3 * HOUR)


UNIX = "/home/ada/shop/src/app/billing.py"
WINDOWS = "C:\\Users\\Ada\\shop\\src\\app\\Billing.py"
RELATIVE = "src/app/billing.py"
BARE = "billing.py"

FOUND = {
    "billing.py": [UNIX, WINDOWS, RELATIVE, BARE],
    "BILLING.PY": [UNIX, WINDOWS, RELATIVE, BARE],
    "./billing.py": [UNIX, WINDOWS, RELATIVE, BARE],
    "app/billing.py": [UNIX, WINDOWS, RELATIVE],
    "app\\billing.py": [UNIX, WINDOWS, RELATIVE],
    "src//app/./billing.py": [UNIX, WINDOWS, RELATIVE],
    UNIX: [UNIX, RELATIVE, BARE],
    WINDOWS: [WINDOWS, RELATIVE, BARE],
    "c:/users/ada/shop/src/app/billing.py": [WINDOWS, RELATIVE, BARE],
    "~/shop/src/app/billing.py": [UNIX, WINDOWS, RELATIVE, BARE],
    "/other/app/billing.py": [BARE],
    "other/billing.py": [],
    "illing.py": [],
    "billing": [],
    "/": [],
    ".": [],
    # Folders and patterns.
    "app": [UNIX, WINDOWS, RELATIVE],
    "app/": [UNIX, WINDOWS, RELATIVE],
    "SRC\\App\\": [UNIX, WINDOWS, RELATIVE],
    "shop/": [UNIX, WINDOWS],
    "/home/ada/shop": [UNIX],
    "/home/": [UNIX],
    "c:\\users\\": [WINDOWS],
    "/src/": [],
    "ap/": [],
    "billing.py/": [],
    "*.py": [UNIX, WINDOWS, RELATIVE, BARE],
    "*.PY": [UNIX, WINDOWS, RELATIVE, BARE],
    "app/*.py": [UNIX, WINDOWS, RELATIVE],
    "src/*.py": [],
    "src/*/*.py": [UNIX, WINDOWS, RELATIVE],
    "src/**/*.py": [UNIX, WINDOWS, RELATIVE],
    "src/**/app/**/billing.??": [UNIX, WINDOWS, RELATIVE],
    "/home/**": [UNIX],
    "/**/billing.py": [UNIX, WINDOWS],
    "[a-c]illing.py": [UNIX, WINDOWS, RELATIVE, BARE],
    "[!b]illing.py": [],
    "?illing.p[": [],
    "%": [],
    "b_lling.py": [],
    "**": [UNIX, WINDOWS, RELATIVE, BARE],
}


def test_a_path_is_found_by_its_end(context: Context) -> None:
    for number, path in enumerate((UNIX, WINDOWS, RELATIVE, BARE)):
        opened(context, read(path, 100 - number))
    for path, expected in FOUND.items():
        assert touched(context, path) == expected, path


def test_a_folder_that_was_read_itself_is_there_beside_what_is_in_it(context: Context) -> None:
    opened(context, read("/home/ada/src", 2), read("/home/ada/src/a.py", 1), read("/home/ada/srcs/b.py"))
    assert touched(context, "src") == ["/home/ada/src", "/home/ada/src/a.py"]
    assert touched(context, "src/") == ["/home/ada/src/a.py"]


def test_no_pattern_takes_long(context: Context) -> None:
    """A pattern of many stars took time that grew with every star."""
    opened(context, read("/".join(["a" * 20] * 20)))
    for pattern in ("*a" * 100 + "b", "**/" * 100 + "b", "**/a*" * 60 + "b", "[" * 400, "a/" * 240 + "**b"):
        assert touched(context, pattern) == []


def test_without_a_path_the_most_touched_come_first(context: Context) -> None:
    opened(context, read("a.py", 1), read("b.py", 1), read("b.py", 1), project="shop")
    last = opened(context, read("a.py", 3), wrote("a.py", 4), project="shop", title="Last")
    opened(context, read("a.py", 2), CallMade(call="2", tool="WebFetch", input=Raw(b'{"url": "https://x.org"}')))
    rows = call(context, "files", {})
    assert [(row.path, row.project, row.sessions, row.read, row.written) for row in rows] == [
        ("a.py", "shop", 2, 2, 1), ("b.py", "shop", 1, 2, 0), ("a.py", "default", 1, 1, 0),
    ]  # fmt: skip
    assert (rows[0].session, rows[0].title, rows[0].last_at) == (last.id, "Last", MONDAY + 4 * HOUR)
    assert touched(context, "", limit=1) == ["a.py"]
    assert [(row.sessions, row.read) for row in call(context, "files", {"written": True})] == [(1, 1)]
    assert [row.project for row in call(context, "files", {"project": "default"})] == ["default"]


def test_apps_and_sources_are_found_by_name(context: Context) -> None:
    opened(
        context,
        CallMade(call="1", tool="mcp__github__list_issues"),
        CallMade(call="2", tool="WebFetch", input=Raw(b'{"url": "https://example.org/a"}')),
        CallMade(call="3", tool="query", touched=(Touch(what="orders", how="written", type="source"),)),
    )
    found = [call(context, "files", {"path": path})[0] for path in ("GitHub", "example.org", "orders")]
    assert [(one.type, one.path, one.read, one.written) for one in found] == [
        ("app", "github", 1, 0), ("source", "example.org", 1, 0), ("source", "orders", 0, 1),
    ]  # fmt: skip
    # To search and to the list only files are files.
    assert call(context, "sessions", {"file": "orders"}) == []


def test_narrowed_down(context: Context) -> None:
    opened(context, read("a.py", 3), project="shop")
    opened(context, wrote("lib/a.py", 2))
    opened(context, read("src/a.py", 1), wrote("src/a.py", 4))
    assert touched(context, "a.py") == ["src/a.py", "a.py", "lib/a.py"]
    assert touched(context, "a.py", written=True) == ["src/a.py", "lib/a.py"]
    assert touched(context, "a.py", project="shop") == ["a.py"]
    assert touched(context, "a.py", limit=1) == ["src/a.py"]
    assert touched(context, "a.py", written=True, limit=1, project="default") == ["src/a.py"]


def test_what_is_erased_was_never_touched(context: Context) -> None:
    session = opened(context, read("a.py"))
    assert touched(context, "a.py") == ["a.py"]
    call(context, "erase", {"session": session.id})
    assert touched(context, "a.py") == []


def test_what_cannot_be_meant_is_refused(context: Context) -> None:
    with pytest.raises(NotFound, match="no project 'x'"):
        touched(context, "a.py", project="x")
    with pytest.raises(InvalidInput, match="limit is 0; it must be a whole number from 1"):
        touched(context, "a.py", limit=0)
    # As a shell hands on what is not Unicode, and as a program might.
    for odd in ("\udcff", "a\0b", "x" * 100_000, "'; --"):
        assert touched(context, odd) == []


def test_the_sums_of_files_are_those_of_the_sessions_that_are_there(context: Context) -> None:
    """Kept as the log grows, for who may read everything; summed up from the sessions for who may read some."""
    grant = Grant(principal="person:bob", rights=frozenset({Right.READ, Right.SEE}), project="shop")
    bob = msgspec.structs.replace(context, principal="person:bob", grants=(grant,), _cache={})
    chance = random.Random(4)
    names = ["src/a.py", "src/b.py", "src/deep/a.py", "docs/a.md"]

    def some() -> list[Draft]:
        return [chance.choice((read, wrote))(chance.choice(names), chance.randrange(50)) for _ in range(5)]

    sessions = [opened(context, *some(), project="shop") for _ in range(6)]
    for _ in range(4):
        add(context, chance.choice(sessions), *some())
        _same_sums(context, bob)
    for session in sessions[:3]:
        call(context, "erase", {"session": session.id})
        _same_sums(context, bob)
    opened(context, read("src/a.py"), project="elsewhere")
    assert [one.path for one in call(context, "files", {"project": "elsewhere"})] == ["src/a.py"]
    _same_sums(context, bob)


def _same_sums(context: Context, bob: Context) -> None:
    for path in ("", "src/", "a.py", "src/**/*.py", "deep"):
        for written in (False, True):
            asked = {"path": path, "project": "shop", "by_file": True, "written": written}
            kept, summed = call(context, "files", asked), call(bob, "files", asked)
            assert [_sum(one) for one in kept] == [_sum(one) for one in summed], (path, written)


def _sum(one: Any) -> tuple[Any, ...]:
    return one.path, one.sessions, one.read, one.written, one.session, one.last_at, one.read_seq, one.written_seq
