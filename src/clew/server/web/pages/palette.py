"""The command palette: sessions, pages, actions and operations whose names have the words that somebody types."""

from typing import Any, NamedTuple

from clew.model.errors import ClewError
from clew.server.web.action import Offer, offers
from clew.server.web.offered import rights_somewhere
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.search import UNFINISHED
from clew.server.web.pages.settings import PARTS
from clew.server.web.rendering import link
from clew.service.kernel.registry import load

SESSIONS = 8
OPERATIONS = 8
ACTIONS = 6


class Command(NamedTuple):
    """An operation, and what it does in a sentence."""

    name: str
    help: str


def palette(request: PageRequest) -> Page:
    """What has the words; without words, the latest sessions and all pages."""
    from clew.server.web.navigation import MENU

    q = request.query.get("q", "").strip()[:200]
    words = q.lower().split()
    pages = [(entry.path, entry.name, entry.icon) for entry in MENU if _has(entry.name, words)]
    if words:
        parts = [(link("/settings", part=part), f"Settings: {name}", "sliders") for part, (name, _) in PARTS.items()]
        pages += [part for part in parts if _has(part[1], words)]
    return Page(
        "palette/page.html",
        {
            "q": q, "pages": pages, "sessions": _sessions(request, q),
            "operations": _operations(request, words) if words else [],
            "actions": _actions(request, words) if words else [],
        },
    )  # fmt: skip


def _has(text: str, words: list[str]) -> bool:
    return all(word in text.lower() for word in words)


def _sessions(request: PageRequest, q: str) -> list[tuple[str, str, str, str, int]]:
    """The id, title, runtime, project and last activity of the sessions that are meant."""
    if not q:
        lines = request.call("sessions", limit=SESSIONS)
        return [(line.id, line.title, line.runtime or line.agent, line.project, line.last_at) for line in lines]
    found = _by_id(request, q)
    query = f"{q}*" if UNFINISHED.search(q) else q
    try:
        hits: list[Any] = request.call("search", query=query, limit=SESSIONS).sessions
    except ClewError:
        hits = []  # What is being typed is not always a query.
    found += [(hit.session, hit.title, hit.runtime or hit.agent, hit.project, hit.last_at) for hit in hits]
    return list({session[0]: session for session in found}.values())[:SESSIONS]


def _by_id(request: PageRequest, q: str) -> list[tuple[str, str, str, str, int]]:
    """The session whose id begins so, if there is one."""
    if len(q) < 4 or not (q.isascii() and q.isalnum()):
        return []
    try:
        line = request.call("show", session=q).session
    except ClewError:
        return []
    return [(line.id, line.title, line.runtime or line.agent, line.project, line.last_at)]


def _actions(request: PageRequest, words: list[str]) -> list[Offer]:
    """What can be done from any page, because it is about nothing that one has to look at first."""
    from clew.server.web.navigation import ACTIONS as ALL

    about_nothing = tuple(
        action for action in ALL if action.asks and "{" not in action.path and not action.each
        and _has(f"{action.name} {action.will}", words)
    )  # fmt: skip
    possible = tuple(action for action in about_nothing if action.is_possible(None))
    return offers(possible, request, None, rights_somewhere(request))[:ACTIONS]


def _operations(request: PageRequest, words: list[str]) -> list[Command]:
    """The operations that the principal may call on something, those with the words in their names first."""
    me = request.call("whoami")
    rights = {right for grant in me.grants for right in grant.rights}
    if me.scopes is not None:
        rights &= set(me.scopes)
    known = [
        Command(operation.name.replace("_", " "), operation.help.partition("\n")[0])
        for operation in load().values()
        if operation.route and str(operation.right) in rights
    ]
    named = [command for command in known if _has(command.name, words)]
    about = [command for command in known if command not in named and _has(f"{command.name} {command.help}", words)]
    return [*named, *about][:OPERATIONS]
