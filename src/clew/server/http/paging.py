"""Where a list goes on: the place that the next page begins after, as the operation itself takes it.

A cursor only names a place. What is beyond it is decided by the reach of whoever asks, anew for every page.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from clew.model.events import Event
from clew.service.kernel.registry import Operation


def cursor(operation: Operation, arguments: Mapping[str, Any], result: Any) -> tuple[str, str] | None:
    """The parameter that goes on with the next page, and its value; none on the last."""
    parameters = {one.name: one for one in operation.parameters}
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
    """The address of the next page as a header."""
    kept = [(one, text) for one, text in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if one != name]
    return f'<{path}?{urlencode([*kept, (name, value)])}>; rel="next"'.encode("ascii")
