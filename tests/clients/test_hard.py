"""Hard conversations with real clients: a target tells its model what the source's own resume would have told."""

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients.clew_cli import Clew
from clients.drivers import CLIENTS, Place
from clients.hard import Hard, essence
from clients.model_server import ModelServer, scripted
from clients.sources import Source
from clients.told import Told, in_request, without_dialects
from clients.wire import Answer, Call

pytestmark = pytest.mark.clients

SOURCES = ("claude-code", "codex", "opencode", "gemini-cli")


@pytest.fixture(scope="session")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Hard]:
    """The hard conversation of each client, made when it is first asked for."""
    return functools.cache(lambda runtime: Hard(CLIENTS[runtime], tmp_path_factory.mktemp(runtime) / "hard"))


@pytest.mark.parametrize("target", SOURCES)
@pytest.mark.parametrize("source", SOURCES)
def test_a_hard_conversation_goes_on_as_its_own_client_would_tell_it(
    source: str, target: str, hard: Callable[[str], Hard], tmp_path: Path
) -> None:
    made = hard(source)
    assert len(made.own) > 15
    assert made.own_images > 0
    told, images, fidelity = made.resume_in(CLIENTS[target], tmp_path)
    cut = {change["what"] for change in fidelity["adapted"] if "cut" in change["why"]}
    assert [_cut(one, cut) for one in essence(told)] == [_cut(one, cut) for one in essence(made.own)]
    assert images > 0
    assert fidelity["dropped"] == []


def _cut(said: tuple[Any, ...], cut: set[str]) -> tuple[Any, ...]:
    """What was said; of a result that the report says is cut, only its beginning."""
    kind, text, *rest = said
    return (kind, text[:2000] if kind == "result" and "results" in cut else text, *rest)


@pytest.mark.parametrize(("first", "other"), [("claude-code", "codex"), ("gemini-cli", "opencode")])
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
        said = _once(said) if client.repeats_results else said
    assert len([one for one in said if one.kind == "user"]) == 6


def _once(said: list[Told]) -> list[Told]:
    kept: list[Told] = []
    for one in said:
        if one.kind != "result" or one not in kept:
            kept.append(one)
    return kept


@pytest.mark.parametrize("target", SOURCES)
def test_a_session_goes_on_from_within_a_turn(target: str, sources: Callable[[str], Source], tmp_path: Path) -> None:
    """Between two parallel calls, and between a call and its result: every call that is told has a result."""
    source = sources("claude-code")
    if not source.session:
        source.capture()
    client = CLIENTS[target]
    calls = [event["seq"] for event in source.clew.conversation(source.session) if event["kind"] == "call_made"]
    for at in calls[1:3]:
        place = Place(tmp_path / str(at))
        shutil.copytree(source.clew.store, tmp_path / f"store-{at}")
        prompt = scripted("From within.", Answer("Here."))
        with ModelServer() as model:
            client.settle(place, model.url)
            environment = client.environment(place, model.url)
            resumed = Clew(tmp_path / f"store-{at}").resume_in(
                source.session, target, cwd=place.cwd, env=environment, at=at
            )
            for step in resumed.prepare:
                client.run(place, model.url, step, more=resumed.env).checked()
            client.run(place, model.url, client.headless(resumed.command, prompt), more=resumed.env).checked()
            told = in_request(model.told(prompt)[0], [*source.prompts, prompt])
        numbers = [one.number for one in told if one.kind == "call"]
        assert numbers == [calls.index(seq) + 1 for seq in calls if seq <= at]
        assert sorted(one.number for one in told if one.kind == "result") == numbers
        assert told[-1] == Told("user", prompt)
