"""What a session knows: facts, decisions, progress and scratch, folded from its events. No conversation here."""

from collections.abc import Iterable

import msgspec

from clew.model import events as e
from clew.model.events import Event

KINDS = tuple(body.kind for body in e.Body.__subclasses__() if body.step == "knowledge")


class Knowledge(msgspec.Struct, kw_only=True):
    """The durable tier at one moment, newest value of each thing."""

    facts: dict[str, e.FactLearned] = {}
    decisions: dict[str, e.DecisionMade] = {}
    progress: e.ProgressNoted | None = None
    scratch: dict[str, msgspec.Raw] = {}


def fold(events: Iterable[Event]) -> Knowledge:
    """The knowledge after these events, without what was retired, reversed or cleared."""
    knowledge = Knowledge()
    for event in events:
        match event.body:
            case e.FactLearned(fact=fact) as body:
                knowledge.facts[fact] = body
            case e.FactRetired(fact=fact):
                knowledge.facts.pop(fact, None)
            case e.DecisionMade(decision=decision) as body:
                knowledge.decisions[decision] = body
            case e.DecisionReversed(decision=decision):
                knowledge.decisions.pop(decision, None)
            case e.ProgressNoted() as body:
                knowledge.progress = body
            case e.ScratchSet(name=name, value=value):
                knowledge.scratch[name] = value
            case e.ScratchCleared(name=name):
                knowledge.scratch.pop(name, None)
            case _:
                pass
    return knowledge
