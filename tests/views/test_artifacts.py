"""The view of artifacts, and the operation that lists them."""

from collections.abc import Iterator
from typing import Any

import pytest

from clew.model.events import ArtifactSaved, Draft
from clew.service import Context, call
from clew.store import Store
from clew.store.objects.objects import save
from support.talks import HOUR, MONDAY, on, opened


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    context.close()


def artifact(context: Context, name: str, hour: int) -> Draft:
    body = ArtifactSaved(name=name, blob=save(context.store, name.encode()), size=len(name), media_type="text/plain")
    return Draft(body=body, said_at=MONDAY + hour * HOUR)


def names(context: Context, **filters: Any) -> list[str]:
    return [saved.name for saved in call(context, "artifacts", filters)]


def test_artifacts_are_listed_newest_first_with_the_event_that_saved_them(context: Context) -> None:
    session = opened(context, artifact(context, "plan.md", 1), artifact(context, "report.pdf", 2))
    newest, oldest = call(context, "artifacts", {})
    assert (newest.name, newest.session, newest.seq, newest.size) == ("report.pdf", session.id, 3, 10)
    assert (oldest.name, oldest.seq, oldest.at) == ("plan.md", 2, MONDAY + HOUR)


def test_artifacts_are_narrowed_to_a_session_and_to_a_project(context: Context) -> None:
    one = opened(context, artifact(context, "a", 1), project="apples")
    opened(context, artifact(context, "b", 2), project="bananas")
    assert names(context) == ["b", "a"]
    assert names(context, session=one.id) == ["a"]
    assert names(context, project="bananas") == ["b"]
    assert names(context, limit=1) == ["b"]


@pytest.mark.parametrize(("size", "stored"), [(-(10**30), 0), (10**30, 2**62), (0, 0)])
def test_a_size_that_no_database_holds_stops_no_view(context: Context, size: int, stored: int) -> None:
    blob = save(context.store, b"x")
    opened(context, Draft(body=ArtifactSaved(name="odd", blob=blob, size=size)), artifact(context, "next", 1))
    assert sorted((saved.name, saved.size) for saved in call(context, "artifacts", {})) == [
        ("next", 4),
        ("odd", stored),
    ]


def test_the_artifacts_of_an_erased_session_are_gone(context: Context) -> None:
    session = opened(context, artifact(context, "secret.txt", 1))
    assert names(context) == ["secret.txt"]
    call(context, "erase", {"session": session.id})
    assert names(context) == []


def test_a_view_built_again_has_the_same_artifacts(context: Context) -> None:
    opened(context, artifact(context, "a", 1), artifact(context, "b", 2))
    before = call(context, "artifacts", {})
    call(context, "views_rebuild", {"view": "artifacts"})
    assert call(context, "artifacts", {}) == before
