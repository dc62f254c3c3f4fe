"""What a log must do, told again with plain lists: the model that `test_machine.py` holds both databases against.

It shares no code with clew, and no cleverness: a session is a list of lines, a fork copies nothing and remembers its
parent, and every answer is either ("ok", value) or the code of an error.
"""

from dataclasses import dataclass, field
from typing import Any

# From which states a line may be written, and the state it leads to; no state: it stays.
TALK = ({"opened", "active"}, "active")
STEPS: dict[str, tuple[set[str], str | None]] = {
    "message_added": TALK,
    "fact_learned": TALK,
    "my.kind": TALK,
    "session_paused": ({"opened", "active"}, "paused"),
    "session_resumed": ({"paused", "closed"}, "active"),
    "session_closed": ({"opened", "active", "paused"}, "closed"),
    "session_archived": ({"closed"}, "archived"),
    "lease_taken": ({"opened", "active", "paused", "closed"}, None),
    "lease_lost": ({"opened", "active", "paused", "closed"}, None),
    "lease_released": ({"opened", "active", "paused", "closed"}, None),
    "bodies_pruned": ({"opened", "active", "paused", "closed", "archived"}, None),
    "session_erased": ({"opened", "active", "paused", "closed", "archived"}, "erased"),
}
CONVERSATION = {"message_added", "my.kind"}

Answer = tuple[str, Any]


class Refused(Exception):
    """The model's no, with the code it expects."""


@dataclass
class Line:
    """One event: its kind and its text, until that is removed."""

    kind: str
    text: str | None = None
    removed: str | None = None


@dataclass
class Policy:
    keeps_for_ever: bool
    hold: bool


@dataclass(eq=False)
class Story:
    """One session."""

    number: int
    agent: str
    parent: "Story | None" = None
    upto: int = 0
    own: list[Line] = field(default_factory=list)
    sources: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    state: str = "opened"
    epoch: int = 0
    holder: str | None = None
    expired: bool = False
    old: bool = False

    @property
    def head(self) -> int:
        return self.upto + len(self.own)

    @property
    def held(self) -> bool:
        return self.holder is not None and not self.expired

    def history(self) -> list[tuple["Story", Line]]:
        before = self.parent.history()[: self.upto] if self.parent else []
        return before + [(self, line) for line in self.own]


class World:
    """All sessions of a project, in the order they were opened, and their events in the order they came."""

    def __init__(self) -> None:
        self.stories: list[Story] = []
        self.log: list[tuple[int, int]] = []
        self.policies: dict[str, Policy] = {}

    # Writing ----------------------------------------------------------------------------------------------------------

    def open(self, agent: str) -> Story:
        return self._begin(Story(len(self.stories), agent), "session_opened")

    def fork(self, story: Story, at: int | None) -> Story:
        at = story.head if at is None else at
        if not 1 <= at <= story.head:
            raise Refused("invalid_input")
        owner, _ = story.history()[at - 1]
        return self._begin(Story(len(self.stories), story.agent, owner, at), "session_forked")

    def _begin(self, story: Story, kind: str) -> Story:
        self.stories.append(story)
        story.own.append(Line(kind))
        self.log.append((story.number, story.head))
        return story

    def append(
        self, story: Story, batch: list[tuple[str, str, str | None]], expect: int | None, lease: int | None
    ) -> tuple[list[int], list[int], int]:
        seqs: list[int] = []
        repeated: list[int] = []
        new: list[tuple[str, str, str | None]] = []
        state = story.state
        sources = dict(story.sources)
        for kind, text, source in batch:
            if source is not None and source in sources:
                seq, known_kind, known_text = sources[source]
                if (kind, text) != (known_kind, known_text):
                    raise Refused("source_reused")
                seqs.append(seq)
                repeated.append(seq)
                continue
            if not new:
                self._may_write(story, lease)
                if expect is not None and expect != story.head:
                    raise Refused("stale_head")
            state = self._after(state, kind)
            new.append((kind, text, source))
            seqs.append(story.head + len(new))
            if source is not None:
                sources[source] = (seqs[-1], kind, text)
        for kind, text, _ in new:
            self._write(story, kind, text)
        story.sources = sources
        return seqs, repeated, story.head

    def _may_write(self, story: Story, lease: int | None) -> None:
        if lease is None and story.held:
            raise Refused("lease_held")
        if lease is not None and not (story.held and lease == story.epoch):
            raise Refused("lease_lost")

    def _after(self, state: str, kind: str) -> str:
        allowed, leads_to = STEPS[kind]
        if state not in allowed:
            raise Refused("wrong_state")
        return leads_to or state

    def _write(self, story: Story, kind: str, text: str | None = None) -> None:
        story.state = self._after(story.state, kind)
        story.own.append(Line(kind, text))
        story.old = False
        self.log.append((story.number, story.head))

    # Leases -----------------------------------------------------------------------------------------------------------

    def acquire(self, story: Story, holder: str) -> int:
        if story.held and story.holder != holder:
            raise Refused("lease_held")
        self._after(story.state, "lease_taken")
        if story.holder not in (None, holder):
            self._write(story, "lease_lost")
        self._write(story, "lease_taken")
        story.holder, story.expired = holder, False
        story.epoch += 1
        return story.epoch

    def renew(self, story: Story, epoch: int) -> int:
        self._may_write(story, epoch)
        return epoch

    def release(self, story: Story, epoch: int) -> None:
        self._may_write(story, epoch)
        self._write(story, "lease_released")
        story.holder = None
        story.epoch += 1

    # Forgetting -------------------------------------------------------------------------------------------------------

    def prune(self) -> list[tuple[int, int, int]]:
        done = []
        for story in self.stories:
            if story.state != "erased" and self._is_over(story):
                needed = self._needed(story)
                whole = [
                    (story.upto + place, line)
                    for place, line in enumerate(story.own, 1)
                    if line.kind in CONVERSATION and line.removed is None
                ]
                going = [line for seq, line in whole if seq > needed]
                for line in going:
                    line.removed = "pruned"
                if going:
                    old = story.old
                    self._write(story, "bodies_pruned")
                    story.old = old
                if whole:
                    done.append((story.number, len(going), len(whole) - len(going)))
        return done

    def _policies_of(self, story: Story) -> list[Policy]:
        return [self.policies[agent] for agent in dict.fromkeys((story.agent, "")) if agent in self.policies]

    def _is_held(self, story: Story) -> bool:
        return any(policy.hold for policy in self._policies_of(story))

    def _is_over(self, story: Story) -> bool:
        found = self._policies_of(story)
        return bool(found) and not found[0].keeps_for_ever and story.old and not self._is_held(story)

    def _children(self, story: Story) -> list[Story]:
        return [one for one in self.stories if one.parent is story]

    def _needed(self, story: Story) -> int:
        return max((child.upto for child in self._children(story) if self._is_kept(child)), default=0)

    def _is_kept(self, story: Story) -> bool:
        gone = story.state == "erased" or self._is_over(story)
        return not gone or self._needed(story) > 0

    def erase(self, story: Story, *, with_forks: bool) -> list[tuple[int, int]]:
        doomed = [story]
        for one in doomed:
            doomed += [child for child in self._children(one) if child.state != "erased"]
        if len(doomed) > 1 and not with_forks:
            raise Refused("has_forks")
        if any(self._is_held(one) for one in doomed):
            raise Refused("on_hold")
        done = []
        for one in reversed(doomed):
            if one.state == "erased":
                done.append((one.number, 0))  # Again is only to scrub again.
                continue
            done.append((one.number, len(one.own)))
            one.own = [Line("erased", removed="erased") for _ in one.own]
            self._write(one, "session_erased")
            one.sources, one.holder = {}, None
            one.epoch += 1
        return done
