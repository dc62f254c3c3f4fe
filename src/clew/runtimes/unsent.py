"""Answers that a program does not send to its llm again: those that failed, in some programs.

They are part of the session and stay in the log. A program that goes on with the session tells its llm what the
session's own program would tell it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from clew.model.events import CallMade, CallReturned, Event, MessageAdded, RuntimeAttached, TurnEnded
from clew.model.source import identity

Reasons = Mapping[str, frozenset[str]]
"""For each program the reasons that end an answer which it does not send again."""


class Sent(NamedTuple):
    """What of a conversation is sent, and how many answers, calls and results are not."""

    spoken: list[Event]
    unsent: dict[str, int]


def sent(spoken: list[Event], events: Iterable[Event], reasons: Reasons) -> Sent:
    """A conversation without the answers that the programs of the session do not send again."""
    answers = _unsent_answers(events, reasons)
    if not answers:
        return Sent(spoken, {})
    calls = {event.body.call for event in spoken if isinstance(event.body, CallMade) and event.body.message in answers}
    kept, unsent = [], {"answers": len(answers), "calls": len(calls), "results": 0}
    for event in spoken:
        body = event.body
        if isinstance(body, CallReturned) and body.call in calls:
            unsent["results"] += 1
        elif not (isinstance(body, MessageAdded | CallMade) and body.message in answers):
            kept.append(event)
    return Sent(kept, unsent)


def _unsent_answers(events: Iterable[Event], reasons: Reasons) -> set[str]:
    """The ids of the answers. A failure is in the record of the answer that failed, which may be empty."""
    runtime = ""
    records: dict[str, str] = {}
    answers = set()
    for event in events:
        body, source = event.body, identity(event.source)
        if isinstance(body, RuntimeAttached):
            runtime = body.runtime
        elif isinstance(body, MessageAdded | CallMade) and body.message:
            records = {source: body.message} if body.message not in records.values() else records
        elif isinstance(body, TurnEnded) and body.stop_reason.partition(":")[0] in reasons.get(runtime, ()):
            answers |= {message for record, message in records.items() if source.startswith(f"{record}/")}
    return answers
