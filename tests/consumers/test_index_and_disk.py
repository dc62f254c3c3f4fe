"""Upkeep of the text index, and the limit for the disk."""

import threading
from pathlib import Path
from typing import Any

import pytest

from clew import app, doctor
from clew.consumers.jobs import Jobs
from clew.model.errors import InvalidInput
from clew.service import Context, call
from clew.store import Store
from clew.store.jobs import list_jobs
from store.words import opened, say


def test_the_text_index_is_merged_where_the_database_does_not_do_it(
    context: Context, stopping: threading.Event
) -> None:
    store = context.store
    Jobs(context, print).run(stopping)
    assert list_jobs(store, kind="index_upkeep") == []
    session = opened(store)
    for number in range(5):
        store.append(session, [say(f"word{number}")])
        context.views.catch_up()
    Jobs(context, print).run(stopping)
    done = [job.state for job in list_jobs(store, kind="index_upkeep")]
    assert done == ([] if store.is_remote else ["done"])
    assert call(context, "search", {"query": "word3"}).total == 1


def limit_findings(store_url: str, home: Path) -> list[tuple[bool, str]]:
    findings = doctor.diagnose(app.settings(store=store_url, home=home))
    return [(finding.ok, finding.advice) for finding in findings if finding.what == "disk limit"]


def test_doctor_warns_when_the_store_is_larger_than_its_limit(
    store_url: str, store: Store, context: Context, tmp_path: Path
) -> None:
    opened(store)
    assert limit_findings(store_url, tmp_path) == []
    for value, ok in (("1 TB", True), ("0.001 MB", False)):
        call(context, "setting_set", {"name": "disk_limit", "value": value})
        [(is_ok, advice)] = limit_findings(store_url, tmp_path)
        assert is_ok == ok
        assert "deletes nothing" in advice
    call(context, "setting_set", {"name": "disk_limit", "value": "none"})
    assert limit_findings(store_url, tmp_path) == []


@pytest.mark.parametrize(
    "arguments", [{"value": "much"}, {"value": "0 GB"}, {"value": "-1 GB"}, {"value": "1 GB", "project": "demo"}]
)
def test_a_limit_that_is_none_is_refused(context: Context, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        call(context, "setting_set", {"name": "disk_limit", **arguments})
