"""Passages: what an event says, and how much of it is searched."""

from typing import Any

import pytest
from msgspec import Raw, convert

from clew.model import events as e
from clew.model.passage import OVERLAP, STRETCH, Role, passage_of, stretches
from clew.model.query import LONGEST_QUERY


def said(body: e.AnyBody) -> tuple[Role, tuple[str, ...]] | None:
    found = passage_of(body)
    return None if found is None else (found.role, found.texts)


def output(json: str) -> e.CallReturned:
    return e.CallReturned(call="c", output=Raw(json.encode()))


SAID: dict[str, tuple[e.AnyBody, tuple[str, str] | None]] = {
    "a question": (e.MessageAdded(role="user", text="why?"), ("asked", "why?")),
    "an answer": (e.MessageAdded(role="assistant", text="so."), ("answered", "so.")),
    "the system's words": (e.MessageAdded(role="system", text="be brief"), ("noted", "be brief")),
    "a role nobody knows": (e.MessageAdded(role="x", text="y"), ("noted", "y")),
    "a subagent's question": (e.MessageAdded(role="user", text="why?", side="a"), ("asked", "why?")),
    "a call": (
        e.CallMade(call="c", tool="Bash", input=Raw(b'{"command": "ls -l", "deep": [{"a": "b"}, 7, 1.5, true, null]}')),
        ("run", "Bash|ls -l|b|7|1.5"),
    ),
    "a return": (output('{"out": "done", "code": 0}'), ("returned", "done|0")),
    "a return of text": (output('"plain"'), ("returned", "plain")),
    "a return of nothing": (output("null"), None),
    "an empty message": (e.MessageAdded(role="user", text=""), None),
    "a title": (e.SessionTitled(title="Fix it"), ("noted", "Fix it")),
    "a session without a title": (e.SessionOpened(), None),
    "a fork": (e.SessionForked(parent="p", upto=1, title="other way"), ("noted", "other way")),
    "a fact": (e.FactLearned(fact="f", text="it is slow"), ("noted", "it is slow")),
    "a decision": (
        e.DecisionMade(decision="d", choice="a", why="b", rejected=("c", "d")), ("noted", "a|b|c|d")
    ),
    "progress": (e.ProgressNoted(done="half", next="rest", open=("why?",)), ("noted", "half|rest|why?")),
    "scratch": (e.ScratchSet(name="plan", value=Raw(b'{"steps": ["one", 2]}')), ("noted", "plan|one|2")),
    "an outcome": (e.SessionClosed(outcome="merged", summary="all good"), ("noted", "merged|all good")),
    "a summary": (e.Compacted(summary="short"), ("noted", "short")),
    "usage": (e.UsageCounted(usage=e.Usage(input=1)), None),
    "a lease": (e.LeaseTaken(holder="person:ada", epoch=1), None),
    "a record of somebody else": (e.Opaque(kind="x.y", raw='{"text": "hidden"}'), None),
    "what was pruned": (e.Removed(kind="message_added", how="pruned"), None),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), SAID.values(), ids=SAID)
def test_an_event_says(body: e.AnyBody, expected: tuple[str, str] | None) -> None:
    assert said(body) == (None if expected is None else (Role(expected[0]), tuple(expected[1].split("|"))))


def test_parts_are_said_in_order_and_files_by_their_names() -> None:
    parts: Any = [
        {"type": "thinking", "text": "hm"}, {"type": "text", "text": "look"},
        {"type": "image", "blob": "0", "name": "screen.png"}, {"type": "file", "blob": "0"},
    ]  # fmt: skip
    body = convert({"role": "assistant", "text": "first", "parts": parts}, e.MessageAdded)
    assert said(body) == (Role.ANSWERED, ("first", "hm", "look", "screen.png"))


@pytest.mark.parametrize("text", ["1" * 5000, "[" * 1100 + '"deep"' + "]" * 1100, "1e400", "-0", '"\\u0000"', "{}"])
def test_no_json_is_too_odd_to_be_looked_at(text: str) -> None:
    passage_of(output(text))


def test_what_is_nested_beyond_reason_is_found_all_the_same() -> None:
    found = passage_of(output("[" * 1100 + '"deep"' + "]" * 1100))
    assert found is not None
    assert any("deep" in text for text in found.texts)


# Stretches ------------------------------------------------------------------------------------------------------------


def whole(length: int) -> str:
    """A text whose every ten characters tell where they stand."""
    return "".join(f"{number:09} " for number in range(length // 10 + 1))[:length]


@pytest.mark.parametrize("length", [1, STRETCH - 1, STRETCH, STRETCH + 1, 3 * STRETCH, 1_000_000])
def test_the_stretches_of_a_text_are_all_of_it(length: int) -> None:
    text = whole(length)
    found = list(stretches((text,)))
    assert all(0 < len(stretch) <= STRETCH for stretch in found)
    assert found[0] + "".join(stretch[OVERLAP:] for stretch in found[1:]) == text
    assert (len(found) == 1) is (length <= STRETCH)


def test_two_stretches_share_more_than_a_query_can_ask_for() -> None:
    assert OVERLAP > LONGEST_QUERY


def test_a_text_without_a_blank_is_cut_anywhere() -> None:
    found = list(stretches(("x" * 3 * STRETCH,)))
    assert [len(stretch) for stretch in found][:2] == [STRETCH, STRETCH]


def test_no_word_is_cut_where_there_are_blanks() -> None:
    words = {word for stretch in stretches((whole(200_000),)) for word in stretch.split()}
    assert words >= set(whole(200_000).split())


def test_several_texts_make_one() -> None:
    assert list(stretches(("a", "b"))) == ["a\nb"]
