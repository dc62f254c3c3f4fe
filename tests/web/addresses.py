"""The addresses of all pages and of all actions that ask, so that a new one is looked at as soon as it is there.

A page comes from `navigation.py`. What its path needs has a sample here; a path with a parameter that has none fails.
"""

import re
from collections.abc import Mapping

from clew.server.web.action import Servers
from clew.server.web.navigation import ACTIONS, PAGES
from web.conftest import Site

ASKING = tuple(action.path for action in ACTIONS if action.asks and action.servers is not Servers.TEAM)


def samples(site: Site, session: str = "") -> dict[str, str]:
    """A value for each parameter of a path: of a session that shows the most, or of the one that is named."""
    about = {"session": session or site.session, "seq": "12", "form": "markdown"}
    # An action on what is not there any more is a page all the same, which says so.
    return about | {"note": "n1", "grant": "1", "key": "k1"}


def filled_in(path: str, values: Mapping[str, str]) -> str:
    """The address of a page."""
    for name in re.findall(r"\{(\w+)\}", path):
        assert name in values, f"tests/web/addresses.py has no sample of {name!r}, which the page {path} needs"
    return path.format(**values)


def unnamed(addresses: list[str]) -> list[str]:
    """The paths of pages that none of these addresses leads to."""
    paths = [address.partition("?")[0] for address in addresses]
    return [entry.path for entry in PAGES if not any(_leads_to(entry.path, path) for path in paths)]


def _leads_to(pattern: str, path: str) -> bool:
    pieces, given = pattern.split("/"), path.split("/")
    return len(pieces) == len(given) and all(
        piece == value or piece.startswith("{") for piece, value in zip(pieces, given, strict=True)
    )
