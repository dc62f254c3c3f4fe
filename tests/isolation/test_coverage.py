"""What the tests of isolation cover: every table, every kind of event, and how much work an answer takes."""

import pytest

from clew.model.events import KINDS
from clew.service.access.authenticator import Authenticator
from clew.service.kernel import refusals
from clew.store import Store
from clew.store.database import sqlite
from clew.store.database.statements import tables
from isolation.tenants import questions, tenant
from isolation.test_operations import ask
from service.test_effects import HAPPENED, RULES

ROW_SECURITY = "row-level security"
# Every table, and what keeps one tenant from the rows of another in it. A new table has to say it here. Row-level
# security is PostgreSQL's: test_row_security.py finds by the catalogue that each of these tables has it.
TABLES = {
    "project": f"names of projects are shown to who reaches a session of it, {ROW_SECURITY}",
    "session": f"reach in the statement, {ROW_SECURITY}",
    "head": f"read by the key of a session that was resolved in reach, {ROW_SECURITY}",
    "event": f"read by the key of a session that was resolved in reach, {ROW_SECURITY}",
    "clock": "clew's own: the last position",
    "blob": f"read only where a session in reach names it, {ROW_SECURITY}",
    "cursor": f"clew's own: how far readers have come, {ROW_SECURITY}",
    "policy": f"ruled on by project when listed, {ROW_SECURITY}",
    "original": f"read by the key of a session that was resolved in reach, {ROW_SECURITY}",
    "segment": f"read by the key of an original of a session in reach, {ROW_SECURITY}",
    "principal": f"listed by who administers everything, {ROW_SECURITY}",
    "member": f"listed by who administers everything, {ROW_SECURITY}",
    "granted": f"listed by who administers the target, {ROW_SECURITY}",
    "credential": f"listed by its holder and by owners, {ROW_SECURITY}",
    "agent": f"named by project, ruled on when listed, {ROW_SECURITY}",
    "setting": f"ruled on by project when listed, {ROW_SECURITY}",
    "saved_view": f"read and changed by the principal whose it is, {ROW_SECURITY}",
    "answered": f"read by the principal who asked, {ROW_SECURITY}",
    "leaf": f"shown as hashes and proofs to auditors of everything, {ROW_SECURITY}",
    "checkpoint": f"shown to auditors of everything, {ROW_SECURITY}",
    "job": f"shown to who administers, {ROW_SECURITY}",
    "manifest": f"read only where a session in reach names it, {ROW_SECURITY}",
    "pack": f"read only where a session in reach names it, {ROW_SECURITY}",
    "part": f"read only where a session in reach names it, {ROW_SECURITY}",
    "place": f"shown with a project that the caller may see, {ROW_SECURITY}",
}
DERIVED = {
    "listing": f"reach in the statement, {ROW_SECURITY}",
    "touched": f"reach in the statement, {ROW_SECURITY}",
    "touched_path": f"read only for who may read every session, {ROW_SECURITY}",
    "spending": f"by sessions in reach, {ROW_SECURITY}",
    "quarter": f"by sessions in reach, reach in the statement, {ROW_SECURITY}",
    "artifact": f"reach in the statement, {ROW_SECURITY}",
    "point": f"reach in the statement, {ROW_SECURITY}",
    "passage": f"reach in the statement, {ROW_SECURITY}",
    "words": "by passages in reach; on PostgreSQL a column of them",
    "known": f"reach in the statement, {ROW_SECURITY}",
    "turn": f"by a session in reach, {ROW_SECURITY}",
    "called": f"by a session in reach, {ROW_SECURITY}",
    "branch": f"by a session in reach, {ROW_SECURITY}",
    "revised": f"by a session in reach, {ROW_SECURITY}",
    "committed": f"reach in the statement, {ROW_SECURITY}",
    "landmark": f"by a session in reach, {ROW_SECURITY}",
    "label": f"by sessions in reach, reach in the statement; of the stars, only the caller's, {ROW_SECURITY}",
    "speaking": f"read by nobody who asks, {ROW_SECURITY}",
    "view": "clew's own: positions of views",
}


def test_every_table_is_covered() -> None:
    for dialect in ("lite", "pg"):
        assert set(tables("clew.store.database", dialect)) <= set(TABLES), "say in TABLES what protects a new table"
        assert set(tables("clew.views", dialect)) <= set(DERIVED), "say in DERIVED what protects a new table"


def test_every_kind_of_event_is_covered() -> None:
    assert set(KINDS) == set(RULES) | HAPPENED


@pytest.mark.parametrize("database", ["sqlite"])
def test_what_is_anothers_takes_the_same_statements_as_what_is_not_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer takes more work because another tenant has what was asked for: counted in statements, not seconds."""
    ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
    nothing = theirs._replace(
        canary="nothere", sha="ab" * 20, session="zzzz9zzzz9zzzz9zzzz9",
        private="yyyy9yyyy9yyyy9yyyy9", project="nowhere", agent="nobody",
        person="person:nobody", key="NoSuchKey000", grant=987_654_321, file="none.py", word="nosuchword",
        fact="nofact", tag="notag", decision="nodecision", machine="nobox", model="nomodel",
    )  # fmt: skip
    authenticator = Authenticator(store, fresh_seconds=0)
    # The first refusals of a minute have entries of their own; no new minute begins here.
    monkeypatch.setattr(refusals, "MINUTE_US", 10**18)
    counted: list[str] = []
    run = sqlite._Transaction.run

    def counting(self: sqlite._Transaction, name: str, /, **parameters: object) -> object:
        counted.append(name)
        return run(self, name, **parameters)

    monkeypatch.setattr(sqlite._Transaction, "run", counting)
    differing, asked = [], 0
    for real, made_up in zip(questions(ours, theirs), questions(ours, nothing), strict=True):
        if real.operation == "sync_open":
            continue  # It makes the session that is not there.
        work = []
        for question in (real, made_up):
            for _ in range(12):  # So many refusals that further ones take no entry of their own.
                context = authenticator.principal_context(ours.person)
                counted.clear()
                ask(context, question)
            work.append(sorted(counted))
            asked += bool(counted)
        if work[0] != work[1]:
            differing.append((real, set(work[0]) ^ set(work[1]), len(work[0]), len(work[1])))
    assert not differing, "\n".join(map(str, differing))
    assert asked > 100
