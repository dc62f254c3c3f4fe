"""Edits of settings as text: what was there stays to the byte, and taking out undoes adding."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.errors import InvalidInput
from clew.runtimes.connect.settings_text import (
    Path,
    parse,
    with_element,
    with_member,
    with_table,
    without,
    without_table,
)

OURS = {"command": "clew"}
# Layouts that people and programs leave behind.
TEXTS = [
    "{}",
    "{}\n",
    "{ }",
    "{\n}",
    "\n",
    "",
    '{"a": 1}',
    '{"a":1,"b":[1,2]}',
    '{\n  "a": 1\n}\n',
    '{\n\t"a": 1,\n\t"b": {\n\t\t"c": null\n\t}\n}',
    '{\r\n    "a": 1\r\n}\r\n',
    '\ufeff{"a": "ü"}',
    '{\n  "a": 1, // why\n  "b": 2 // last\n}\n',
    '{\n  "a": 1 /* , */\n  // "b": 2\n}\n',
    '{\n  "a": 1,\n}\n',
    '{\n  "a": 1, // why\n}\n',
    "{ // nothing yet\n}\n",
    '{"a": 1 // why\n}',
    '// head\n{"a": "// not a comment, \\" nor an end }"}\n// tail',
    '{"hooks": {}}',
    '{"hooks": {"Stop": []}}',
    '{\n  "hooks": {\n    "Stop": [\n    ]\n  }\n}\n',
    '{\n  "hooks": {\n    "Stop": [\n      {"command": "mine"}\n    ],\n    "Other": []\n  },\n  "z": 0\n}\n',
    '{"hooks": {"Stop": [{"command": "mine"},]}}',
    '{"hooks": {"Stop": [ // none\n]}, "servers": {}}',
    '{"servers": {"other": {"x": 1}}, "hooks": {"Start": []}}',
]


def is_ours(path: Path, value: Any) -> bool:
    return value == OURS and path in {("hooks", "Start"), ("hooks", "Stop"), ("servers", "clew")}


def connected(text: str | None) -> str:
    for event in ("Start", "Stop"):
        text = with_element(text, ("hooks", event), OURS)
    return with_member(text, ("servers", "clew"), OURS)


@pytest.mark.parametrize("text", TEXTS)
def test_taking_out_gives_back_the_file_to_the_byte(text: str) -> None:
    assert without(connected(text), is_ours) == text


@pytest.mark.parametrize("text", TEXTS)
def test_adding_says_what_was_said_and_our_entries_after_it(text: str) -> None:
    before = parse(text).value if text.strip() else {}
    after = parse(connected(text)).value
    for event in ("Start", "Stop"):
        assert after["hooks"][event] == [*before.get("hooks", {}).get(event, []), OURS]
    assert after["servers"] == {**before.get("servers", {}), "clew": OURS}
    assert {key: after[key] for key in before if key not in ("hooks", "servers")} == {
        key: before[key] for key in before if key not in ("hooks", "servers")
    }


@pytest.mark.parametrize(
    "text", [text for text in TEXTS if "//" not in text and "/*" not in text and ",\n}" not in text]
)
def test_plain_json_stays_plain_json(text: str) -> None:
    added = connected(text.removeprefix("\ufeff").replace(",]", "]"))
    assert json.loads(added) == parse(added).value


def test_a_file_that_was_not_there_is_made_readable_and_goes_away() -> None:
    made = connected(None)
    assert made == (
        "{\n"
        '  "hooks": {\n'
        '    "Start": [\n'
        '      {"command": "clew"}\n'
        "    ],\n"
        '    "Stop": [\n'
        '      {"command": "clew"}\n'
        "    ]\n"
        "  },\n"
        '  "servers": {\n'
        '    "clew": {"command": "clew"}\n'
        "  }\n"
        "}\n"
    )
    assert without(made, is_ours) is None


def test_comments_stay_beside_what_they_are_about() -> None:
    text = '{\n  "a": 1 // about a\n}\n'
    assert with_member(text, ("b",), 2) == '{\n  "a": 1, // about a\n  "b": 2\n}\n'


def test_what_came_after_ours_stays_when_ours_goes() -> None:
    text = connected('{\n  "a": 1\n}\n')
    text = with_element(text, ("hooks", "Stop"), "theirs")
    text = with_member(text, ("later",), True)
    left = without(text, is_ours)
    assert left is not None
    assert json.loads(left) == {"a": 1, "hooks": {"Stop": ["theirs"]}, "later": True}


def test_settings_that_a_program_laid_out_anew_lose_only_ours() -> None:
    again = json.dumps(json.loads(connected('{"a": 1, "hooks": {"Stop": ["mine"]}}')), indent=4)
    left = without(again, is_ours)
    assert left is not None
    assert json.loads(left) == {"a": 1, "hooks": {"Stop": ["mine"]}}


def test_a_text_without_ours_is_left_alone() -> None:
    assert without('{"hooks": {"Stop": []}}', is_ours) == '{"hooks": {"Stop": []}}'


def test_the_last_of_two_equal_keys_is_the_one_that_counts() -> None:
    text = '{"hooks": {"Stop": ["dead"]}, "hooks": {"Stop": ["live"]}}'
    assert json.loads(with_element(text, ("hooks", "Stop"), OURS))["hooks"]["Stop"] == ["live", OURS]


layouts = st.sampled_from(["", " ", "\n", "\n  ", "\t", "/* c */", " // c\n", "\r\n "])
scalars = st.sampled_from(["1", "-2.5e3", "true", "null", '""', '"a\\"]}//"', '"ü"'])


@st.composite
def objects(draw: st.DrawFn, *, depth: int = 2) -> str:
    """The text of an object, with any white space and comments between its tokens."""
    gap = lambda: draw(layouts)  # noqa: E731 - one word for what stands between any two tokens
    keys = draw(st.lists(st.sampled_from(["hooks", "servers", "Start", "Stop", "x", "y"]), unique=True, max_size=3))
    members = []
    for key in keys:
        inner = draw(objects(depth=depth - 1)) if depth and key in ("hooks", "servers", "x") else draw(scalars)
        value = (
            f"[{gap()}]" if key in ("Start", "Stop") else inner if key not in ("hooks", "servers") or depth else "{}"
        )
        members.append(f'{gap()}"{key}"{gap()}:{gap()}{value}{gap()}')
    trailing = "," + gap() if members and draw(st.booleans()) else ""
    return "{" + gap() + ",".join(members) + trailing + "}"


@given(text=objects(), around=st.tuples(layouts, layouts))
def test_any_layout_is_given_back_to_the_byte(text: str, around: tuple[str, str]) -> None:
    text = around[0] + text + around[1]
    added = connected(text)
    assert parse(added).value["servers"]["clew"] == OURS
    assert without(added, is_ours) == text


# What cannot be edited ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "line 1, column 1 has '\\['"),
        ("{", "line 1, column 2 has the end of the file where a key"),
        ('{"a" 1}', "column 6 has '1' where a colon"),
        ('{"a": }', "has '}' where a value"),
        ('{"a": 1 "b": 2}', "where a comma or }"),
        ("{'a': 1}", "where a key in double quotes"),
        ('{\n"a": tru\n}', "line 2, column 6"),
        ('{"a": "open', "where a value"),
        ('{"a": "line\nbreak"}', "where a value"),
        ("{} x", "where the end of the file"),
        ("{ /* open", "the end of a comment"),
        ('{"a": [1, 2}', "where a comma or ]"),
        ('{"a": [,]}', "where a value"),
        ('{"a":' * 100 + "1" + "}" * 100, "nested more than"),
        ('{"a":' + "[" * 100_000, "nested more than"),
    ],
)
def test_malformed_settings_are_refused_with_the_place(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        with_member(text, ("b",), 1)
    with pytest.raises(InvalidInput, match=complaint):
        without(text, is_ours)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"hooks": []}', "hooks in the settings is not an object"),
        ('{"hooks": null}', "hooks in the settings is not an object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop in the settings is not a list"),
    ],
)
def test_settings_of_another_shape_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        with_element(text, ("hooks", "Stop"), OURS)


def test_a_member_of_somebody_else_is_not_overwritten() -> None:
    with pytest.raises(InvalidInput, match=r"servers\.clew is in the settings already"):
        with_member('{"servers": {"clew": 1}}', ("servers", "clew"), OURS)


# TOML -----------------------------------------------------------------------------------------------------------------

TABLE = ("mcp_servers", "clew")
VALUES = {"command": 'a "b" \\ ü\x7f', "args": ["-m", "clew"], "env": {"X": "1"}}
TOMLS = [
    "",
    "\n",
    "a = 1",
    "a = 1\n",
    "a = 1\n\n\n",
    "# only a comment",
    "a = 1\r\n[b]\r\nc = 2\r\n",
    '[mcp_servers.other]\ncommand = "x" # why\n',
    "[mcp_servers]\n",
    '[[list]]\nx = """\n[mcp_servers.clew]\n"""\n',
]


@pytest.mark.parametrize("text", TOMLS[:-1])
def test_taking_a_table_out_gives_back_the_file_to_the_byte(text: str) -> None:
    added = with_table(text, TABLE, VALUES)
    assert tomllib.loads(added)["mcp_servers"]["clew"] == VALUES
    assert added.startswith(text)
    assert without_table(added, TABLE) == text


def test_a_toml_file_that_was_not_there_goes_away() -> None:
    assert without_table(with_table(None, TABLE, VALUES), TABLE) is None


def test_tables_that_the_program_added_behind_ours_stay() -> None:
    """Codex writes what it remembers to the end of its settings, some of it inside our table."""
    for start in ("a = 1", "a = 1\n", "a = 1\n\n"):
        text = (
            with_table(start, TABLE, VALUES)
            + '[mcp_servers.clew.tools.x]\nmode = "y"\n# about p\n[projects.p]\nt = 1\n'
        )
        left = without_table(text, TABLE)
        assert left is not None
        assert tomllib.loads(left) == {"a": 1, "projects": {"p": {"t": 1}}}
        assert "# about p" in left


def test_a_table_that_cannot_be_told_apart_is_left_to_the_person() -> None:
    """A line inside a text looks like the header of our table: better nothing than damage."""
    text = with_table(TOMLS[-1], TABLE, VALUES)
    with pytest.raises(InvalidInput, match="by hand"):
        without_table(text, TABLE)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a = ", "not valid TOML"),
        ("a = 1\na = 2", "not valid TOML"),
        ("x = " + "[" * 100_000, "not valid TOML"),
        ("mcp_servers = {}", "takes no further table"),
        ("mcp_servers = 1", "is not a table"),
        ("[mcp_servers.clew]\nx = 1", "is in the settings already"),
    ],
)
def test_toml_that_cannot_be_edited_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        with_table(text, TABLE, VALUES)
