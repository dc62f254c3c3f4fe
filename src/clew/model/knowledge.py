"""What a session knows: facts, decisions, progress and scratch, folded from its events. No conversation here."""

import enum
from collections.abc import Iterable

import msgspec

from clew.model import events as e
from clew.model.events import Event

KINDS = tuple(body.kind for body in e.Body.__subclasses__() if body.step == "knowledge")


class Tier(enum.StrEnum):
    FACT = "fact"
    DECISION = "decision"
    PROGRESS = "progress"
    SCRATCH = "scratch"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a session knows, and where it is from: its session, event, time and actor.

    Without a body it was retired, reversed or cleared by that event.
    """

    tier: Tier
    name: str
    session: str
    seq: int
    at: int
    who: str
    body: e.Body | None


class Knowledge(msgspec.Struct, kw_only=True):
    """The durable tier at one moment, newest value of each thing."""

    facts: dict[str, e.FactLearned] = {}
    decisions: dict[str, e.DecisionMade] = {}
    progress: e.ProgressNoted | None = None
    scratch: dict[str, msgspec.Raw] = {}


# The bodies that add to the knowledge or take from it.
KNOWING = (
    e.FactLearned, e.FactRetired, e.DecisionMade, e.DecisionReversed, e.ProgressNoted, e.ScratchSet, e.ScratchCleared,
)  # fmt: skip


def known_by(event: Event) -> Known | None:
    """What an event adds to the knowledge or takes from it; None for any other event."""
    body = event.body
    match body:
        case e.FactLearned(fact=name) | e.FactRetired(fact=name):
            tier = Tier.FACT
        case e.DecisionMade(decision=name) | e.DecisionReversed(decision=name):
            tier = Tier.DECISION
        case e.ProgressNoted():
            tier, name = Tier.PROGRESS, ""
        case e.ScratchSet(name=name) | e.ScratchCleared(name=name):
            tier = Tier.SCRATCH
        case _:
            return None  # The body was removed, or a newer clew wrote it.
    return Known(
        tier=tier,
        name=name,
        session=event.session,
        seq=event.seq,
        at=event.at if event.said_at is None else event.said_at,
        who=event.actor,
        body=None if isinstance(body, e.FactRetired | e.DecisionReversed | e.ScratchCleared) else body,
    )


def standing(steps: Iterable[Known]) -> list[Known]:
    """What is known after these steps: the newest of each name, without what was taken back; oldest first."""
    newest: dict[tuple[Tier, str], Known] = {}
    for known in steps:
        newest.pop((known.tier, known.name), None)
        newest[known.tier, known.name] = known
    return [known for known in newest.values() if known.body is not None]


def of_events(events: Iterable[Event]) -> list[Known]:
    """What is known after these events."""
    return standing(known for event in events if (known := known_by(event)) is not None)


def fold(events: Iterable[Event]) -> Knowledge:
    """The knowledge after these events, without what was retired, reversed or cleared."""
    return knowledge(of_events(events))


def knowledge(known: Iterable[Known]) -> Knowledge:
    """Known things by their names."""
    result = Knowledge()
    for item in known:
        match item.body:
            case e.FactLearned() as body:
                result.facts[item.name] = body
            case e.DecisionMade() as body:
                result.decisions[item.name] = body
            case e.ProgressNoted() as body:
                result.progress = body
            case e.ScratchSet(value=value):
                result.scratch[item.name] = value
            case _:
                pass
    return result
