"""The pages, and what they can do. A new page is a module, a folder with its template, and an entry here."""

from collections.abc import Callable
from typing import NamedTuple

from clew.server.web.actions.capture import CAPTURE
from clew.server.web.actions.keeping import KEEPING
from clew.server.web.actions.remotes import ALL_REMOTES
from clew.server.web.actions.session import SESSION
from clew.server.web.actions.sessions import SESSIONS
from clew.server.web.actions.team import TEAM
from clew.server.web.actions.views import VIEWS
from clew.server.web.actions.workspace import WORKSPACE
from clew.server.web.page_request import Download, Page, PageRequest
from clew.server.web.pages.access import access
from clew.server.web.pages.agents import agents
from clew.server.web.pages.audit import audit
from clew.server.web.pages.capture import capturing
from clew.server.web.pages.compare import compare
from clew.server.web.pages.continuing import continuing
from clew.server.web.pages.design import design
from clew.server.web.pages.event import event
from clew.server.web.pages.exporting import export_file, exporting, exporting_many
from clew.server.web.pages.family import family
from clew.server.web.pages.files import files
from clew.server.web.pages.home import home
from clew.server.web.pages.keys import keys
from clew.server.web.pages.palette import palette
from clew.server.web.pages.people import people
from clew.server.web.pages.search import search
from clew.server.web.pages.session import session
from clew.server.web.pages.sessions import sessions
from clew.server.web.pages.settings import settings
from clew.server.web.pages.timeline import timeline
from clew.server.web.pages.usage import usage, usage_csv
from clew.server.web.pages.workspace import workspace


class Entry(NamedTuple):
    """A page: its address, what makes it, and its name, icon and group in the menu."""

    path: str
    page: Callable[[PageRequest], Page | Download]
    name: str = ""
    """Empty for a page that is not in the menu."""
    icon: str = ""
    group: str = "Work"
    """The heading that it stands under in the menu, beside the entries before and after it with the same."""


PAGES = (
    Entry("/", home, "Home", "home"),
    Entry("/sessions", sessions, "Sessions", "list"),
    Entry("/search", search, "Search", "search"),
    Entry("/files", files, "Files", "folder"),
    Entry("/timeline", timeline, "Timeline", "lanes"),
    Entry("/usage", usage, "Usage", "chart"),
    Entry("/agents", agents, "Agents", "agent", "Team"),
    Entry("/people", people, "People", "people", "Team"),
    Entry("/access", access, "Access", "shield", "Team"),
    Entry("/keys", keys, "Keys", "key", "Team"),
    Entry("/audit", audit, "Audit", "record", "Team"),
    Entry("/settings", settings, "Settings", "sliders", ""),
    Entry("/sessions/{session}", session),
    Entry("/sessions/{session}/continue", continuing),
    Entry("/sessions/{session}/family", family),
    Entry("/sessions/{session}/workspace", workspace),
    Entry("/compare", compare),
    Entry("/sessions/{session}/export", exporting),
    Entry("/sessions/{session}/export/{form}", export_file),
    Entry("/bulk/export", exporting_many),
    Entry("/sessions/{session}/events/{seq}", event),
    Entry("/usage.csv", usage_csv),
    Entry("/capture", capturing),
    Entry("/palette", palette),
    Entry("/_design", design),
)
MENU = tuple(entry for entry in PAGES if entry.name)

ACTIONS = (*SESSION, *SESSIONS, *VIEWS, *TEAM, *KEEPING, *WORKSPACE, *ALL_REMOTES, CAPTURE)
