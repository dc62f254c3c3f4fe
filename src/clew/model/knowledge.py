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
    """The knowledge after these events; what was retired, reversed or cleared is gone."""
    known = Knowledge()
    for event in events:
        match event.body:
            case e.FactLearned(fact=fact) as body:
                known.facts[fact] = body
            case e.FactRetired(fact=fact):
                known.facts.pop(fact, None)
            case e.DecisionMade(decision=decision) as body:
                known.decisions[decision] = body
            case e.DecisionReversed(decision=decision):
                known.decisions.pop(decision, None)
            case e.ProgressNoted() as body:
                known.progress = body
            case e.ScratchSet(name=name, value=value):
                known.scratch[name] = value
            case e.ScratchCleared(name=name):
                known.scratch.pop(name, None)
            case _:
                pass
    return known
