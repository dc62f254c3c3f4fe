"""A small log with something of everything, and checkpoints in between: what the audit tests start from."""

from collections.abc import Callable

from clew.model.checkpoint import PublicKey
from clew.model.events import Draft, OperationCalled, SessionClosed, TurnEnded, Usage
from clew.model.retention import Policy
from clew.service.audit.signing import SigningKey
from clew.store import Store, audit_tree
from clew.store.audit_tree import Signed
from clew.store.log.erase import erase
from clew.store.log.opening import Forking
from clew.store.log.retention import apply_policies, set_policy
from clew.store.projects import control_log
from store.words import ADA, big, learn, opened, say

# Not made anew, so that a test that fails once fails again.
KEY: SigningKey = SigningKey("clew/test", bytes(range(32)))
PUBLIC: PublicKey = KEY.public
DAY_US = 24 * 60 * 60 * 1_000_000


def mark(store: Store) -> Signed | None:
    """Make a checkpoint, if anything is new."""
    return audit_tree.make(store, lambda _: KEY)


def write_history(store: Store, then: Callable[[], None] = lambda: None) -> list[Signed]:
    """Fill the log, and do something after each checkpoint; returns the checkpoints."""
    made: list[Signed] = []

    def note() -> None:
        found = mark(store)
        assert found is not None
        made.append(found)
        then()

    plain, forked, doomed, aged, large = (
        opened(store, title=f"session {number}", agent="reviewer", metadata='{"n":1}') for number in range(5)
    )
    log = control_log(store, "demo", ADA)
    for session in (plain, forked, doomed, aged):
        store.append(session, [say(f"{number} in {session.title}") for number in range(3)], actor=ADA)
    note()
    store.append(log, [Draft(body=OperationCalled(operation="erase", target=doomed.id))], actor=ADA)
    child = store.open(Forking(parent=forked, at=3, title="child"), actor=ADA)
    store.append(child, [say("own"), learn("a fact")], actor=ADA)
    store.append(large, [say(big()), say("small", source="native:1")], actor=ADA)
    note()
    set_policy(store, Policy(project="other", agent="", keep_days=1, hold=False))
    old = opened(store, project="other", agent="old", title="to be pruned")
    store.append(old, [say("soon gone"), learn("stays")], actor=ADA)
    note()
    [_] = apply_policies(store, actor=ADA, now=store.head(old).at + 2 * DAY_US)
    erase(store, doomed, actor=ADA, reason="on request")
    store.append(plain, [Draft(body=TurnEnded(usage=Usage(input=3, output=4)))], actor=ADA)
    store.append(aged, [Draft(body=SessionClosed())], actor=ADA)
    note()
    store.append(child, [say("after the last checkpoint")], actor=ADA)
    return made
