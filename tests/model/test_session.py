"""The lifecycle: one table, one pure function, and a picture that agrees."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model import session as lifecycle
from clew.model.errors import InvalidInput, WrongState
from clew.model.events import (
    KINDS,
    BodiesPruned,
    Body,
    Budget,
    BudgetSet,
    FactLearned,
    LeaseTaken,
    MessageAdded,
    Opaque,
    SessionArchived,
    SessionClosed,
    SessionErased,
    SessionForked,
    SessionOpened,
    SessionPaused,
    SessionResumed,
    SessionTagged,
    TurnEnded,
    Usage,
)
from clew.model.session import LIFECYCLE, SPENDING, Head, State, apply
from model.shapes import bodies

STEPS = [
    "opened", "work", "knowledge", "people", "keeping", "label", "paused", "resumed", "closed", "archived", "erased",
]  # fmt: skip
# From each state, what each step of STEPS leads to; written out once more, so that a slip in the table is seen.
EXPECTED = {
    "opened":   "opened   active  active  opened  opened   opened   paused  -       closed  -         erased",
    "active":   "-        active  active  active  active   active   paused  -       closed  -         erased",
    "paused":   "-        -       -       paused  paused   paused   -       active  closed  -         erased",
    "closed":   "-        -       -       closed  closed   closed   -       active  -       archived  erased",
    "archived": "-        -       -       -       archived archived -       -       -       -         erased",
    "erased":   "-        -       -       -       -        -        -       -       -       -         -",
}  # fmt: skip
BY_STEP: dict[str, Body] = {
    "opened": SessionForked(parent="s0", upto=1),
    "work": MessageAdded(role="user"),
    "knowledge": FactLearned(fact="f", text="t"),
    "people": LeaseTaken(holder="ada", epoch=1),
    "keeping": BodiesPruned(ranges=()),
    "label": SessionTagged(tags=("work",)),
    "paused": SessionPaused(),
    "resumed": SessionResumed(),
    "closed": SessionClosed(),
    "archived": SessionArchived(),
    "erased": SessionErased(events=1),
}
HEADS = st.builds(
    Head,
    state=st.sampled_from([str(state) for state in State]),
    head=st.integers(0, 1000),
    digest=st.binary(min_size=32, max_size=32),
    budget_tokens=st.none() | st.integers(0, 1000),
    budget_cost_micros=st.none() | st.integers(0, 1000),
    spent_tokens=st.integers(0, 1000),
    spent_cost_micros=st.integers(0, 1000),
)


def head(state: str) -> Head:
    return Head(state=state, head=5, digest=bytes(32))


@pytest.mark.parametrize("state", EXPECTED)
@pytest.mark.parametrize("step", STEPS)
def test_every_step_from_every_state_leads_where_it_should(state: str, step: str) -> None:
    expected = EXPECTED[state].split()[STEPS.index(step)]
    body = BY_STEP[step]
    if expected == "-":
        with pytest.raises(WrongState) as refusal:
            apply(head(state), body, "s1")
        assert refusal.value.details == {"session": "s1", "state": state, "kind": body.kind}
        assert str(refusal.value).startswith(f"session s1 is {state} and takes no {body.kind}; ")
    else:
        assert apply(head(state), body, "s1").state == expected


def test_every_kind_has_a_step_of_the_table() -> None:
    assert {body.step for body in KINDS.values()} == set(STEPS)
    assert set(LIFECYCLE) == set(EXPECTED) == {str(state) for state in State}


def test_a_foreign_body_is_work() -> None:
    assert apply(head("opened"), Opaque(kind="my.kind", raw="{}"), "s1").state == "active"
    with pytest.raises(WrongState):
        apply(head("paused"), Opaque(kind="my.kind", raw="{}"), "s1")


@given(before=HEADS, body=bodies())
def test_applying_a_body_is_pure_and_changes_nothing_else(before: Head, body: Body) -> None:
    copy = Head(*(getattr(before, name) for name in Head.__struct_fields__))
    try:
        first = apply(before, body, "s1")
    except (WrongState, InvalidInput):
        assert before == copy
        return
    assert before == copy
    assert apply(before, body, "s1") == first
    may_change = {"state"}
    if isinstance(body, (*SPENDING, SessionForked)):  # A fork begins with what its parent had spent.
        may_change |= {"spent_tokens", "spent_cost_micros"}
    if isinstance(body, BudgetSet | SessionOpened):
        may_change |= {"budget_tokens", "budget_cost_micros"}
    changed = {name for name in Head.__struct_fields__ if getattr(first, name) != getattr(before, name)}
    assert changed <= may_change
    assert first.state == LIFECYCLE[before.state][body.step]


# Budgets --------------------------------------------------------------------------------------------------------------


def test_what_a_turn_used_is_counted_once() -> None:
    usage = Usage(input=1, output=20, cache_read=300, cache_write=4_000, reasoning=50_000, cost_micros=7)
    after = apply(head("active"), TurnEnded(usage=usage), "s1")
    assert (after.spent_tokens, after.spent_cost_micros) == (4_021, 7)
    assert apply(after, TurnEnded(usage=usage), "s1").spent_tokens == 8_042
    assert apply(after, TurnEnded(), "s1").spent_tokens == 4_021


def test_a_new_budget_replaces_the_old_and_forgets_nothing_spent() -> None:
    spent = apply(head("active"), TurnEnded(usage=Usage(input=50)), "s1")
    tight = apply(spent, BudgetSet(budget=Budget(tokens=10, cost_micros=1)), "s1")
    assert (tight.budget, tight.over_budget, tight.state) == (Budget(tokens=10, cost_micros=1), True, "active")
    free = apply(tight, BudgetSet(budget=Budget()), "s1")
    assert (free.budget, free.over_budget, free.spent_tokens) == (Budget(), False, 50)


@given(before=HEADS)
def test_over_budget_is_more_than_either_limit(before: Head) -> None:
    limits = [(before.budget_tokens, before.spent_tokens), (before.budget_cost_micros, before.spent_cost_micros)]
    assert before.over_budget == any(limit is not None and spent > limit for limit, spent in limits)


# The picture ----------------------------------------------------------------------------------------------------------


def drawn() -> set[tuple[str, str, str]]:
    """The arrows of the module's picture that lie on one line: from, step, to."""
    picture = lifecycle.__doc__ or ""
    right = {(a, step, b) for a, step, b in re.findall(r"(\w+) ─+(\w+)─+▶ (\w+)", picture)}
    left = {(a, step, b) for b, step, a in re.findall(r"(\w+) ◀─+(\w+)─+ (\w+)", picture)}
    return right | left


def test_every_arrow_of_the_picture_is_in_the_table() -> None:
    assert len(drawn()) >= 4
    for start, step, end in drawn():
        assert LIFECYCLE[start].get(step) == end, f"the picture says {start} -{step}-> {end}"


def test_the_picture_names_every_state_and_every_step_that_a_caller_takes() -> None:
    words = set(re.findall(r"\w+", lifecycle.__doc__ or ""))
    assert {"opened", "active", "paused", "closed", "archived"} <= words
    assert {"work", "paused", "resumed", "closed", "archived"} <= words
