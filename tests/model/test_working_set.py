"""The working set: what well-known tools touched, and never a failure over what they were given."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from clew.model.events import CallMade, Event, MessageAdded, Touch
from clew.model.working_set import Touched, touches, working_set
from model.shapes import JSON, raws

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-old
+*** Add File: not/a/path.py
*** Add File: src/b.py
+new
*** Delete File: src/c.py
*** End Patch
"""


def call(tool: str, given_: Any = None, *, touched: tuple[Touch, ...] = ()) -> CallMade:
    return CallMade(call="1", tool=tool, input=Raw(msgspec.json.encode(given_)), touched=touched)


def events(*bodies: Any) -> list[Event]:
    return [Event("s", seq, seq, 0, None, "", None, b"", body) for seq, body in enumerate(bodies, 1)]


@pytest.mark.parametrize(
    ("tool", "given_", "what", "how", "type"),
    [
        ("Read", {"file_path": "/src/a.py", "offset": 10}, "/src/a.py", "read", "file"),
        ("Edit", {"file_path": "/src/a.py", "old_string": "a", "new_string": "b"}, "/src/a.py", "written", "file"),
        ("MultiEdit", {"file_path": "/src/a.py", "edits": []}, "/src/a.py", "written", "file"),
        ("Write", {"file_path": "/src/a.py", "content": "x"}, "/src/a.py", "written", "file"),
        ("NotebookEdit", {"notebook_path": "/n.ipynb"}, "/n.ipynb", "written", "file"),
        ("read_file", {"absolute_path": "/src/a.py"}, "/src/a.py", "read", "file"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "/a"}, "/a", "read", "file"),
        ("str_replace_based_edit_tool", {"command": "create", "path": "/a"}, "/a", "written", "file"),
        ("mcp__filesystem__read_file", {"path": "/a"}, "/a", "read", "file"),
        ("mcp__github__list_issues", {"repo": "clew"}, "github", "read", "app"),
        ("mcp__notion__create", {"title": "a page"}, "notion", "read", "app"),
        ("mcp__git_hub__list__all", {}, "git_hub", "read", "app"),
        ("WebFetch", {"url": "https://docs.example.org/a?b#c", "prompt": "p"}, "docs.example.org", "read", "source"),
        ("WebFetch", {"url": "nonsense"}, "nonsense", "read", "source"),
        ("WebFetch", {"url": "http://[broken"}, "http://[broken", "read", "source"),
    ],
)
def test_a_well_known_tool_touches(tool: str, given_: Any, what: str, how: str, type: str) -> None:
    assert touches(call(tool, given_)) == (Touch(what=what, how=how, type=type),)


@pytest.mark.parametrize("name", ["input", "patch", "patchText"])
def test_a_patch_touches_every_file_it_names(name: str) -> None:
    found = touches(call("apply_patch", {name: PATCH}))
    assert [(touch.what, touch.how) for touch in found] == [
        ("src/a.py", "written"), ("src/b.py", "written"), ("src/c.py", "written"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "given_"),
    [
        ("Bash", {"command": "cat a"}),
        ("Read", {}),
        ("Read", {"file_path": 7}),
        ("Read", {"file_path": ""}),
        ("Read", [1]),
        ("mcp__", {}),
    ],
)
def test_a_call_that_says_nothing_of_files_touches_nothing(tool: str, given_: Any) -> None:
    assert touches(call(tool, given_)) == ()


def test_what_a_call_says_itself_counts() -> None:
    own = (Touch(what="a", how="written"), Touch(what="db", how="read", type="source"))
    assert touches(call("Read", {"file_path": "b"}, touched=own)) == own


TOOLS = st.sampled_from(["Read", "Write", "apply_patch", "WebFetch", "str_replace_editor", "mcp__a__b"])


@given(tool=st.text() | TOOLS, input=raws())
def test_no_input_is_a_failure(tool: str, input: Raw) -> None:
    touches(CallMade(call="1", tool=tool, input=input))


NAMES = st.sampled_from(["url", "file_path", "path", "command", "input", "patch", "patchText"])
TRAPS = st.sampled_from(["http://[", "http://]/", "//", "*** Add File: "])


@given(tool=TOOLS, fields=st.dictionaries(NAMES, JSON | TRAPS, max_size=3))
def test_no_field_is_a_failure(tool: str, fields: dict[str, Any]) -> None:
    touches(call(tool, fields))


@pytest.mark.parametrize("input", [b'"\\ud800"', b"[" * 100_000 + b"]" * 100_000], ids=["a lone surrogate", "depth"])
def test_an_input_that_cannot_be_taken_apart_touches_nothing(input: bytes) -> None:
    assert touches(CallMade(call="1", tool="Read", input=Raw(input))) == ()


def test_the_working_set_counts_and_shows_the_last_touched_first() -> None:
    found = working_set(
        events(
            call("Read", {"file_path": "a"}),
            MessageAdded(role="user", text="hello"),
            call("Read", {"file_path": "b"}),
            call("Edit", {"file_path": "a"}),
            call("Read", {"file_path": "a"}),
            call("mcp__a__list", {}),
        )
    )
    assert found == [
        Touched(what="a", type="app", read=1, written=0, last_seq=6),
        Touched(what="a", type="file", read=2, written=1, last_seq=5),
        Touched(what="b", type="file", read=1, written=0, last_seq=3),
    ]
