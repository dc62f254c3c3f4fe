"""Both databases in lockstep against the model in `story.py`: whatever is asked of them, in whatever order.

CLEW_MACHINE_EXAMPLES asks for more examples than an ordinary run has time for. A failure prints how to replay it.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from clew.model.errors import ClewError
from clew.model.events import (
    Body,
    Draft,
    Event,
    FactLearned,
    MessageAdded,
    Opaque,
    Removed,
    SessionArchived,
    SessionClosed,
    SessionPaused,
    SessionResumed,
)
from clew.model.retention import Policy
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log.erase import erase
from clew.store.log.leases import acquire, release, renew
from clew.store.log.opening import Forking, Opening
from clew.store.log.retention import apply_policies, remove_policy, set_policy
from clew.store.log.verify import verify
from store import story as model
from store.rows import age, expire_lease
from store.story import Refused, Story, World
from store.words import ADA, big
from support.postgres import Server

EXAMPLES = int(os.environ.get("CLEW_MACHINE_EXAMPLES", "50"))
STEPS = 40
MOST_SESSIONS = 6
MOST_ERASURES = 2
HOUR_US = 3_600_000_000

Batch = list[tuple[str, str, str | None]]

LIFECYCLE: dict[str, Body] = {
    "session_paused": SessionPaused(),
    "session_resumed": SessionResumed(),
    "session_closed": SessionClosed(),
    "session_archived": SessionArchived(),
}

# The last stands for a text that is large enough to become a blob.
TEXTS = st.sampled_from(["a", "b", "large"])
SOURCES = st.sampled_from([None, "s1", "s2"])
KINDS = st.sampled_from(["message_added", "fact_learned", "my.kind"])
BATCHES = st.lists(st.tuples(KINDS, TEXTS, SOURCES), min_size=1, max_size=4)
WHICH = st.integers(0, MOST_SESSIONS - 1)
# How far from the truth the caller's idea of the head and of the epoch is; None: it has no idea.
WRONG = st.sampled_from([0, 0, 0, -1, 1])
EXPECTATIONS = st.none() | WRONG
FENCES = st.none() | WRONG
AGENTS = st.sampled_from(["", "fred"])


class Pair:
    """A log on SQLite and one on PostgreSQL, each as two processes have it open."""

    def __init__(self, urls: tuple[str, str]) -> None:
        self._urls = urls
        self._here, self._elsewhere = self._open(), self._open()
        self.projects = (f"project {number}" for number in itertools.count())

    @property
    def stores(self) -> list[Store]:
        """The two logs, as the process has them whose turn it is."""
        return self._here

    def take_turns(self) -> None:
        self._here, self._elsewhere = self._elsewhere, self._here

    def reopen(self) -> None:
        for store in self._here:
            store.close()
        self._here = self._open()

    def close(self) -> None:
        for store in self._here + self._elsewhere:
            store.close()

    def _open(self) -> list[Store]:
        return [open_store(url) for url in self._urls]


@pytest.fixture
def pair(tmp_path: Path, postgres: Server) -> Iterator[Pair]:
    pair = Pair((f"sqlite:///{tmp_path / 'clew.db'}", postgres.new_database()))
    yield pair
    pair.close()


def test_both_databases_do_what_the_model_says(pair: Pair) -> None:
    run_state_machine_as_test(
        lambda: Machine(pair),  # type: ignore[arg-type]  # it may be any maker of machines
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            # Not the one that explains: it would take longer than all the others.
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )


class Machine(RuleBasedStateMachine):
    """One project per example; each of its sessions is a story of the model and a session in each store."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair
        self.project = next(pair.projects)
        self.world = World()
        self.sessions: list[list[Session]] = []
        self.erasures = 0

    def both(self, expected: Callable[[], Any], actual: Callable[[Store, list[Session]], Any]) -> Any:
        """Ask the model and both stores the same; returns the model's answer once all three agree."""
        try:
            answer = ("ok", expected())
        except Refused as refusal:
            answer = (str(refusal), None)
        for number, store in enumerate(self.pair.stores):
            mine = [sessions[number] for sessions in self.sessions]
            try:
                found = ("ok", actual(store, mine))
            except ClewError as error:
                found = (error.code, None)
            assert found == answer, f"{store.database.dialect} answered {found}, the model {answer}"
        return answer[1] if answer[0] == "ok" else None

    def story(self, which: int) -> Story:
        return self.world.stories[which % len(self.world.stories)]

    # Sessions ---------------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        for agent in ("", "fred"):
            self.open(agent)
            self.talk(len(self.world.stories) - 1, ["a", "b", "large"])
        self.fork(0, 3)
        self.talk(2, ["a"])
        self.set_policy("", 5, hold=False)

    @precondition(lambda self: len(self.world.stories) < MOST_SESSIONS)
    @rule(agent=AGENTS)
    def open(self, agent: str) -> None:
        self.sessions.append(
            [store.open(Opening(project=self.project, agent=agent), actor=ADA) for store in self.pair.stores]
        )
        self.world.open(agent)

    @precondition(lambda self: len(self.world.stories) < MOST_SESSIONS)
    @rule(which=WHICH, where=st.none() | st.integers(0, 30))
    def fork(self, which: int, where: int | None) -> None:
        story = self.story(which)
        if story.state == "erased":
            return  # test_forks.py has a test of its own for it.
        at = None if where is None else where % (story.head + 2)
        made: list[Session] = []

        def forked(store: Store, sessions: list[Session]) -> int:
            made.append(store.open(Forking(parent=sessions[story.number], at=at), actor=ADA))
            return store.head(made[-1]).head

        if self.both(lambda: self.world.fork(story, at).head, forked) is not None:
            self.sessions.append(made)

    @rule()
    def take_turns(self) -> None:
        self.pair.take_turns()

    @rule()
    def reopen(self) -> None:
        self.pair.reopen()

    # Appending --------------------------------------------------------------------------------------------------------

    @rule(which=WHICH, texts=st.lists(TEXTS, min_size=1, max_size=3))
    def talk(self, which: int, texts: list[str]) -> None:
        self._append(self.story(which), [("message_added", text, None) for text in texts], 0, 0)

    @rule(which=WHICH, batch=BATCHES, expectation=EXPECTATIONS, fence=FENCES)
    def append(self, which: int, batch: Batch, expectation: int | None, fence: int | None) -> None:
        self._append(self.story(which), batch, expectation, fence)

    @rule(which=WHICH, kinds=st.lists(st.sampled_from(list(LIFECYCLE)), min_size=1, max_size=2), fence=FENCES)
    def step(self, which: int, kinds: list[str], fence: int | None) -> None:
        self._append(self.story(which), [(kind, "", None) for kind in kinds], None, fence)

    def _append(self, story: Story, batch: Batch, expectation: int | None, fence: int | None) -> None:
        expect = None if expectation is None else story.head + expectation
        # The right fence of a session that nobody holds is none.
        lease = None if fence is None or (fence == 0 and not story.held) else story.epoch + fence

        def appended(store: Store, sessions: list[Session]) -> tuple[list[int], list[int], int]:
            drafts = [Draft(body=body_of(kind, text), source=source) for kind, text, source in batch]
            found = store.append(sessions[story.number], drafts, actor=ADA, expect=expect, lease=lease)
            return found.seqs, found.deduplicated, found.head

        self.both(lambda: self.world.append(story, batch, expect, lease), appended)

    # Leases -----------------------------------------------------------------------------------------------------------

    @rule(which=WHICH, holder=st.sampled_from(["ada", "bob"]))
    def acquire(self, which: int, holder: str) -> None:
        story = self.story(which)
        self.both(
            lambda: self.world.acquire(story, holder),
            lambda store, sessions: (
                acquire(store, sessions[story.number], holder=holder, ttl_us=HOUR_US, actor=ADA).epoch
            ),
        )

    @rule(which=WHICH, wrong=WRONG, renewed=st.booleans())
    def renew_or_release(self, which: int, wrong: int, renewed: bool) -> None:
        story = self.story(which)
        epoch = story.epoch + wrong
        if renewed:
            self.both(
                lambda: self.world.renew(story, epoch),
                lambda store, sessions: renew(store, sessions[story.number], epoch=epoch, ttl_us=HOUR_US).epoch,
            )
        else:
            self.both(
                lambda: self.world.release(story, epoch),
                lambda store, sessions: release(store, sessions[story.number], epoch=epoch, actor=ADA),
            )

    @precondition(lambda self: any(story.held for story in self.world.stories))
    @rule(which=WHICH)
    def let_a_lease_expire(self, which: int) -> None:
        held = [story for story in self.world.stories if story.held]
        story = held[which % len(held)]
        story.expired = True
        for number, store in enumerate(self.pair.stores):
            expire_lease(store, self.sessions[story.number][number])

    # Forgetting -------------------------------------------------------------------------------------------------------

    @rule(agent=AGENTS, keep_days=st.sampled_from([5, 5, None]), hold=st.sampled_from([False, False, True]))
    def set_policy(self, agent: str, keep_days: int | None, hold: bool) -> None:
        self.world.policies[agent] = model.Policy(keeps_for_ever=keep_days is None, hold=hold)
        for store in self.pair.stores:
            set_policy(store, Policy(project=self.project, agent=agent, keep_days=keep_days, hold=hold))

    @precondition(lambda self: self.world.policies)
    @rule(agent=AGENTS)
    def remove_policy(self, agent: str) -> None:
        there = self.world.policies.pop(agent, None) is not None
        self.both(lambda: there, lambda store, _: remove_policy(store, self.project, agent))

    @rule(aged=st.sets(WHICH, min_size=1))
    def prune(self, aged: set[int]) -> None:
        for story in {self.story(which) for which in aged}:
            story.old = True
            for number, store in enumerate(self.pair.stores):
                age(store, self.sessions[story.number][number], days=10)

        def pruned(store: Store, sessions: list[Session]) -> list[tuple[int, int, int]]:
            numbers = {session.id: number for number, session in enumerate(sessions)}
            found = apply_policies(store, actor=ADA)
            return [(numbers[one.session], one.events, one.kept_for_forks) for one in found]

        self.both(self.world.prune, pruned)

    # Each rewrites the whole database, so an example has few.
    @precondition(lambda self: self.erasures < MOST_ERASURES)
    @rule(which=WHICH, with_forks=st.booleans())
    def erase(self, which: int, with_forks: bool) -> None:
        story = self.story(which)

        def erased(store: Store, sessions: list[Session]) -> list[tuple[int, int]]:
            numbers = {session.id: number for number, session in enumerate(sessions)}
            found = erase(store, sessions[story.number], actor=ADA, with_forks=with_forks)
            return [(numbers[one.session], one.events) for one in found]

        if self.both(lambda: self.world.erase(story, with_forks=with_forks), erased) is not None:
            self.erasures += 1

    # The truth --------------------------------------------------------------------------------------------------------

    @invariant()
    def heads_and_histories_agree(self) -> None:
        for number, store in enumerate(self.pair.stores):
            for story in self.world.stories:
                session = self.sessions[story.number][number]
                head = store.head(session)
                assert (head.state, head.head, head.epoch, head.holder) == (
                    story.state, story.head, story.epoch, story.holder,
                )  # fmt: skip
                assert [seen(event) for event in store.read(session)] == [
                    (seq, line.kind, line.removed or line.text) for seq, (_, line) in enumerate(story.history(), 1)
                ]

    def teardown(self) -> None:
        for number, store in enumerate(self.pair.stores):
            ids = [sessions[number].id for sessions in self.sessions]
            assert [(ids.index(event.session), event.seq) for event in tail(store, self.project)] == self.world.log
            for sessions in self.sessions:
                assert verify(store, sessions[number]).problems == []
            for agent in self.world.policies:
                remove_policy(store, self.project, agent)


def tail(store: Store, project: str) -> Iterator[Event]:
    after = 0
    while page := list(store.tail(after=after, project=project, limit=7)):
        yield from page
        after = page[-1].position


def body_of(kind: str, text: str) -> Body | Opaque:
    if text == "large":
        text = big(text)
    match kind:
        case "message_added":
            return MessageAdded(role="user", text=text)
        case "fact_learned":
            return FactLearned(fact="f", text=text)
        case "my.kind":
            return Opaque(kind=kind, raw=f'{{"text":"{text}"}}')
        case _:
            return LIFECYCLE[kind]


def seen(event: Event) -> tuple[int, str, str | None]:
    """An event as the model has it."""
    match event.body:
        case Removed(how=how):
            text = how
        case MessageAdded(text=found) | FactLearned(text=found):
            text = found
        case Opaque(raw=raw):
            text = raw.removeprefix('{"text":"').removesuffix('"}')
        case SessionPaused() | SessionResumed() | SessionClosed() | SessionArchived():
            text = ""
        case _:
            return event.seq, event.kind, None
    return event.seq, event.kind, "large" if text == big("large") else text
