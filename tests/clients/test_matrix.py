"""Real clients: what they leave is captured whole, comes back byte for byte, and goes on in any other of them."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.clew_cli import Clew
from clients.drivers import CLIENTS, Client, Place
from clients.model_server import ModelServer
from clients.sources import DONE_THREE, Source, renumbered, third_prompt, turn
from clients.told import Told, in_events, in_request, results_beside_calls, without_dialects

pytestmark = pytest.mark.clients


def test_the_clients_own_resume_tells_the_model_everything(made: Source) -> None:
    before = made.told[: made.told.index(Told("user", made.prompts[1])) + 1]
    # Gemini CLI says each result twice. Should a newer one stop doing so, this is where it shows.
    twice = [one for one in before for _ in range(1 + (made.client.repeats_results and one.kind == "result"))]
    assert made.resumed_with == twice


def test_a_capture_finds_one_session_and_accounts_for_every_record(source: Source) -> None:
    assert [report.error for report in source.captured if report.error] == []
    assert {report.quarantined for report in source.captured} == {0}
    for report in source.captured:
        assert report.records == report.events + report.opaque + report.quarantined > 0
    assert {report.session for report in source.captured} == {source.session}


def test_the_reader_knows_every_kind_and_field_that_the_client_writes(source: Source) -> None:
    """With CLIENTS=latest this says what is new."""
    assert source.clew.drift() == []


def test_a_captured_conversation_is_what_the_model_was_told(source: Source) -> None:
    told = in_events(source.clew.conversation(source.session), source.prompts)
    assert results_beside_calls(told) == results_beside_calls(source.told)


def test_a_second_capture_finds_nothing_new(source: Source) -> None:
    again = source.clew.capture(source.place.home)
    assert {report.status for report in again} == {"same"}
    assert [report.records for report in again] == [report.records for report in source.captured]


def test_an_export_is_the_clients_own_files(source: Source, tmp_path: Path) -> None:
    assert _contents(source.clew.export(source.session, tmp_path / "out")) == _contents(source.originals)


@pytest.mark.usefixtures("gone")
def test_an_export_needs_nothing_of_the_client(source: Source, tmp_path: Path) -> None:
    assert _contents(source.clew.export(source.session, tmp_path / "out")) == _contents(source.originals)


def test_at_home_the_clients_own_session_goes_on(source: Source) -> None:
    client, place = source.client, source.place
    environment = client.environment(place, url="")
    resumed = source.clew.resume_in(source.session, client.runtime, cwd=place.cwd, env=environment)
    assert (resumed.session, resumed.native) == (source.session, source.native)


@pytest.mark.parametrize("target", CLIENTS)
def test_a_session_goes_on_in(
    target: str, source: Source, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("source", source.client.runtime)
    record_property("target", target)
    client, place = CLIENTS[target], Place(tmp_path)
    prompt = third_prompt(client)
    # A copy: what another target did to the session must not be seen by this one.
    shutil.copytree(source.clew.store, tmp_path / "store")
    clew = Clew(tmp_path / "store")
    head = clew.session(source.session)["session"]["head"]

    with ModelServer(tmp_path / "requests.jsonl") as model:
        began = time.monotonic()
        client.settle(place, model.url)
        environment = client.environment(place, model.url)
        resumed = clew.resume_in(source.session, target, cwd=place.cwd, env=environment)
        assert resumed.cwd == str(place.cwd)
        for step in resumed.prepare:
            client.run(place, model.url, step, more=resumed.env).checked()
        client.run(place, model.url, client.headless(resumed.command, prompt), more=resumed.env).checked()
        record_property("seconds", time.monotonic() - began)
        requests = model.told(prompt)

    told = in_request(requests[0], [*source.prompts, prompt])
    assert without_dialects(told) == [*without_dialects(source.told), Told("user", prompt)]
    assert_calls_are_native(told, source, client)

    assert {report.session for report in clew.capture(place.home)} == {resumed.session}
    assert clew.session(resumed.session)["session"]["parent"] == source.session
    added = renumbered(turn(requests[-1], prompt, DONE_THREE), after=source.told)
    told = in_events(clew.conversation(resumed.session), [*source.prompts, prompt])
    assert _said(told) == _said([*source.told, *added])
    assert clew.session(source.session)["session"]["head"] == head


def assert_calls_are_native(told: list[Told], source: Source, client: Client) -> None:
    """Each call has the target's own names, and no argument that nobody gave."""
    calls = [one for one in told if one.kind == "call"]
    assert {call.name for call in calls} == {client.shell}
    if client is source.client:
        assert calls == [one for one in source.told if one.kind == "call"]
    allowed = {client.command, *client.also, *source.client.also}
    assert {name for call in calls for name in call.arguments} <= allowed


def _said(told: list[Told]) -> list[Told]:
    return results_beside_calls(without_dialects(told))


def _contents(files: dict[str, bytes]) -> list[bytes]:
    """What is in files, whatever they are called: a folder for many sessions may name them better than a client."""
    return sorted(files.values())
