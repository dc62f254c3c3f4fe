"""Isolation: whatever one tenant asks for, nothing of the other's comes back and nothing of it is changed."""

from collections.abc import Iterator
from typing import Any

import pytest

from clew.model import codec
from clew.model.errors import ClewError
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.service.kernel.registry import load
from clew.store import Store, open_store
from isolation.tenants import Question, Tenant, questions, tenant
from store.rows import query
from support.postgres import Server


@pytest.fixture
def walled_store(database: str, request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Store]:
    """A log on which row level security applies to us, where there is such a thing."""
    if database == "sqlite":
        url = f"sqlite:///{tmp_path / 'clew.db'}"
    else:
        server: Server = request.getfixturevalue("postgres")
        url = server.two_roles().runtime
    with open_store(url) as store:
        yield store


def test_every_operation_says_over_which_route_it_is_asked_for() -> None:
    assert {one.name for one in load().values() if not one.route} == {
        "capture", "capture_find", "capture_step", "materialise", "take_back", "runtimes", "connect", "disconnect",
        "views_step", "views_rebuild", "audit_new_key", "audit_witness_add", "audit_witness_remove", "export_files",
        "pull", "push", "object_open", "object_put", "remotes", "remote_add",
        "remote_remove", "remote_share", "remote_unshare", "drift", "workspace_snapshot", "workspace_preview",
        "workspace_restore", "workspace_checkout", "workspace_keep", "workspace_open", "workspace_tar",
        "workspace_here", "bundle_write", "bundle_open", "bundle_import",
    }  # fmt: skip


def test_nothing_of_another_tenants_is_shown_or_changed(walled_store: Store) -> None:
    ours, theirs = tenant(walled_store, "apricot"), tenant(walled_store, "walnut")
    authenticator = Authenticator(walled_store, fresh_seconds=0)
    before = _of(walled_store, theirs)
    asked = list(questions(ours, theirs))
    assert len(asked) > 200
    for question in questions(ours, ours):
        told = ask(authenticator.principal_context(ours.person), question)
        assert theirs.canary not in told, f"{question} told {told}"
    for question in asked:
        told = ask(authenticator.principal_context(ours.person), question)
        for word in theirs.words():
            assert word not in without_the_question(told, question), f"{question} told {told}"
    assert before <= _of(walled_store, theirs), "something of the other tenant's was changed"


def test_what_is_anothers_is_answered_like_what_is_not_there(walled_store: Store) -> None:
    ours, theirs = tenant(walled_store, "apricot"), tenant(walled_store, "walnut")
    nothing = theirs._replace(
        canary="nothere", sha="ab" * 20, session="zzzz9zzzz9zzzz9zzzz9",
        private="yyyy9yyyy9yyyy9yyyy9", project="nowhere", agent="nobody",
        person="person:nobody", key="NoSuchKey000", grant=987_654_321, file="none.py", word="nosuchword",
        fact="nofact", decision="nodecision", job="nosuchjob", tag="notag", machine="nobox", model="nomodel",
    )  # fmt: skip
    authenticator = Authenticator(walled_store, fresh_seconds=0)
    for real, made_up in zip(questions(ours, theirs), questions(ours, nothing), strict=True):
        if real.operation in WRITES_OWN:
            continue
        answers = [
            plain(without_the_question(ask(authenticator.principal_context(ours.person), question), question))
            for question in (real, made_up)
        ]
        assert answers[0] == answers[1], f"{real} gives itself away"


# They change what is our own, so that the second question meets another state.
WRITES_OWN = {
    "append", "archive", "close", "pause", "resume", "erase", "fork", "open", "budget", "lease_acquire", "lease_renew",
    "lease_release", "key_create", "key_rotate", "key_revoke", "link", "share", "privacy", "access_grant",
    "access_revoke", "agent_register", "agent_remove", "retention_set", "retention_remove", "setting_set", "remember",
    "decide", "jobs_retry", "jobs_run", "progress", "retire", "reverse", "note_progress", "sync_open", "note",
    "view_save", "view_remove", "artifact_save",
}  # fmt: skip


def ask(context: Context, question: Question) -> str:
    """The answer as a surface would tell it, or the refusal."""
    try:
        found = call(context, question.operation, question.arguments)
    except ClewError as error:
        return codec.to_json(error.to_dict())
    from clew.cli.output import event_object

    return codec.to_json(event_object(found))


def without_the_question(told: str, question: Question) -> str:
    """What was said beyond what the asker said first."""
    for value in question.arguments.values():
        if isinstance(value, str):
            told = told.replace(value, "?").replace(value.lower(), "?")
    return told


def plain(told: str) -> str:
    import re

    return re.sub(r"\d{5,}", "#", told)


def _of(store: Store, whose: Tenant) -> set[str]:
    """All that the other tenant has in the log and beside it."""
    keys = [store.session(id).key for id in (whose.session, whose.child, whose.private)]
    sessions = ",".join(map(str, keys))
    rows = [
        *query(store, f"SELECT * FROM session WHERE key IN ({sessions})"),
        *query(store, f"SELECT * FROM head WHERE session IN ({sessions})"),
        *query(store, f"SELECT * FROM event WHERE session IN ({sessions})"),
    ]
    for table in ("policy", "job", "granted", "credential", "agent", "setting", "principal", "member"):
        rows += [row for row in query(store, f"SELECT * FROM {table}") if whose.canary in repr(row)]
    return set(map(repr, rows))
