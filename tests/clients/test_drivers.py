"""What the tests with real clients stand on, tested without one: an end of a run is the end of all that it started."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.clew_cli import conversation_of
from clients.drivers import CLIENTS, Ran, run
from clients.told import Told, in_events, results_beside_calls, without_dialects

CALLS = [Told("call", name="bash", arguments={"command": "ls"}, number=n) for n in (1, 2)]
RESULTS = [Told("result", str(n), number=n) for n in (1, 2)]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[int]:
    """The reading end of a pipe that a program holds for as long as it, or a child of it, lives."""
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    yield reader
    os.close(reader)


def _is_let_go(reader: int) -> bool:
    events = select.poll()
    events.register(reader)
    return bool(events.poll(10_000)) and os.read(reader, 1) == b""


def _run(folder: Path, script: str, *, timeout_s: float) -> Ran:
    environment = {"PATH": os.environ["PATH"]}
    return run(["sh", "-c", script], cwd=folder, env=environment, logs=folder, timeout_s=timeout_s)


def test_a_program_that_hangs_is_ended_with_its_children(held: int, tmp_path: Path) -> None:
    ran = _run(tmp_path, "exec 3>held; sleep 1000 & sleep 1000", timeout_s=0.2)
    assert ran.code == -signal.SIGKILL
    assert _is_let_go(held)


def test_a_child_does_not_outlive_its_program(held: int, tmp_path: Path) -> None:
    ran = _run(tmp_path, "exec 3>held; sleep 1000 & echo 'banner\n{\"id\": 1}'; echo oops >&2", timeout_s=60)
    assert (ran.code, ran.objects, ran.err) == (0, [{"id": 1}], "oops\n")
    assert _is_let_go(held)


def test_a_result_goes_beside_its_call_and_nothing_is_hidden() -> None:
    assert results_beside_calls([*CALLS, *RESULTS]) == [CALLS[0], RESULTS[0], CALLS[1], RESULTS[1]]
    for wrong in ([*CALLS, RESULTS[0]], [*CALLS, *RESULTS, RESULTS[1]], [RESULTS[0], *CALLS, RESULTS[1]]):
        assert results_beside_calls(wrong) != results_beside_calls([*CALLS, *RESULTS])


def test_only_the_dialect_of_a_call_is_taken_out() -> None:
    for client in CLIENTS.values():
        name, arguments = client.call("ls")
        assert without_dialects([Told("call", name=name, arguments=arguments)]) == [
            Told("call", name="shell", arguments={"command": "ls"})
        ]
    assert without_dialects([Told("call", name="Read", arguments={"command": "ls"})])[0].name == "Read"


def test_a_conversation_follows_rewinds_and_revisions() -> None:
    def said(source: str, text: str) -> dict[str, str]:
        return {"kind": "message_added", "role": "user", "source": source, "text": text}

    events = [
        said("a", "one"),
        said("b", "two"),
        {"kind": "rewound", "to": "a"},
        said("c", "three"),
        said("a~2", "one, corrected"),
        {"kind": "opaque", "source": "d"},
        {**said("e", "beside"), "side": "agent"},
    ]
    assert [one.text for one in in_events(conversation_of(events), [])] == ["one, corrected", "three"]
