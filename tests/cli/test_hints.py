"""Hints name a command that exists, with the session that the error is about."""

import re

import pytest

from clew.cli.hints import HINTS, LISTS, hint_for
from clew.cli.run import clew
from clew.model.errors import BudgetExceeded, ClewError, Damaged, HasForks, InvalidInput, NotFound, WrongState


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (WrongState("x", session="s1", state="paused", kind="message_added"), "clew resume s1"),
        (
            WrongState("x", session="s1", state="paused", over_budget=True),
            "clew budget s1 --tokens N (or --usd X), then clew resume s1",
        ),
        (WrongState("x", session="s1", state="archived", kind="message_added"), "clew fork s1"),
        (WrongState("x", session="s1", state="active", kind="session_archived"), "clew close s1"),
        (WrongState("x", session="s1", state="active", kind="session_resumed"), ""),
        (BudgetExceeded("x", session="s1"), "clew budget s1 --tokens N (or --usd X), then clew resume s1"),
        (HasForks("x", session="s1"), "clew erase s1 --with-forks"),
        (Damaged("x", session="s1"), "clew verify s1"),
        (Damaged("x"), "clew verify"),
        (NotFound("x", session="s1"), "clew sessions"),
        (NotFound("x"), ""),
        *((NotFound("x", missing=kind), command) for kind, command in LISTS.items()),
        (InvalidInput("x"), ""),
    ],
)
def test_a_hint_is_the_command_that_helps(error: ClewError, hint: str) -> None:
    assert hint_for(error) == hint


@pytest.mark.parametrize("code", HINTS)
def test_every_hint_names_a_command_that_exists(code: str) -> None:
    with clew.make_context("clew", [], resilient_parsing=True) as context:
        states = [{"session": "s1", "state": state} for state in ("paused", "archived")]
        for details in ({}, *states, *({"missing": kind} for kind in LISTS)):
            for name in re.findall(r"\bclew (\w+)", HINTS[code](details)):
                assert clew.get_command(context, name) is not None
