"""What a page shows only to those who may see it: the result of an operation, or why there is none."""

from typing import Any, NamedTuple

from clew.model.errors import Denied
from clew.server.web.page_request import PageRequest


class Permitted(NamedTuple):
    """The result, or the refusal in words; then the rest of the page is shown all the same."""

    value: Any
    refusal: str = ""


def permitted(request: PageRequest, name: str, /, **arguments: Any) -> Permitted:
    try:
        return Permitted(request.call(name, **arguments))
    except Denied as error:
        return Permitted(None, request.told(error))
