"""Hard conversations with real clients: a target tells its model what the source's own resume would have told.

`HARD=all` runs the whole grid: every source, in each target, in each kind of conversation.
"""

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients.clew_cli import Clew
from clients.conversation import Conversation, essence, once
from clients.drivers import CLIENTS, Place
from clients.further import Aided, Compacted, Large
from clients.hard import Hard
from clients.model_server import ModelServer, scripted
from clients.sources import Source
from clients.told import Told, in_request, without_dialects
from clients.wire import Answer, Call

pytestmark = pytest.mark.clients

TARGETS = ("claude-code", "codex", "opencode", "gemini-cli")
KINDS: dict[str, type[Conversation]] = {kind.kind: kind for kind in (Hard, Aided, Compacted, Large)}
IS_WHOLE = os.environ.get("HARD") == "all"
# Made in no run yet: only the whole grid tries it (docs/runtimes/hard.md).
UNPROVEN = {("qwen-code", "compacted")}


def cells() -> list[tuple[str, str, str]]:
    """The source, the kind and the target of each cell; by default one target for each conversation.

    They take turns, so that each target gets some of each kind. The first four clients have their first conversation in
    each of the four.
    """
    grid = []
    for row, source in enumerate(CLIENTS):
        for column, kind in enumerate(KINDS):
            if (source, kind) in UNPROVEN and not IS_WHOLE:
                continue
            is_first = kind == Hard.kind and source in TARGETS
            chosen = TARGETS if IS_WHOLE or is_first else (TARGETS[(row + column) % len(TARGETS)],)
            grid += [(source, kind, target) for target in chosen]
    return grid


@pytest.fixture(scope="session")
def had(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Conversation]:
    """A conversation of a kind with a client, had when it is first asked for."""
    return functools.cache(
        lambda source, kind: KINDS[kind](CLIENTS[source], tmp_path_factory.mktemp(f"{source}-{kind}") / "had")
    )


@pytest.mark.parametrize(("source", "kind", "target"), cells())
def test_a_hard_conversation_goes_on_as_its_own_client_would_tell_it(
    source: str,
    kind: str,
    target: str,
    had: Callable[[str, str], Conversation],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    for name, value in (("source", source), ("kind", kind), ("into", target)):
        record_property(name, value)
    made = had(source, kind)
    resumed = made.resume_in(CLIENTS[target], tmp_path)
    cut = {change["what"] for change in resumed.fidelity["adapted"] if "cut" in change["why"]}
    assert [_cut(one, cut) for one in essence(resumed.told)] == [_cut(one, cut) for one in essence(made.own.told)]
    assert resumed.pictures > 0 or made.own.pictures == 0
    assert {change["what"] for change in resumed.fidelity["dropped"]} <= made.may_drop
    if source == target:
        names = [[one.name for one in told if one.kind == "call"] for told in (made.own.told, resumed.told)]
        assert names[0] == names[1]


@pytest.mark.parametrize(("source", "kind"), list(dict.fromkeys((source, kind) for source, kind, _ in cells())))
def test_the_reader_knows_what_is_in_a_hard_conversation(
    source: str, kind: str, had: Callable[[str, str], Conversation]
) -> None:
    assert had(source, kind).clew.drift() == []


def _cut(said: tuple[Any, ...], cut: set[str]) -> tuple[Any, ...]:
    """What was said; of a result that the report says is cut, only its beginning."""
    kind, text, *rest = said
    return (kind, text[:2000] if kind == "result" and "results" in cut else text, *rest)


# There and back, by way of another client: each client is the first once.
PAIRS = [
    ("claude-code", "codex"),
    ("gemini-cli", "opencode"),
    ("copilot-cli", "claude-code"),
    ("pi", "codex"),
    ("qwen-code", "gemini-cli"),
]


@pytest.mark.parametrize(("first", "other"), PAIRS)
def test_a_session_goes_there_and_back_twice(
    first: str, other: str, sources: Callable[[str], Source], tmp_path: Path
) -> None:
    source = sources(first)
    if not source.session:
        source.capture()
    shutil.copytree(source.clew.store, tmp_path / "store")
    clew, session = Clew(tmp_path / "store"), source.session
    said, prompts = list(source.told), list(source.prompts)
    for hop, name in enumerate((other, first, other, first)):
        client, place = CLIENTS[name], Place(tmp_path / str(hop))
        call = Call(*client.call(f"printf 'hop {hop}'"))
        prompt = scripted(f"Hop {hop}.", Answer("", (call,)), Answer(f"Hop {hop} done."))
        prompts.append(prompt)
        with ModelServer() as model:
            client.settle(place, model.url)
            resumed = clew.resume_in(session, name, cwd=place.cwd, env=client.environment(place, model.url))
            for step in resumed.prepare:
                client.run(place, model.url, step, more=resumed.env).checked()
            client.run(place, model.url, client.headless(resumed.command, prompt), more=resumed.env).checked()
            begun, ended = (in_request(model.told(prompt)[at], prompts) for at in (0, -1))
        assert without_dialects(begun) == [*without_dialects(said), Told("user", prompt)]
        # What was captured there goes on in the next.
        session = max(clew.capture(place.home), key=lambda report: report.records).session
        said = [*ended, Told("assistant", f"Hop {hop} done.")]
        said = once(said) if client.repeats_results else said
    assert len([one for one in said if one.kind == "user"]) == 6


# Claude Code's session goes on in each of the four, the others' in one of them; in all of them with HARD=all.
WITHIN = [
    (source, target)
    for row, source in enumerate(CLIENTS)
    for target in (TARGETS if IS_WHOLE or source == "claude-code" else TARGETS[row % 4 : row % 4 + 1])
    if IS_WHOLE or source not in TARGETS[1:]
]


@pytest.mark.parametrize(("source", "target"), WITHIN)
def test_a_session_goes_on_from_within_a_turn(
    source: str, target: str, sources: Callable[[str], Source], tmp_path: Path
) -> None:
    """Between two parallel calls, and between a call and its result: every call that is told has a result."""
    made = sources(source)
    if not made.session:
        made.capture()
    client = CLIENTS[target]
    calls = [event["seq"] for event in made.clew.conversation(made.session) if event["kind"] == "call_made"]
    for at in calls[1:3]:
        place = Place(tmp_path / str(at))
        shutil.copytree(made.clew.store, tmp_path / f"store-{at}")
        prompt = scripted("From within.", Answer("Here."))
        with ModelServer() as model:
            client.settle(place, model.url)
            environment = client.environment(place, model.url)
            resumed = Clew(tmp_path / f"store-{at}").resume_in(
                made.session, target, cwd=place.cwd, env=environment, at=at
            )
            for step in resumed.prepare:
                client.run(place, model.url, step, more=resumed.env).checked()
            client.run(place, model.url, client.headless(resumed.command, prompt), more=resumed.env).checked()
            told = in_request(model.told(prompt)[0], [*made.prompts, prompt])
        numbers = [one.number for one in told if one.kind == "call"]
        assert numbers == [calls.index(seq) + 1 for seq in calls if seq <= at]
        assert sorted(one.number for one in told if one.kind == "result") == numbers
        assert told[-1] == Told("user", prompt)
