"""Saved views: filters and an order of the list of sessions, under a name; each principal has their own.

They are kept beside the log, because they say how somebody looks at sessions and nothing about the sessions.
"""

from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.errors import Conflict, InvalidInput, NotFound
from clew.model.ids import check_name
from clew.model.nearest import suggestion
from clew.model.plain import plain
from clew.service.find.filter_words import YES, filter_text, given_filters
from clew.service.kernel.argument_error import argument_error
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, Operation, operation, operation_named
from clew.store.access.saved_views import StoredView, list_views, remove_view, set_view

MOST_VIEWS = 50
LONGEST_NAME = 60
LONGEST_FILTERS = 1000
# What a list is asked for besides its filters and its order.
NOT_SAVED = frozenset({"limit", "before", "view"})

VIEWS = Group("view", "Lists of sessions that you saved under a name.")


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    """A list of sessions under a name: its filters and its order as people write them, and when it was saved."""

    name: str
    filters: str
    at: int


@operation(right=Right.SEE, route="PUT /views", filters_by_reach=True, group=VIEWS)
def view_save(
    context: Context,
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME, description="Its name.")],
    filters: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=LONGEST_FILTERS,
            description="What it lists, such as 'runtime:codex error:yes since:monday sort:cost'.",
        ),
    ],
) -> SavedView:
    """Save filters of the list of sessions under a name, or change what a name stands for.

    The names are your own: nobody else sees them, and the pages show them wherever you log in.
    """
    words = " ".join(check_name(name, "the name of the view").split())
    if not words or plain(words) != words:
        raise InvalidInput(f"{words[:LONGEST_NAME]!r} is not a valid name for a view; use letters and blanks")
    text = filter_text(_given(check_name(filters, "the filters")))
    if len(text) > LONGEST_FILTERS:
        raise InvalidInput(f"the filters have {len(text):,} characters; give at most {LONGEST_FILTERS:,}")
    _arguments(text)
    if not set_view(context.store, context.principal, words, text, most=MOST_VIEWS):
        raise Conflict(f"you have {MOST_VIEWS} saved views already; remove one first")
    return _saved_view(_named(context, words))


@operation(right=Right.SEE, route="GET /views", filters_by_reach=True, group=VIEWS)
def view_list(context: Context) -> list[SavedView]:
    """List your saved views, in the order in which you saved them."""
    return [_saved_view(view) for view in list_views(context.store, context.principal)]


@operation(right=Right.SEE, route="DELETE /views", filters_by_reach=True, repeatable=True, group=VIEWS)
def view_remove(context: Context, name: Annotated[str, msgspec.Meta(description="Its name.")]) -> None:
    """Remove a saved view; the sessions stay as they are."""
    words = " ".join(check_name(name, "the name of the view").split())
    if not remove_view(context.store, context.principal, words):
        _refuse(context, words)


def arguments_of_view(context: Context, name: str) -> dict[str, Any]:
    """What a saved view asks the list of sessions for: values of its parameters, by name."""
    return _arguments(_named(context, " ".join(check_name(name, "the name of the view").split())).filters)


def _named(context: Context, name: str) -> StoredView:
    found = next((view for view in list_views(context.store, context.principal) if view.name == name), None)
    return found or _refuse(context, name)


def _refuse(context: Context, name: str) -> Any:
    names = [view.name for view in list_views(context.store, context.principal)]
    near = suggestion(name, names) or (f"there are: {', '.join(names[:10])}" if names else "you have saved none yet")
    raise NotFound(f"you have no saved view {name[:LONGEST_NAME]!r}; {near}", missing="view")


def _saved_view(view: StoredView) -> SavedView:
    return SavedView(name=view.name, filters=view.filters, at=view.at)


def _list() -> Operation:
    return operation_named("sessions")


def _given(text: str) -> dict[str, str]:
    """The filters in a text; words that name none are refused."""
    names = [known.name for known in _list().parameters if known.by_name and known.name not in NOT_SAVED]
    given, words = given_filters(text, names)
    if words or not given:
        raise InvalidInput(f"{words[:80]!r} is not a filter; write name:value with one of {', '.join(names)}")
    return given


def _arguments(text: str) -> dict[str, Any]:
    """Filters as values of the parameters of the list, checked as the list checks them."""
    known = _list()
    values = {
        name: YES.get(value, value) if _is_yes_or_no(known, name) else value for name, value in _given(text).items()
    }
    try:
        parsed = msgspec.convert(values, known.arguments, strict=False)
    except msgspec.ValidationError as error:
        raise argument_error(known.name, values, known.arguments, error) from None
    return {name: getattr(parsed, name) for name in values}


def _is_yes_or_no(known: Operation, name: str) -> bool:
    return any(parameter.name == name and isinstance(parameter.default, bool) for parameter in known.parameters)
