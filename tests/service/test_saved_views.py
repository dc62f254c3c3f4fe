"""Saved views: filters of the list of sessions under a name, each principal's own."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from clew.model.access import Grant, Right
from clew.model.errors import Conflict, InvalidInput, NotFound
from clew.service import Context, call
from clew.service.find.saved_views import LONGEST_NAME, MOST_VIEWS
from clew.store import Store
from support.talks import asked, on, opened


@pytest.fixture
def context(store: Store) -> Iterator[Context]:
    context = on(store)
    yield context
    context.close()


def names(context: Context) -> list[str]:
    return [view.name for view in call(context, "view_list", {})]


def save(context: Context, name: str, filters: str) -> Any:
    return call(context, "view_save", {"name": name, "filters": filters})


def test_a_saved_view_lists_what_its_filters_list(context: Context) -> None:
    kept = opened(context, asked("hi"))
    call(context, "tag", {"session": kept.id, "tags": ["late"]})
    call(context, "tag", {"session": kept.id, "tags": ["work"]})
    call(context, "tag", {"session": opened(context, asked("more")).id, "tags": ["work"]})
    made = save(context, "  Mine,   late ", 'tag:late error:no since:"5 days ago" sort:cost')
    assert (made.name, made.filters) == ("Mine, late", 'tag:late failed:no since:"5 days ago" sort:cost')
    assert [line.id for line in call(context, "sessions", {"view": "Mine, late"})] == [kept.id]
    assert call(context, "sessions_count", {"view": "Mine, late"}).sessions == 1
    # What is asked for besides is asked for as well, and wins over what the view has.
    assert not call(context, "sessions", {"view": "Mine, late", "state": "archived"})
    assert len(call(context, "sessions", {"view": "Mine, late", "tag": "work"})) == 2
    save(context, "Mine, late", "tag:work")
    assert names(context) == ["Mine, late"]
    assert len(call(context, "sessions", {"view": "Mine, late"})) == 2


def test_nobody_sees_or_changes_the_views_of_another(context: Context) -> None:
    save(context, "mine", "sort:cost")
    grants = (Grant(principal="person:bob", rights=frozenset({Right.SEE}), project="elsewhere"),)
    bob = msgspec.structs.replace(context, principal="person:bob", grants=grants, _cache={})
    assert names(bob) == []
    for operation, arguments in (("view_remove", {"name": "mine"}), ("sessions", {"view": "mine"})):
        with pytest.raises(NotFound, match="you have no saved view 'mine'; you have saved none yet"):
            call(bob, operation, arguments)
    save(bob, "mine", "failed:yes")
    call(bob, "view_remove", {"name": "mine"})
    assert [view.filters for view in call(context, "view_list", {})] == ["sort:cost"]


def test_a_view_that_lists_nothing_sensible_is_refused(context: Context) -> None:
    for filters, why in (
        ("runtime:codex hello", "'hello' is not a filter"), ("state:lost", "state"), ("limit:5", "is not a filter"),
        ("failed:maybe", "failed"), ("  ", "is not a filter"), ("view:another", "is not a filter"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=why):
            save(context, "one", filters)
    for name in ("", "  ", "a\0b", "\x1b[31mred", "‮evil", "n" * (LONGEST_NAME + 1), "\ud800"):
        with pytest.raises(InvalidInput):
            save(context, name, "sort:cost")
    assert names(context) == []


def test_a_principal_has_no_more_views_than_a_page_shows(context: Context) -> None:
    for number in range(MOST_VIEWS):
        save(context, f"view {number}", "sort:cost")
    with pytest.raises(Conflict, match="remove one first"):
        save(context, "one more", "sort:cost")
    save(context, "view 3", "failed:yes")
    call(context, "view_remove", {"name": "view 4"})
    save(context, "one more", "sort:cost")
    assert len(names(context)) == MOST_VIEWS
    with pytest.raises(NotFound, match="did you mean view 4"):
        call(context, "view_remove", {"name": "view 44x"})
