"""The filters of a list: what an operation can be asked for, in the address of a page and as people write it.

They come from the operation's declaration, so a filter that is added there is one of the page as well.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from clew.model.errors import InvalidInput
from clew.server.http.arguments import from_query
from clew.service.find.filter_words import YES, given_filters
from clew.service.kernel.registry import Operation, operation_named


class Chip(NamedTuple):
    """A filter that is on, and the address of the page without it."""

    name: str
    value: str
    without: str


class Filters(NamedTuple):
    """What is asked for: the values by name, and the words that name no filter."""

    operation: Operation
    given: dict[str, str]
    words: str

    def arguments(self) -> dict[str, Any]:
        """The filters as arguments of the operation."""
        return from_query(self.operation, urlencode(self.given).encode())

    def chips(self, path: str, /, **kept: str) -> list[Chip]:
        others = {name: value for name, value in kept.items() if value}
        return [
            Chip(name, value, _address(path, others | {o: v for o, v in self.given.items() if o != name}))
            for name, value in self.given.items()
        ]


def filters_of(operation_name: str, query: Mapping[str, str], text: str, *, but: frozenset[str]) -> Filters:
    """The filters in the address and in what a person wrote: `runtime:codex error:yes since:monday`."""
    operation = operation_named(operation_name)
    names = [parameter.name for parameter in operation.parameters if parameter.by_name and parameter.name not in but]
    given = {name: query[name] for name in names if query.get(name)}
    written, words = given_filters(text, names)
    given |= written
    for name, value in given.items():
        given[name] = YES.get(value, value) if _is_yes_or_no(operation, name) else value
    return Filters(operation, given, words)


def check_no_words(filters: Filters, but: frozenset[str]) -> None:
    """Refuse words in a list that has filters alone."""
    if filters.words:
        names = ", ".join(
            parameter.name
            for parameter in filters.operation.parameters
            if parameter.by_name and parameter.name not in but
        )
        raise InvalidInput(f"{filters.words[:80]!r} is not a filter; write name:value with one of {names}")


def _is_yes_or_no(operation: Operation, name: str) -> bool:
    return any(parameter.name == name and isinstance(parameter.default, bool) for parameter in operation.parameters)


def _address(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
