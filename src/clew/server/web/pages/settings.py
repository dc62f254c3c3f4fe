"""Settings: how projects are kept, what runs by itself, which servers sessions go to, and what does not look well."""

from collections.abc import Callable
from typing import Any

from clew.model.errors import Denied, InvalidInput, NotFound
from clew.server.web.actions.keeping import EACH_JOB, EACH_POLICY, JOBS, PROJECTS, REDACTION, RETENTION, SNAPSHOTS
from clew.server.web.actions.remotes import EACH_REMOTE, REMOTES
from clew.server.web.offered import offered, rights_somewhere
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.rendering import link
from clew.service.access.settings import BUDGETS, DISK_LIMIT, VALUES

MOST_JOBS, MOST_SECRETS = 50, 100
JOB_STATES = ("waiting", "running", "parked", "done")


def settings(request: PageRequest) -> Page:
    part = request.query.get("part", "")
    part = part if part in PARTS else next(iter(PARTS))
    title, values_of = PARTS[part]
    return Page(
        "settings/page.html",
        {
            "part": part, "title": title, "template": f"settings/{part}.html", "is_own": request.is_own,
            "you": request.principal, **values_of(request),
            "parts": [(name, link("/settings", part=key), key == part) for key, (name, _) in PARTS.items()],
        },
    )  # fmt: skip


def _projects(request: PageRequest) -> dict[str, Any]:
    """What is set for each project, and for all."""
    held: dict[str, dict[str, str]] = {}
    for setting in request.call("setting_list"):
        held.setdefault(setting.project, {})[setting.name] = setting.value
    lines = request.call("project_list")
    return {
        "held": held, "projects": lines, "names": tuple(VALUES),
        "standard": {name: values[0] for name, values in VALUES.items()}, "budgets": BUDGETS, "disk": DISK_LIMIT,
        "actions": offered(PROJECTS, request, rights_somewhere(request)),
    }  # fmt: skip


def _retention(request: PageRequest) -> dict[str, Any]:
    rights = rights_somewhere(request)
    return {
        "actions": offered(RETENTION, request, rights),
        "policies": [
            (policy, offered(EACH_POLICY, request, rights, policy, {"project": policy.project, "agent": policy.agent}))
            for policy in request.call("retention_list")
        ],
    }


def _redaction(request: PageRequest) -> dict[str, Any]:
    masked = [setting for setting in request.call("setting_list") if setting.name == "secrets"]
    project, after = request.query.get("project", "").strip(), request.query.get("after", "")
    place = int(after) if after.isascii() and after.isdigit() and len(after) < 19 else 0
    found, problem = None, ""
    try:
        found = request.call("scan", project=project, after=place) if project else None
    except (Denied, NotFound, InvalidInput) as error:
        problem = request.told(error)
    return {
        "masked": {setting.project: setting.value for setting in masked}, "projects": request.call("project_list"),
        "actions": offered(REDACTION, request, rights_somewhere(request)), "project": project, "found": found,
        "problem": problem, "most": MOST_SECRETS,
        "more": link("/settings", part="redaction", project=project, after=found.next) if found and found.next else "",
    }  # fmt: skip


def _snapshots(request: PageRequest) -> dict[str, Any]:
    """What the snapshots of each project take, for who administers it."""
    held = {setting.project: setting.value for setting in request.call("setting_list") if setting.name == "workspaces"}
    return {
        "usages": request.call("workspace_usage"), "kept": held,
        "actions": offered(SNAPSHOTS, request, rights_somewhere(request)),
    }  # fmt: skip


def _remotes(request: PageRequest) -> dict[str, Any]:
    rights = rights_somewhere(request)
    return {
        "remotes": [
            (remote, [
                *offered(EACH_REMOTE[:1], request, rights, remote, {"remote": remote.name}),
                *offered(EACH_REMOTE[1:], request, rights, remote, {"name": remote.name}),
            ])
            for remote in (request.call("remotes") if request.is_own else ())
        ],
        "actions": offered(REMOTES, request, rights),
    }  # fmt: skip


def _jobs(request: PageRequest) -> dict[str, Any]:
    state = request.query.get("state", "")
    state = state if state in JOB_STATES else ""
    choices = [("all", link("/settings", part="jobs"), not state)]
    choices += [(name, link("/settings", part="jobs", state=name), name == state) for name in JOB_STATES]
    rights = rights_somewhere(request)
    return {
        "jobs": [
            (job, offered(EACH_JOB, request, rights, job, job=job.id))
            for job in request.call("jobs", state=state, limit=MOST_JOBS)
        ],
        "states": choices, "actions": offered(JOBS, request, rights),
    }  # fmt: skip


def _doctor(request: PageRequest) -> dict[str, Any]:
    try:
        return {"findings": request.examine(), "refusal": ""}
    except Denied as error:
        return {"findings": [], "refusal": request.told(error)}


PARTS: dict[str, tuple[str, Callable[[PageRequest], dict[str, Any]]]] = {
    "projects": ("Projects", _projects), "retention": ("Retention", _retention), "redaction": ("Redaction", _redaction),
    "snapshots": ("Snapshots", _snapshots),
    "remotes": ("Remotes", _remotes), "jobs": ("Jobs", _jobs), "doctor": ("Health", _doctor),
}  # fmt: skip
