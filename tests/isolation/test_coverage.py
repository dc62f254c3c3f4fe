"""What the tests of isolation cover: every table, every kind of event, and how much work an answer takes."""

import pytest

from clew.model.events import KINDS
from clew.service.access.authenticator import Authenticator
from clew.store import Store
from clew.store.database import sqlite
from clew.store.database.statements import tables
from isolation.tenants import questions, tenant
from isolation.test_operations import ask
from service.test_effects import HAPPENED, RULES

# Every table, and what keeps one tenant from the rows of another in it. A new table has to say it here.
TABLES = {
    "project": "names of projects are shown to who reaches a session of it",
    "session": "reach in the statement, row-level security",
    "head": "read by the key of a session that was resolved in reach, row-level security",
    "event": "read by the key of a session that was resolved in reach, row-level security",
    "blob": "read only where a session in reach names it",
    "cursor": "clew's own: how far readers have come",
    "policy": "ruled on by project when listed",
    "original": "read by the key of a session that was resolved in reach, row-level security",
    "segment": "read by the key of an original of a session in reach",
    "principal": "listed by who administers everything",
    "member": "listed by who administers everything",
    "granted": "listed by who administers the target",
    "credential": "listed by its holder and by owners",
    "agent": "named by project, ruled on when listed",
    "setting": "ruled on by project when listed",
    "answered": "read by the principal who asked",
    "leaf": "shown as hashes and proofs to auditors of everything",
    "checkpoint": "shown to auditors of everything",
    "job": "shown to who administers",
    "manifest": "read only where a session in reach names it",
    "pack": "read only where a session in reach names it",
}
DERIVED = {
    "listing": "reach in the statement", "touched": "reach in the statement", "spending": "by sessions in reach",
    "artifact": "reach in the statement", "passage": "reach in the statement", "words": "by passages in reach",
    "known": "reach in the statement", "turn": "by a session in reach", "called": "by a session in reach",
    "branch": "by a session in reach", "revised": "by a session in reach",
    "speaking": "read by nobody who asks", "view": "clew's own: positions of views",
}  # fmt: skip


def test_every_table_is_covered() -> None:
    assert set(tables("clew.store.database", "lite")) <= set(TABLES), "say in TABLES what protects a new table"
    assert set(tables("clew.views", "lite")) <= set(DERIVED), "say in DERIVED what protects a new table"


def test_every_kind_of_event_is_covered() -> None:
    assert set(KINDS) == set(RULES) | HAPPENED


@pytest.mark.parametrize("database", ["sqlite"])
def test_what_is_anothers_takes_the_same_statements_as_what_is_not_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer takes more work because another tenant has what was asked for: counted in statements, not seconds."""
    ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
    nothing = theirs._replace(
        session="zzzz9zzzz9zzzz9zzzz9", private="yyyy9yyyy9yyyy9yyyy9", project="nowhere", agent="nobody",
        person="person:nobody", key="NoSuchKey000", grant=987_654_321, file="none.py", word="nosuchword",
        fact="nofact", decision="nodecision", machine="nobox", model="nomodel",
    )  # fmt: skip
    authenticator = Authenticator(store, fresh_seconds=0)
    counted: list[str] = []
    run = sqlite._Transaction.run

    def counting(self: sqlite._Transaction, name: str, /, **parameters: object) -> object:
        counted.append(name)
        return run(self, name, **parameters)

    monkeypatch.setattr(sqlite._Transaction, "run", counting)
    differing, asked = [], 0
    for real, made_up in zip(questions(ours, theirs), questions(ours, nothing), strict=True):
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
    assert not differing
    assert asked > 100
