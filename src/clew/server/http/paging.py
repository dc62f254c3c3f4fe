"""The next page of a list: a `Link` with the parameter that continues after the last item.

A cursor only names a position. Each page shows only what its own caller may read.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from clew.model.events import Event
from clew.service.kernel.registry import Operation


def cursor(operation: Operation, arguments: Mapping[str, Any], result: Any) -> tuple[str, str] | None:
    """The parameter for the next page, and its value; None on the last page."""
    parameters = {parameter.name: parameter for parameter in operation.parameters}
    if "after" in parameters and getattr(result, "next", None):
        return "after", str(result.next)
    if not isinstance(result, list) or "limit" not in parameters or not result:
        return None
    limit = arguments.get("limit", parameters["limit"].default)
    if len(result) < limit:
        return None
    last = result[-1]
    if "before" in parameters:
        return "before", last.id
    if "after" in parameters and isinstance(last, Event):
        return "after", str(last.seq if "session" in parameters else last.position)
    return None


def link(path: str, query: bytes, name: str, value: str) -> bytes:
    """The `Link` header of the next page."""
    others = [pair for pair in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if pair[0] != name]
    return f'<{path}?{urlencode([*others, (name, value)])}>; rel="next"'.encode("ascii")
