"""Reports: what a tool gives instead of a list or a transcript, so that no further tool costs an llm its schema."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from clew.mcp.outgoing import MOST_CHARACTERS, Answer, Mask, answer, mask_of, size, values_of
from clew.model.errors import InvalidInput
from clew.service import Context, call
from clew.service.kernel.registry import operation_named

# What pages a list, and means nothing for its sums.
PAGING = frozenset({"limit", "after", "before"})


class Sums(NamedTuple):
    """The sums that a tool gives instead of its list when an argument is given."""

    argument: str
    type: Any
    operation: str
    part: str
    """The name of the list in the answer."""


def sums(context: Context, about: Sums, given: Mapping[str, Any]) -> Answer:
    """The sums of a list, for the arguments that the list would have."""
    known = {parameter.name for parameter in operation_named(about.operation).parameters}
    asked = {name: value for name, value in given.items() if name not in PAGING}
    if about.argument not in known:
        del asked[about.argument]
    if unknown := sorted(asked.keys() - known):
        raise InvalidInput(f"{about.argument} does not go together with {', '.join(unknown)}; leave one of them out")
    values = {about.part: values_of(call(context, about.operation, asked), mask_of(context))}
    return answer(fitted(values), stored=True)


# Of one session -------------------------------------------------------------------------------------------------------


def _overview(values: dict[str, Any]) -> dict[str, Any]:
    # The newest turns say the most of how it goes.
    return fitted(values, last="turns")


def _family(values: dict[str, Any]) -> dict[str, Any]:
    # A member is a session, with how it came about beside.
    members = [{**member.pop("session_id"), **member} for member in values["members"]]
    return fitted({**values, "members": members})


def _continuation(values: dict[str, Any]) -> dict[str, Any]:
    return fitted({**values, **values.pop("fidelity", {})})


_REPORTS: dict[str, tuple[str, tuple[str, ...], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "usage": ("overview", (), _overview),
    "family": ("family", (), _family),
    "continuation": ("continuation", ("runtime",), _continuation),
}
FORMS = tuple(_REPORTS)


def report(context: Context, form: str, arguments: Mapping[str, Any]) -> Answer:
    """A report of a session."""
    operation, takes, shortened = _REPORTS[form]
    asked = {"session": arguments["session_id"]} | {name: arguments[name] for name in takes if arguments.get(name)}
    mask: Mask = mask_of(context)
    return answer(shortened(dict(values_of(call(context, operation, asked), mask))), stored=True)


def fitted(values: dict[str, Any], *, last: str = "") -> dict[str, Any]:
    """Values that are short enough for an llm: the longest list is cut, and the answer says by how much."""
    left_out: dict[str, int] = {}
    while size(values) > MOST_CHARACTERS:
        lists = {name: value for name, value in values.items() if isinstance(value, list) and len(value) > 1}
        if not lists:
            break
        name = max(lists, key=lambda name: size({name: lists[name]}))
        whole = lists[name]
        kept = len(whole) // 2
        left_out[name] = left_out.get(name, 0) + len(whole) - kept
        values = {**values, name: whole[-kept:] if name == last else whole[:kept], "left_out": left_out}
    return values
