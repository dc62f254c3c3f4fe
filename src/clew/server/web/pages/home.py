"""The first page: what waits for its reader, what is going on, what was done lately, and what it cost."""

from collections import Counter
from datetime import date, timedelta
from typing import NamedTuple

from clew.model.retention import DAY_US
from clew.model.session import Status
from clew.server.web.charts import heat_map, week_map
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.pages import capture
from clew.server.web.pages.search import search
from clew.server.web.pages.sessions import sessions
from clew.service.find.filters import now
from clew.service.sessions.line import SessionLine

RECENT = 40
EACH = 6
TOP = 6
PROJECTS = 6
FAILED = "failed"
FAILED_DAYS = 7
MOST_CLOSED = 100
MOST_CHANGE = 1000


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
        return Page("home/empty.html", capture.about(request))
    paused = request.call("sessions", state=str(Status.PAUSED), limit=EACH)
    # Much may have happened since a session failed, so it need not be among the recent ones.
    closed = request.call("sessions", state=str(Status.CLOSED), limit=MOST_CLOSED)
    since = request.now - FAILED_DAYS * DAY_US
    return Page(
        "home/page.html",
        {
            "needs": [
                ("Waiting for you", "/sessions?state=waiting", request.call(
                    "sessions", state=str(Status.WAITING), limit=EACH)),
                ("Over budget", "/sessions?state=paused", [line for line in paused if _is_over_budget(line)]),
                ("Failed", "/sessions?error=yes", [
                    line for line in closed if line.outcome == FAILED and line.last_at > since][:EACH]),
            ],
            "paused": [line for line in paused if not _is_over_budget(line)],
            "running": request.call("sessions", state=str(Status.ACTIVE), limit=EACH),
            "projects": by_project(recent)[:PROJECTS], "each": EACH,
        },
    )  # fmt: skip


def spent(request: PageRequest) -> Page:
    """What was done and what it cost. In a large store this takes a moment, so the page fetches it by itself."""
    today = now().date()
    report = request.call("usage", by=["hour"], since=str(today - timedelta(days=370)))
    answers, money, hours = Counter[str](), Counter[str](), Counter[tuple[int, int]]()
    for row in report.rows:
        day, _, hour = row.by["hour"].partition(" ")
        answers[day] += row.answers
        money[day] += row.cost_micros
        hours[date.fromisoformat(day).weekday(), int(hour[:2])] += row.answers
    week = request.call("usage", by=["session"], when="7 days", top=TOP)
    yesterday = money[str(today - timedelta(days=1))]
    return Page(
        "home/spent.html",
        {
            "heat": heat_map(answers, today), "hours": week_map(hours), "week": week.total,
            "today": money[str(today)], "yesterday": yesterday,
            "change": _change(money[str(today)], yesterday), "top": week.rows,
        },
    )  # fmt: skip


def _change(today: int, yesterday: int) -> str:
    """How today compares with all of yesterday, as in +40 %."""
    share = 100 * (today - yesterday) // yesterday if yesterday and today else 0
    return f"{share:+,} %" if share and share < MOST_CHANGE else ""


def _is_over_budget(line: SessionLine) -> bool:
    return line.budget_used is not None and line.budget_used >= 1


class Member(NamedTuple):
    """A session among recent work, and the sessions that were forked from it."""

    line: SessionLine
    forks: "list[Member]"


class Project(NamedTuple):
    """The recent work of a project: its folders, each with its sessions."""

    name: str
    folders: list[tuple[str, list[Member]]]


def by_project(lines: list[SessionLine]) -> list[Project]:
    """The sessions of each project by folder, the project with the latest activity first, forks under their parents."""
    projects: dict[str, list[SessionLine]] = {}
    for line in lines:
        projects.setdefault(line.project, []).append(line)
    return [Project(name, _by_folder(members[:EACH])) for name, members in projects.items()]


def _by_folder(lines: list[SessionLine]) -> list[tuple[str, list[Member]]]:
    members = {line.id: Member(line, []) for line in lines}
    folders: dict[str, list[Member]] = {}
    for line in lines:
        parent = members.get(line.parent or "")
        (parent.forks if parent else folders.setdefault(line.folder, [])).append(members[line.id])
    return list(folders.items())
