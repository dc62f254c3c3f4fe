"""What a file repeats of the log, and how its drafts are reconciled with it."""

import msgspec
import pytest

from clew.model.events import Draft, Event, MessageAdded, Opaque, Rewound
from clew.service.capture.reconcile import root_of, shared_beginning, sources_of, without_written_by_clew


def says(source: str | None) -> Draft:
    return Draft(body=MessageAdded(role="user", text=source or ""), source=source)


def opaque(source: str) -> Draft:
    return Draft(body=Opaque(kind="x.y", raw="{}"), source=source)


def log(*sources: str) -> list[Event]:
    drafts = [says(source) for source in sources]
    return [Event("s", i, i, 0, None, "", draft.source, b"", draft.body) for i, draft in enumerate(drafts, 1)]


def test_the_shared_beginning_ends_before_the_first_message_of_its_own() -> None:
    shared = shared_beginning(log("a", "b", "c"), [says("a"), says("b"), says("own"), says("c")])
    assert shared is not None
    assert (shared.at, shared.sources) == (2, {"a", "b"})


def test_a_file_that_begins_with_a_message_of_its_own_shares_nothing() -> None:
    assert shared_beginning(log("a"), [says("own"), says("a")]) is None


@pytest.mark.parametrize("copied", [says("@17"), Draft(body=Rewound(to="a"), source="r")])
def test_what_was_copied_between_two_shared_records_is_shared(copied: Draft) -> None:
    drafts = [says("a"), copied, says("b"), says("@99")]
    shared = shared_beginning(log("a", "b"), drafts)
    assert shared is not None
    assert shared.sources == {"a", "b", copied.source}


def test_a_record_that_says_nothing_is_not_taken_for_a_shared_one() -> None:
    shared = shared_beginning(log("a", "b"), [says("a"), opaque("new"), says("b")])
    assert shared is not None
    assert shared.sources == {"a", "b"}


def test_events_that_are_known_only_by_their_place_are_not_shared() -> None:
    assert sources_of(log("a", "@3", "b~c0ffee")) == {"a", "b~c0ffee"}
    assert shared_beginning(log("@1"), [says("@1")]) is None


def test_the_root_is_the_first_record_with_an_identity() -> None:
    assert root_of([says(None), says("@0"), says("a~c0ffee"), says("b")]) == "a"
    assert root_of([says("@0")]) == ""


def test_what_clew_wrote_into_a_file_is_left_out_in_every_revision() -> None:
    drafts = [says("a"), says("b~c0ffee"), says("c")]
    written = msgspec.json.encode(["a", "b"]).decode()
    assert without_written_by_clew(drafts, written) == [drafts[2]]
    assert without_written_by_clew(drafts, "") == drafts
