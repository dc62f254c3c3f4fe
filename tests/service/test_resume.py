"""`plane.resume` goes on with a session in whatever state its process left it."""

import os
import re
import subprocess
import sys

import pytest

from clew.client import OpenSession, Plane
from clew.lease_holder import has_ended, new_holder
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import BudgetExceeded, LeaseHeld, LeaseLost, WrongState
from clew.model.events import Usage
from clew.service import Context
from clew.store import Store

ME = "person:ada"


@pytest.fixture
def plane(store: Store) -> Plane:
    return Plane(Local(Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),))))


def holder_of_a_process_that_ended() -> str:
    code = "from clew.lease_holder import new_holder; print(new_holder('person:ada'))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def kinds(session: OpenSession) -> list[str]:
    return [event.kind for event in session.events()]


def test_a_session_left_active_goes_on_and_nothing_is_written(plane: Plane) -> None:
    s = plane.session("t")
    assert plane.resume(s.id).info.state == "opened"
    s.start_turn()
    s.user("why?")
    resumed = plane.resume(s.id[:8])
    assert kinds(resumed) == ["session_opened", "turn_started", "message_added"]
    resumed.end_turn()
    resumed.user("next")
    assert [turn.seq for turn in resumed.transcript()][-2:] == [3, 5]


@pytest.mark.parametrize("left", ["pause", "close"])
def test_a_paused_or_closed_session_is_resumed(plane: Plane, left: str) -> None:
    s = plane.session("t")
    s.user("x")
    getattr(s, left)()
    assert plane.resume(s.id).info.state == "active"


def test_an_archived_session_is_refused_with_a_way_out(plane: Plane) -> None:
    s = plane.session("t")
    s.close()
    s.archive()
    with pytest.raises(WrongState, match="an archived session is read-only; fork it to continue"):
        plane.resume(s.id)


def test_a_session_over_its_budget_is_refused_with_a_way_out(plane: Plane) -> None:
    s = plane.session("t", budget_tokens=10)
    with pytest.raises(BudgetExceeded):
        s.end_turn(usage=Usage(input=100))
    with pytest.raises(WrongState, match="raise the budget first"):
        plane.resume(s.id)


def test_calls_that_did_not_return_are_found_again_under_their_ids(plane: Plane) -> None:
    s = plane.session("t")
    s.user("read both")
    with s.call("read", {"path": "a"}) as first:
        first.output = "A"
    second = s.call("read", {"path": "b"})
    [again] = plane.resume(s.id).unanswered
    assert (again.id, again.tool, again.input) == (second.id, "read", {"path": "b"})
    with again:
        again.output = "B"
    assert s.unanswered == []
    s.call("late")
    s.user("never mind")
    assert s.unanswered == []


def test_whoever_ends_the_program_leaves_the_call_unanswered(plane: Plane) -> None:
    s = plane.session("t")

    def interrupted() -> None:
        with s.call("shell", {"command": "sleep 60"}):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [call.tool for call in s.unanswered] == ["shell"]


@pytest.mark.parametrize("left", ["active", "paused"])
def test_the_lease_of_a_process_that_ended_is_given_back(plane: Plane, left: str) -> None:
    s = plane.session("t")
    s.user("x")
    dead = plane.get(s.id)
    dead.acquire(seconds=3600, holder=holder_of_a_process_that_ended())
    if left == "paused":
        dead.pause()
    with pytest.raises(LeaseHeld):
        s.user("refused")
    resumed = plane.resume(s.id)
    resumed.user("accepted")
    assert resumed.info.holder is None
    resumed.acquire(seconds=60)
    with pytest.raises(LeaseLost):
        dead.user("from the dead")


def test_a_session_that_a_living_process_writes_is_refused(plane: Plane) -> None:
    s = plane.session("t")
    s.user("x")
    s.acquire(seconds=3600)
    with pytest.raises(LeaseHeld, match=f"is being written by person:ada#{os.getpid()}"):
        plane.resume(s.id)
    s.user("holder")


def test_only_the_end_of_a_process_of_this_kernel_is_known() -> None:
    alive = new_holder(ME)
    assert re.fullmatch(rf"person:ada#{os.getpid()}\.\d+\.[0-9a-z]{{8}}@[0-9a-f]{{12}}", alive)
    assert not has_ended(alive)
    # A later process with the same number started at another time.
    assert has_ended(re.sub(r"\.\d+\.", ".1.", alive))
    ended = holder_of_a_process_that_ended()
    assert has_ended(ended)
    elsewhere = ended[:-12] + "0123456789ab"
    for holder in (elsewhere, "person:ada", "worker:4711", ""):
        assert not has_ended(holder)
    child = subprocess.Popen([sys.executable, "-c", "import clew.lease_holder as h; print(h.new_holder('x'))"],
                             stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert child.stdout is not None
    zombie = child.stdout.read().strip()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(zombie)
    child.wait()
    child.stdout.close()
