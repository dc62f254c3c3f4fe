"""What a session loses in a form of export is said to be lost, and only what the form has no place for."""

import pytest

from clew.model.events import (
    AnyBody,
    CallMade,
    CallReturned,
    Compacted,
    Event,
    FilePart,
    ImagePart,
    MessageAdded,
    Opaque,
    Removed,
    TextPart,
    ThinkingPart,
)
from clew.runtimes.contract import raw
from clew.runtimes.export_forms import fidelity
from clew.runtimes.fit import Change, Fidelity

PICTURE = ImagePart(blob="b", media_type="image/png")
ARCHIVE = FilePart(blob="c", media_type="application/zip")
NOTES = FilePart(blob="d", media_type="text/plain")
BODIES: list[AnyBody] = [
    Removed(kind="message_added", how="pruned"),
    MessageAdded(role="system", text="be kind"),
    MessageAdded(role="user", parts=(TextPart(text="look"), PICTURE, ARCHIVE, NOTES)),
    MessageAdded(role="assistant", message="m", parts=(ThinkingPart(text="hm", signature="s"),)),
    CallMade(call="a", tool="t", message="m"),
    MessageAdded(role="assistant", message="m", text="one moment"),
    CallReturned(call="a", output=raw("ok"), parts=(PICTURE,)),
    MessageAdded(role="user", text="do it", side="helper"),
    MessageAdded(role="assistant", text="done", side="helper"),
    CallReturned(call="nobody", output=raw("lost")),
    Compacted(summary="so far"),
    Opaque(kind="x.y", raw="{}"),
]
EVENTS = [Event("s", seq, seq, seq, None, "me", f"e{seq}", b"", body) for seq, body in enumerate(BODIES, 1)]
CARRIED = {"prompts": 3, "answers": 1, "calls": 1, "results": 2}
GONE = ("events", 1, "removed by retention")


def told(changes: list[Change]) -> dict[str, int]:
    return {one.what: one.count for one in changes}


def test_a_trajectory_says_what_it_leaves_out() -> None:
    found = fidelity.trajectory(EVENTS)
    assert (found.carried, found.stayed) == (CARRIED, {"x.y": 1})
    assert told(found.dropped) == {
        "messages of subagents": 2, "events": 1, "images and files": 2, "parts of results": 1,
    }  # fmt: skip
    assert told(found.adapted) == {
        "compactions": 1, "images": 1, "thinking": 1, "orders of texts and calls": 1, "results without a call": 1,
    }  # fmt: skip


def test_the_interchange_says_what_it_leaves_out() -> None:
    found = fidelity.interchange(EVENTS)
    assert (found.carried, found.stayed) == (CARRIED, {"x.y": 1})
    assert told(found.dropped) == {"messages of subagents": 2, "events": 1, "thinking": 1}
    assert [change.count for change in found.adapted if change.what == "images and files"] == [3, 1]
    assert {"system messages", "compactions", "results without a call"} <= told(found.adapted).keys()


@pytest.mark.parametrize(("images", "named"), [(False, 3), (True, 1)])
def test_a_page_carries_what_it_does_not_show(images: bool, named: int) -> None:
    found = fidelity.page(EVENTS, images=images)
    assert [(change.what, change.count, change.why) for change in found.dropped] == [GONE]
    assert told(found.adapted) == {"compactions": 1, "images and files": named}


def test_lines_lose_only_what_clew_has_lost() -> None:
    found = fidelity.lines(EVENTS)
    assert found.carried == {"events": len(EVENTS) - 1}
    assert [(change.what, change.count, change.why) for change in found.dropped] == [GONE]
    assert told(found.adapted) == {"images and files": 4}


def test_a_plain_conversation_is_carried_by_every_form_as_it_is() -> None:
    plain = [EVENTS[4], Event("s", 20, 20, 20, None, "me", None, b"", CallReturned(call="a", output=raw("ok")))]
    whole = Fidelity(carried={"calls": 1, "results": 1})
    made = (fidelity.trajectory(plain), fidelity.interchange(plain), fidelity.page(plain, images=False))
    assert made == (whole, whole, whole)
