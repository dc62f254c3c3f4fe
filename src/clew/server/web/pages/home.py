"""The first page: what waits for its reader, what is going on, what was done lately, and what it cost."""

from datetime import timedelta

from clew.model.session import Status
from clew.server.web.charts import heat_map
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages.search import search
from clew.server.web.pages.sessions import sessions
from clew.service.find.filters import now
from clew.service.sessions.line import SessionLine

RECENT = 40
EACH = 6
TOP = 6
PROJECTS = 6


def home(request: PageRequest) -> Page:
    """The first page; an address of the list or the search that earlier versions had shows that."""
    if request.query.get("q"):
        return search(request)
    if any(request.query.get(name) for name in ("project", "tag", "before")):
        return sessions(request)
    if request.query.get("part") == "spent":
        return spent(request)
    recent = request.call("sessions", limit=RECENT)
    if not recent:
        return Page("home/empty.html")
    return Page(
        "home/page.html",
        {
            "waiting": request.call("sessions", state=str(Status.WAITING), limit=EACH),
            "running": request.call("sessions", state=str(Status.ACTIVE), limit=EACH),
            "paused": request.call("sessions", state=str(Status.PAUSED), limit=EACH),
            "projects": by_project(recent)[:PROJECTS], "each": EACH,
        },
    )  # fmt: skip


def spent(request: PageRequest) -> Page:
    """What was done and what it cost. In a large store this takes a second, so the page fetches it by itself."""
    today = now().date()
    report = request.call("usage", by=["day"], since=str(today - timedelta(days=370)))
    days = {row.by["day"]: row for row in report.rows}
    week = request.call("usage", by=["session"], when="7 days", top=TOP)
    return Page(
        "home/spent.html",
        {
            "heat": heat_map({day: row.answers for day, row in days.items()}, today), "week": week.total,
            "today": days.get(str(today)), "yesterday": days.get(str(today - timedelta(days=1))),
            "top": week.rows,
        },
    )  # fmt: skip


def by_project(lines: list[SessionLine]) -> list[tuple[str, list[SessionLine]]]:
    """The sessions of each project, the project with the latest activity first."""
    projects: dict[str, list[SessionLine]] = {}
    for line in lines:
        projects.setdefault(line.project, []).append(line)
    return [(project, members[:EACH]) for project, members in projects.items()]
