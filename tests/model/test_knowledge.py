"""Knowledge: the newest of each thing, and nothing that was taken back."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from clew.model import knowledge
from clew.model.events import (
    DecisionMade,
    DecisionReversed,
    Event,
    FactLearned,
    FactRetired,
    MessageAdded,
    ProgressNoted,
    ScratchCleared,
    ScratchSet,
)

NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(max_size=3)
BODIES = st.one_of(
    st.builds(FactLearned, fact=NAMES, text=TEXTS),
    st.builds(FactRetired, fact=NAMES),
    st.builds(DecisionMade, decision=NAMES, choice=TEXTS),
    st.builds(DecisionReversed, decision=NAMES),
    st.builds(ProgressNoted, done=TEXTS),
    st.builds(ScratchSet, name=NAMES, value=st.integers().map(lambda number: Raw(msgspec.json.encode(str(number))))),
    st.builds(ScratchCleared, name=NAMES),
    st.builds(MessageAdded, role=st.just("user"), text=TEXTS),
)


def newest(bodies: list[Any], said: type, taken_back: type, name: str) -> dict[str, Any]:
    """For each name the last thing said, unless it was taken back after that."""
    found = {}
    for key in {getattr(body, name) for body in bodies if isinstance(body, said)}:
        last = [body for body in bodies if isinstance(body, said | taken_back) and getattr(body, name) == key][-1]
        if isinstance(last, said):
            found[key] = last
    return found


@given(bodies=st.lists(BODIES, max_size=20))
def test_what_is_known_is_the_last_thing_said_of_each(bodies: list[Any]) -> None:
    events = [Event("s", seq, seq, 0, None, "", None, b"", body) for seq, body in enumerate(bodies, 1)]
    known = knowledge.fold(events)
    assert known.facts == newest(bodies, FactLearned, FactRetired, "fact")
    assert known.decisions == newest(bodies, DecisionMade, DecisionReversed, "decision")
    scratch = newest(bodies, ScratchSet, ScratchCleared, "name")
    assert known.scratch == {name: body.value for name, body in scratch.items()}
    assert known.progress == ([None] + [body for body in bodies if isinstance(body, ProgressNoted)])[-1]


def test_folding_twice_shares_nothing() -> None:
    first = knowledge.fold([Event("s", 1, 1, 0, None, "", None, b"", FactLearned(fact="a", text="b"))])
    assert first.facts
    assert knowledge.fold([]).facts == {}
