"""The commits of every session: those recorded in its folder, and those that its calls printed.

A call is known to be a commit by what it was asked, and by the line `[main 1a2b3c4] subject` in what it returned. Both
have a row, and the course of the session says which belong together.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from clew.model.events import CallMade, CallReturned, CommitsMade, Event, TextPart
from clew.model.session import Session
from clew.store.derived import Transaction
from clew.views.contract import LATEST, Bodies, when

RECORDED, PRINTED, ASKED = "recorded", "printed", "asked"
# git prints no shorter name of a commit, and rows are looked up by so much of it.
SHORTEST = 7
# What a commit prints stands near the beginning or the end of what its command prints.
SEARCHED_BYTES = 64 * 1024
MOST_OF_EVENT = 100
# Here and not from git_record.py, because every command that reads a view loads this module.
_WHOLE = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ASKS = re.compile(rb"\bgit\b.{0,2000}?\b(commit|merge|cherry-pick|revert|rebase|am|pull)\b", re.DOTALL)
_PRINTS = re.compile(rb'(?:^|"|\n|\\n)\[[^\[\]\\"\n]{1,200}? ([0-9a-f]{7,40})\] ')


class LinkedCommit(NamedTuple):
    """A commit, and the session that it came out of."""

    seq: int
    sha: str
    how: str
    at: int
    id: str
    title: str
    runtime: str
    project: int
    person: str


class CommitsView:
    """The fold of the commits."""

    name: ClassVar[str] = "commits"
    version: ClassVar[int] = 1
    bodies: ClassVar[Bodies] = (CallMade, CallReturned, CommitsMade)

    def __init__(self, tx: Transaction, session: Callable[[int], Session], dialect: str) -> None:
        self._tx = tx
        self._session = session
        self._rows: dict[int, list[dict[str, Any]]] = {}

    def add(self, key: int, event: Event) -> None:
        how, commits = _commits(event)
        for sha in commits:
            row = {
                "project": self._session(key).project_key, "session": key, "seq": event.seq, "sha": sha,
                "short": sha[:SHORTEST], "how": how, "at": min(when(event), LATEST),
            }  # fmt: skip
            self._rows.setdefault(key, []).append(row)

    def forget(self, key: int) -> None:
        self._rows.pop(key, None)
        self._tx.run("commits_drop", session=key)

    def finish(self) -> None:
        self._tx.many("commits_add", [row for rows in self._rows.values() for row in rows])

    @staticmethod
    def clear(tx: Transaction, dialect: str) -> None:
        tx.run("commits_clear")


def _commits(event: Event) -> tuple[str, list[str]]:
    match event.body:
        case CommitsMade(commits=commits):
            return RECORDED, [*dict.fromkeys(sha for sha in commits[:MOST_OF_EVENT] if _WHOLE.fullmatch(sha))]
        case CallMade(input=input):
            return ASKED, [""] if _ASKS.search(bytes(input)) else []
        case CallReturned(output=output, parts=parts):
            texts = [
                bytes(output),
                *(part.text.encode("utf-8", "replace") for part in parts if isinstance(part, TextPart)),
            ]
            return PRINTED, [*dict.fromkeys(sha for text in texts for sha in _printed(text))][:MOST_OF_EVENT]
        case _:
            return "", []


def _printed(text: bytes) -> list[str]:
    if len(text) > 2 * SEARCHED_BYTES:
        text = text[:SEARCHED_BYTES] + b"\n" + text[-SEARCHED_BYTES:]
    return [sha.decode() for sha in _PRINTS.findall(text)]


VIEW = CommitsView
