"""The audit log from data: every project read, every refusal, every argument, every grant and key."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.model.access import ROLES, Grant, Right, owner_of_everything
from clew.model.errors import ClewError, Denied, NotFound
from clew.model.events import OperationCalled
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.service.audit.reconcile import NO_BASELINE
from clew.service.kernel import refusals
from clew.service.kernel.call import CONTENT
from clew.service.kernel.registry import load
from clew.store import Store
from clew.store.access.grants import add_grant
from clew.store.projects import control_log
from isolation.tenants import tenant
from store.rows import change
from support.fake_secrets import KINDS

OWNER, ADA, BOB = "person:owner", "person:ada", "person:bob"


@pytest.fixture
def owner(store: Store, tmp_path: Path) -> Context:
    return Context(
        store=store, unrestricted=store, principal=OWNER, grants=(owner_of_everything(OWNER),), home=str(tmp_path)
    )


@pytest.fixture
def acting(owner: Context) -> Callable[..., Context]:
    def made(principal: str, *rights: Right, **where: Any) -> Context:
        grants = (Grant(principal=principal, rights=frozenset(rights), **where),) if rights else ()
        return Context(
            store=owner.store, unrestricted=owner.store, principal=principal, grants=grants,
            answers_leave_machine=True, _views=[owner.views],
        )  # fmt: skip

    return made


def entries(store: Store, project: str = "*") -> list[OperationCalled]:
    log = control_log(store, project, OWNER)
    return [event.body for event in store.read(log) if isinstance(event.body, OperationCalled)]


# Reads ----------------------------------------------------------------------------------------------------------------

# How each operation that shows content is asked without naming a project, and with which sessions.
READING: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "export": lambda left, _: {"session": left, "form": "jsonl"},
    "brief": lambda left, _: {"session": left},
    "show": lambda left, _: {"session": left},
    "transcript": lambda left, _: {"session": left},
    "family": lambda left, _: {"session": left},
    "continuation": lambda left, _: {"session": left},
    "overview": lambda left, _: {"session": left},
    "landmarks": lambda left, _: {"session": left},
    "diff": lambda left, right: {"left": left, "right": right},
    "events": lambda left, _: {"session": left},
    "tail": lambda *_: {},
    "sync_send": lambda left, _: {"session": left},
    "originals": lambda left, _: {"session": left},
    "recall": lambda *_: {"query": "apricotword"},
    "scan": lambda *_: {},
    "artifacts": lambda *_: {},
    "artifact_list": lambda *_: {},
    "artifact_versions": lambda left, _: {"session": left, "name": "report.txt"},
    "artifact_get": lambda left, _: {"session": left, "name": "report.txt"},
    "search": lambda *_: {"query": "apricotword"},
    "search_facets": lambda *_: {"query": "apricotword"},
    "files": lambda *_: {"path": "src/apricot.py"},
    "scratch": lambda left, _: {"session": left},
    "head": lambda left, _: {"session": left},
    "notes": lambda left, _: {"session": left},
    "object_list": lambda left, _: {"session": left},
    "object_stat": lambda left, _: {"session": left, "object": "report.txt"},
    "workspace_tree": lambda left, _: {"session": left},
    "workspace_open": lambda left, _: {"session": left, "path": "report.txt"},
    "workspace_tar": lambda left, _: {"session": left},
    "commit": lambda left, _: {"session": left},
    "workspace_log": lambda left, _: {"session": left},
    "workspace_diff": lambda left, right: {"left": left, "right": right},
    "workspace_cat": lambda left, _: {"session": left, "path": "report.txt"},
    "blame": lambda left, _: {"session": left, "path": "report.txt"},
    "object_open": lambda left, _: {"session": left, "object": "report.txt"},
}
# `blob` and `sync_read` show a part of what `events` named; the others work on this machine's own files, or record each
# call anyway.
RECORDED_OTHERWISE = {
    "blob",
    "bundle_open",
    "bundle_write",
    "export_files",
    "push",
    "sync_read",
    "workspace_checkout",
    "workspace_preview",
}


def test_every_operation_that_shows_content_is_tried_here() -> None:
    showing = {operation.name for operation in load().values() if operation.right in CONTENT}
    assert showing - RECORDED_OTHERWISE == set(READING), "say in this test how the operation is asked"


@pytest.mark.parametrize("operation", sorted(READING))
def test_a_read_is_recorded_in_every_project_that_it_showed(owner: Context, operation: str) -> None:
    ours, _ = tenant(owner.store, "apricot"), tenant(owner.store, "walnut")
    other = call(owner, "open", {"project": "orchard"}).id
    token = KINDS["GITHUB_TOKEN"](random.Random(1))  # What a scan shows.
    said = {"kind": "message_added", "role": "user", "text": f"apricotword {token}"}
    call(owner, "append", {"session": ours.session, "drafts": [said]})
    call(owner, "object_put", {"session": ours.session, "source": [b"report"], "name": "report.txt"})
    touched = {"kind": "call_made", "call": "1", "tool": "Edit", "input": {"file_path": "src/apricot.py"}}
    fact = {"kind": "fact_learned", "fact": "f", "text": "apricotword"}
    call(owner, "append", {"session": other, "drafts": [said, touched, fact]})
    for project in ("orchard", "walnut-project"):
        call(owner, "setting_set", {"project": project, "name": "audit_reads", "value": "on"})
    owner = owner.__class__(
        store=owner.store, unrestricted=owner.store, principal=OWNER, grants=owner.grants, home=owner.home
    )
    for session in (ours.session, other):
        call(owner, "workspace_snapshot", {"session": session, "folder": str(with_report(Path(owner.home)))})
    before = {project: len(entries(owner.store, project)) for project in ("apricot-project", "orchard", "*")}
    found = call(owner, operation, READING[operation](ours.session, other))
    shown = {project for project in ("apricot-project", "orchard") if project in named(owner, operation, found, ours)}
    for project in shown:
        [entry] = entries(owner.store, project)[before[project] :]
        assert (entry.operation, entry.because) == (operation, "read"), project
    assert len(entries(owner.store)) == before["*"], "it is recorded where it was read, and nowhere else"


def with_report(home: Path) -> Path:
    """A folder with a file in it."""
    folder = home.parent / f"{home.name}-work"
    folder.mkdir(exist_ok=True)
    (folder / "report.txt").write_text("report")
    return folder


def named(context: Context, operation: str, found: Any, ours: Any) -> set[str]:
    """The projects that the question is about, or that the answer shows."""
    asked = READING[operation]("left", "right")
    if "left" in asked:
        return {"apricot-project", "orchard"}
    if "session" in asked:
        return {"apricot-project"}
    if operation in ("files", "artifacts", "artifact_list"):
        return {row.project for row in found}
    return {"apricot-project", "orchard"}


# Refusals -------------------------------------------------------------------------------------------------------------


def test_a_flood_of_refusals_is_counted_in_few_entries(owner: Context, acting: Callable[..., Context]) -> None:
    nobody = acting(BOB)
    for _ in range(320):
        with pytest.raises(Denied):
            call(nobody, "key_list", {"principal": OWNER})
    found = [entry for entry in entries(owner.store) if entry.operation == "key_list"]
    assert len(found) < 20
    assert sum(entry.count for entry in found) == 320


def test_what_a_minute_left_over_is_recorded_later() -> None:
    counted = refusals.Refusals()
    recorded = sum(counted.add("bob", "show", 0) for _ in range(1000))
    left = list(counted.left_over(refusals.MINUTE_US))
    assert recorded + sum(late.times for late in left) == 1000
    assert list(counted.left_over(refusals.MINUTE_US)) == []


def test_nobody_writes_refusals_into_the_log_of_another_project(owner: Context, acting: Callable[..., Context]) -> None:
    theirs = call(owner, "open", {"project": "bank"}).id
    call(owner, "setting_set", {"project": "bank", "name": "audit_reads", "value": "on"})
    before = len(entries(owner.store, "bank"))
    bob = acting(BOB, *ROLES["writer"], project="shop")
    for name, arguments in (
        ("show", {"session": theirs}), ("retention_set", {"project": "bank"}), ("open", {"project": "bank"}),
        ("erase", {"session": theirs}), ("access_revoke", {"grant": 1}), ("key_revoke", {"key": "NoSuchKey000"}),
    ):  # fmt: skip
        refused = len(entries(owner.store))
        with pytest.raises(ClewError):
            call(bob, name, arguments)
        assert len(entries(owner.store)) == refused + 1, f"{name} was refused and left no entry"
        assert not entries(owner.store)[-1].allowed
    assert len(entries(owner.store, "bank")) == before


def test_a_session_out_of_reach_leaves_the_same_entry_as_none(owner: Context, acting: Callable[..., Context]) -> None:
    theirs = call(owner, "open", {"project": "bank"}).id
    bob = acting(BOB, Right.SEE, project="shop")
    for id in (theirs, "zzzz9zzzz9zzzz9zzzz9"):
        with pytest.raises(NotFound):
            call(bob, "show", {"session": id})
    first, second = entries(owner.store)[-2:]
    assert (first.because, first.target) == (second.because, second.target)
    assert json.loads(bytes(first.arguments)) == {"session": theirs}


# Arguments ------------------------------------------------------------------------------------------------------------


def test_arguments_are_complete_or_hashed(owner: Context) -> None:
    call(owner, "agent_register", {"name": "rev", "instructions": "x" * 5000, "tools": ["Read", "Edit"]})
    [entry] = [entry for entry in entries(owner.store) if entry.operation == "agent_register"]
    arguments = json.loads(bytes(entry.arguments))
    assert arguments["tools"] == ["Read", "Edit"]
    assert (arguments["instructions"]["bytes"], len(arguments["instructions"]["sha256"])) == (5002, 64)
    call(owner, "setting_set", {"name": "audit_reads", "value": "off"})
    assert json.loads(bytes(entries(owner.store)[-1].arguments)) == {"name": "audit_reads", "value": "off"}


# Reconciliation -------------------------------------------------------------------------------------------------------


def problems(owner: Context) -> list[tuple[str, str]]:
    return [(flaw.where, flaw.what) for flaw in call(owner, "audit_verify", {}).problems]


def test_a_store_whose_grants_no_log_states_says_so(owner: Context) -> None:
    assert NO_BASELINE not in call(owner, "audit_verify", {}).notes
    add_grant(owner.store, Grant(principal=ADA, rights=frozenset(Right)), given_by="older code")
    assert NO_BASELINE in call(owner, "audit_verify", {}).notes
    call(owner, "key_create", {"principal": "ada"})
    assert call(owner, "audit_verify", {}).problems == []
    assert NO_BASELINE not in call(owner, "audit_verify", {}).notes


def test_what_operations_did_is_explained(owner: Context) -> None:
    authenticator = Authenticator(owner.store, fresh_seconds=0)
    authenticator.owner_link("https://clew.example")
    id = call(owner, "open", {"project": "shop"}).id
    grant = call(owner, "access_grant", {"who": "ada", "role": "viewer", "project": "shop"})
    call(owner, "access_grant", {"who": "ada", "role": "writer", "project": "shop"})
    other = call(owner, "access_grant", {"who": "bob", "role": "viewer", "project": "shop"})
    call(owner, "access_revoke", {"grant": other.id})
    key = call(owner, "key_create", {"principal": "ada"})
    new = call(owner, "key_rotate", {"key": key.id})
    call(owner, "link", {"session": id})
    authenticator.new_browser_key(ADA)
    call(owner, "key_revoke", {"key": new.id})
    assert grant.id
    assert problems(owner) == []


@pytest.mark.parametrize(
    ("tampering", "where", "what"),
    [
        ("UPDATE granted SET rights = 'administer see'", "grant", "something else"),
        ("UPDATE granted SET who = 'person:eve'", "grant", "something else"),
        ("UPDATE granted SET until = 0", "grant", "for longer"),
        ("UPDATE credential SET until = until + 1 WHERE label = 'live'", "credential", "for longer"),
        ("UPDATE credential SET until = 0 WHERE label = 'ended'", "credential", "valid again"),
        ("UPDATE credential SET scopes = '' WHERE label = 'live'", "credential", "something else"),
        ("UPDATE credential SET principal = 'person:eve' WHERE label = 'live'", "credential", "something else"),
        (
            "INSERT INTO credential SELECT 'planted', kind, parent, principal, hash, scopes, project, label, at, "
            "until, used_at, given_by FROM credential WHERE label = 'live'", "credential planted", "no entry",
        ),
        (
            "INSERT INTO granted (id, who, rights, project, agent, session, until, given_by, at) SELECT 4711, "
            "'person:eve', rights, project, agent, session, until, given_by, at FROM granted", "grant 4711", "no entry",
        ),
    ],
)  # fmt: skip
def test_a_row_that_no_entry_explains_is_reported(owner: Context, tampering: str, where: str, what: str) -> None:
    call(owner, "access_grant", {"who": "ada", "rights": ["see"], "project": "shop", "days": 5})
    call(owner, "key_create", {"principal": "ada", "label": "live", "scopes": ["see"]})
    call(owner, "key_revoke", {"key": call(owner, "key_create", {"principal": "ada", "label": "ended"}).id})
    assert problems(owner) == []
    change(owner.store, tampering)
    [(place, problem)] = problems(owner)
    assert place.startswith(where)
    assert what in problem
