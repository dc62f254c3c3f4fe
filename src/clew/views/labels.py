"""The labels of every session: its tags, who starred it, and the notes about it. Its title is in the list itself."""

from collections.abc import Callable
from typing import Any, ClassVar

from clew.model.events import (
    Event,
    NoteAdded,
    NoteRemoved,
    SessionStarred,
    SessionTagged,
    SessionUnstarred,
    SessionUntagged,
)
from clew.model.labels import LONGEST_NOTE, NOTE, STAR, TAG, is_tag
from clew.model.session import Session
from clew.store.derived import Transaction
from clew.views.contract import Bodies, storable

# An event can name more tags than any person gives.
MOST_TAGS = 1000


class LabelsView:
    """The fold of the labels. Labels are few, so each is written when it comes."""

    name: ClassVar[str] = "labels"
    version: ClassVar[int] = 1
    bodies: ClassVar[Bodies] = (
        SessionTagged,
        SessionUntagged,
        SessionStarred,
        SessionUnstarred,
        NoteAdded,
        NoteRemoved,
    )

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session

    def add(self, key: int, event: Event) -> None:
        match event.body:
            case SessionTagged(tags=tags):
                # What arrives from another store was checked by nobody.
                known = [tag for tag in tags[:MOST_TAGS] if is_tag(tag)]
                self._tx.many("labels_add", [self._row(key, TAG, tag, event) for tag in known])
            case SessionUntagged(tags=tags):
                self._tx.many("labels_remove", [_name(key, TAG, tag) for tag in tags[:MOST_TAGS]])
            case SessionStarred():
                self._tx.run("labels_add", **self._row(key, STAR, event.actor, event))
            case SessionUnstarred():
                self._tx.run("labels_remove", **_name(key, STAR, event.actor))
            case NoteAdded(note=note, text=text):
                self._tx.run("labels_add", **self._row(key, NOTE, note, event, text=_text(text)))
            case NoteRemoved(note=note):
                self._tx.run("labels_remove", **_name(key, NOTE, note))

    def _row(self, key: int, kind: str, name: str, event: Event, *, text: str = "") -> dict[str, Any]:
        return {
            "project": self._session(key).project_key, **_name(key, kind, name), "text": text,
            "actor": storable(event.actor), "seq": event.seq, "at": event.at,
        }  # fmt: skip

    def forget(self, key: int) -> None:
        self._tx.run("labels_drop", session=key)

    def finish(self) -> None:
        """Nothing is left to write."""

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("labels_clear")


def _name(key: int, kind: str, name: str) -> dict[str, Any]:
    return {"session": key, "kind": kind, "name": storable(name)}


def _text(text: str) -> str:
    """A note as every database can store it; one that came from another store can be longer than any here."""
    return text[:LONGEST_NOTE].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


VIEW = LabelsView
