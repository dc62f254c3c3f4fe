"""The audit log: who asked for what, newest first, narrowed, in pages, and in the forms that other programs read."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.model.access import Grant, Right, owner_of_everything
from clew.model.errors import ClewError, InvalidInput
from clew.service import Context, call
from clew.service.audit import entries
from clew.service.audit.entries import Entries
from clew.store import Store
from store.rows import change
from store.words import ADA

BOB = "person:bob"
embedded = pytest.mark.parametrize("database", ["sqlite"])


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    """On a store where Ada did five things, and Bob was refused two."""
    ada = Context(
        store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),), home=str(tmp_path)
    )
    bob = Context(
        store=store,
        unrestricted=store,
        principal=BOB,
        grants=(Grant(principal=BOB, rights=frozenset({Right.SEE}), project="shop"),),
    )
    for project in ("=bank", "shop"):
        call(ada, "open", {"project": project})
    for days in (1, 2):
        call(ada, "retention_set", {"project": "shop", "keep_days": days})
    call(ada, "retention_set", {"project": "=bank", "keep_days": 3})
    for name in ("collect", "retention_set"):
        with pytest.raises(ClewError):
            call(bob, name, {"project": "shop"} if name == "retention_set" else {})
    call(ada, "retention_remove", {"project": "shop"})
    call(ada, "collect", {})
    return ada


def logged(context: Context, **filters: Any) -> list[tuple[str, str, bool]]:
    found: Entries = call(context, "audit_log", filters)
    return [(entry.principal, entry.operation, entry.allowed) for entry in found.entries]


def test_the_log_says_who_asked_for_what_newest_first(context: Context) -> None:
    assert logged(context) == [
        (ADA, "collect", True), (ADA, "retention_remove", True), (BOB, "retention_set", False), (BOB, "collect", False),
        (ADA, "retention_set", True), (ADA, "retention_set", True), (ADA, "retention_set", True),
    ]  # fmt: skip
    found: Entries = call(context, "audit_log", {"ruling": "refused"})
    assert all(BOB in entry.because and entry.because.startswith("no grant gives") for entry in found.entries)
    positions = [entry.position for entry in call(context, "audit_log", {}).entries]
    assert positions == sorted(positions, reverse=True)


def test_the_log_is_narrowed(context: Context) -> None:
    assert len(logged(context, project="shop")) == 4
    assert logged(context, project="=bank") == [(ADA, "retention_set", True)]
    assert logged(context, principal="bob") == logged(context, ruling="refused") == [
        (BOB, "retention_set", False), (BOB, "collect", False)
    ]  # fmt: skip
    assert len(logged(context, operation="retention_set", ruling="allowed")) == 3
    assert logged(context, project="nowhere") == []
    change(
        context.store,
        "UPDATE event SET at = at - 864000000000 WHERE kind = 'operation_called' AND actor = 'person:bob'",
    )
    assert len(logged(context, since="today")) == 5
    assert len(logged(context, until="3 days ago")) == 2


def test_the_log_comes_in_pages_that_neither_skip_nor_repeat(context: Context) -> None:
    whole: Entries = call(context, "audit_log", {})
    paged, after = [], ""
    while True:
        page: Entries = call(context, "audit_log", {"limit": 2, "after": after})
        paged += page.entries
        after = page.next
        if not after:
            break
    assert paged == whole.entries
    with pytest.raises(InvalidInput, match="is not a valid cursor"):
        call(context, "audit_log", {"after": "-1"})


@embedded
def test_a_search_for_what_is_rare_stops_and_says_where_to_go_on(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MOST_READ", 1)
    page: Entries = call(context, "audit_log", {"operation": "collect", "principal": "bob"})
    assert [entry.operation for entry in page.entries] == ["collect"]
    assert page.next
    assert call(context, "audit_log", {"after": page.next}).entries != []


# Forms ----------------------------------------------------------------------------------------------------------------


def exported(context: Context, form: str) -> str:
    """All of an export, without the records of exporting."""
    found = call(context, "audit_export", {"form": form})
    assert not found.next
    return str(found.text)


@embedded
def test_json_lines_hold_every_field(context: Context) -> None:
    found: Entries = call(context, "audit_log", {})
    lines = [msgspec.json.decode(line, type=entries.Entry) for line in exported(context, "jsonl").splitlines()]
    assert lines == found.entries


@embedded
def test_comma_separated_values_are_no_formulas(context: Context) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(context, "csv"))))
    assert [row["operation"] for row in rows][:3] == ["collect", "retention_remove", "retention_set"]
    assert {row["allowed"] for row in rows} == {"true", "false"}
    [bank] = [row for row in rows if "bank" in row["project"]]
    assert (bank["project"], bank["target"]) == ("'=bank", "'=bank")
    assert json.loads(bank["arguments"]) == {"project": "=bank", "keep_days": 3}
    assert rows[0]["at"].endswith("Z")


@embedded
def test_logs_of_opentelemetry_are_those_of_its_own_json(context: Context) -> None:
    """Read with the message that the collector's protocol itself defines."""
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

    [line] = exported(context, "otel").splitlines()
    read = Parse(line, LogsData())
    [resource] = read.resource_logs
    [scope] = resource.scope_logs
    assert len(scope.log_records) == 7
    newest = scope.log_records[0]
    values = {one.key: one.value.string_value for one in newest.attributes}
    assert (values["enduser.id"], values["clew.operation"]) == (ADA, "collect")
    assert newest.event_name == "clew.operation_called"
    assert {one.severity_text for one in scope.log_records} == {"INFO", "WARN"}
    entry = call(context, "audit_log", {"operation": "collect", "ruling": "allowed"}).entries[0]
    assert newest.time_unix_nano == entry.at * 1000


@embedded
def test_an_export_is_itself_on_record(context: Context) -> None:
    exported(context, "csv")
    assert logged(context)[0] == (ADA, "audit_export", True)
    with pytest.raises(InvalidInput, match="only a bundle can have content"):
        call(context, "audit_export", {"form": "csv", "with_content": True})
