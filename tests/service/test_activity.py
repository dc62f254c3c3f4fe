"""Activity: what each agent, program, person or machine did, and what of it is going on."""

from collections.abc import Iterator

import msgspec
import pytest

from clew.model.access import ROLES, Grant
from clew.model.events import CallMade, CallReturned, Draft, MessageAdded, RuntimeAttached
from clew.service import Context, call
from clew.store import Store
from support.talks import MONDAY, add, on, opened


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    context.close()


def test_what_each_program_did_is_summed_up(context: Context) -> None:
    prompt = MessageAdded(role="user", text="go")
    failed = (CallMade(call="1", tool="shell"), CallReturned(call="1", failed=True))
    for project in ("shop", "docs"):
        opened(context, RuntimeAttached(runtime="codex", machine="laptop"), prompt, *failed, project=project)
    opened(context, RuntimeAttached(runtime="pi"), Draft(body=prompt, said_at=MONDAY), project="shop")
    codex, pi = call(context, "activity", {"by": "runtime"})
    assert (codex.name, codex.sessions, codex.active, codex.turns, codex.calls, codex.errors) == (
        "codex",
        2,
        2,
        2,
        2,
        2,
    )
    assert (pi.name, pi.sessions, pi.active, pi.last_at) == ("pi", 1, 0, MONDAY)
    [laptop, nowhere] = call(context, "activity", {"by": "machine", "project": "shop"})
    assert (laptop.name, laptop.sessions, nowhere.name, nowhere.sessions) == ("laptop", 1, "", 1)
    assert [row.name for row in call(context, "activity", {"by": "runtime", "when": "today"})] == ["codex"]


def test_nobody_learns_of_sessions_out_of_reach(context: Context) -> None:
    for project in ("shop", "docs"):
        add(context, opened(context, project=project), MessageAdded(role="user", text="go"))
    grant = Grant(principal="person:bo", rights=ROLES["viewer"], project="shop")
    bo = msgspec.structs.replace(on(context.store), principal="person:bo", grants=(grant,))
    assert [row.sessions for row in call(bo, "activity", {"by": "person"})] == [1]
