"""A history reads a small session once and a large one in parts; what a caller gets is the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.model.events import CallMade, CallReturned, Draft, Event, MessageAdded
from clew.model.outline import whole_call, whole_part
from clew.runtimes.contract import raw
from clew.secrets.masking import Masker
from clew.secrets.rules import bundled
from clew.secrets.scanner import Scanner
from clew.service.handover.masked_history import MaskedHistory
from clew.service.sessions import history as history_module
from clew.service.sessions.history import History
from clew.store import Store, open_store
from clew.store.log.opening import Opening

BODIES = [
    MessageAdded(role="user", text="go on"),
    CallMade(call="a", tool="Bash", input=raw({"command": "make"})),
    CallReturned(call="a", output=raw("made")),
    MessageAdded(role="assistant", text="done"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/clew.db") as opened:
        yield opened


@pytest.fixture
def history(store: Store) -> History:
    session = store.open(Opening(project="default", title="read"), actor="person:ada")
    store.append(session, [Draft(body=body) for body in BODIES], actor="person:ada")
    return History(store, session)


def test_a_small_session_is_read_once(store: Store, history: History) -> None:
    outline = history.outline()
    read = list(store.read(history.session))
    store.close()
    assert list(history) == read
    assert list(history.of_kinds(("call_made",))) == [read[2]]
    assert [outline.read(event.seq) for event in read] == read
    assert [event.seq for event in outline.events] == [event.seq for event in read]


def test_the_texts_of_a_large_session_are_read_again(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(history)
    monkeypatch.setattr(history_module, "SMALL_BYTES", 7)
    outline = history.outline()
    assert not outline.has_texts
    assert [_restored(event, history) for event in outline.events if event.kind != "call_returned"] == [
        event.body for event in whole if event.kind != "call_returned"
    ]
    assert list(history) == whole
    assert list(history.of_kinds(("call_made",))) == [whole[2]]


def _restored(event: Event, history: History) -> object:
    match event.body:
        case CallMade() as body:
            return whole_call(body, history.read)
        case MessageAdded() as body:
            [part] = (whole_part(part, history.read) for part in body.content)
            return MessageAdded(role=body.role, text=part.text)  # type: ignore[union-attr]  # All are texts.
        case body:
            return body


def test_an_event_is_not_read_unmasked_because_it_was_passed_over(store: Store, history: History) -> None:
    masked = MaskedHistory(store, history.session, Masker(Scanner(bundled()), b"key"))
    with pytest.raises(AssertionError, match="event 3 is read before 1 was masked"):
        masked.read(3)
