"""The audit of one session: what its chain and the newest checkpoint say, and what a change of either does."""

from pathlib import Path

from clew.service import call
from clew.store import Store
from store.rows import change
from support.talks import asked, on, opened


def test_a_session_is_verified_up_to_the_newest_checkpoint(store: Store, tmp_path: Path) -> None:
    context = on(store, str(tmp_path))
    session = opened(context, asked("one"))
    before = call(context, "audit_session", {"session": session.id})
    assert (before.events, before.checkpoint, before.problems) == (2, 0, [])
    assert "no checkpoint" in before.notes[0]
    number = call(context, "audit_checkpoint", {}).number
    context.store.append(session, [asked("two")], actor="person:ada")
    found = call(context, "audit_session", {"session": session.id})
    assert (found.events, found.checkpoint, found.seq, found.problems) == (3, number, 2, [])
    late = call(context, "audit_session", {"session": opened(context).id})
    assert late.checkpoint == 0
    change(store, "UPDATE event SET digest = prev.digest FROM event prev WHERE event.seq = 2 AND prev.seq = 1")
    found = call(context, "audit_session", {"session": session.id})
    assert any(f"not the one in checkpoint {number}" in problem for problem in found.problems)
