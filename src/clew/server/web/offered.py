"""The actions that a page about a team offers: for the page itself, and for each of its rows."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from clew.model.access import Right
from clew.server.web.action import Action, Offer, offers
from clew.server.web.page_request import PageRequest


def rights_somewhere(request: PageRequest) -> frozenset[str]:
    """The rights that the reader has anywhere: what they have no right for in a place is refused when they act."""
    me = request.call("whoami")
    held = frozenset(right for grant in me.grants for right in grant.rights) | {str(Right.SEE)}
    return held if me.scopes is None else held & frozenset(me.scopes)


def offered(
    actions: tuple[Action, ...],
    request: PageRequest,
    rights: frozenset[str],
    subject: Any = None,
    filled_in: Mapping[str, str] | None = None,
    **path: str,
) -> list[Offer]:
    """Offers, with what their forms are filled in with."""
    query = urlencode({name: value for name, value in (filled_in or {}).items() if value})
    return [
        offer._replace(address=f"{offer.address}?{query}") if query and offer.asks else offer
        for offer in offers(actions, request, subject, rights, **path)
    ]
