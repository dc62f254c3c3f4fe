"""Settings: whether reads are recorded, whether secrets are masked when they come in, and limits that warn."""

import re
from typing import Annotated

import msgspec

from clew.model.access import Right, Target
from clew.model.errors import InvalidInput
from clew.model.events import Budget
from clew.model.ids import check_name
from clew.service.find.filters import project_keys
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.access.settings import list_settings, set_setting
from clew.store.projects import names_now

# The settings and their values; the first value is the default.
VALUES = {
    "audit_reads": ("off", "on"), "secrets": ("keep", "mask"), "workspaces": ("off", "on"),
    "snapshots": ("thin", "keep"),
}  # fmt: skip
# How much the snapshots of a project may take before its automatic ones stop.
WORKSPACE_QUOTA = "workspace_quota"
# How large the whole store may grow before `clew doctor` warns.
DISK_LIMIT = "disk_limit"
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(MB|GB|TB)")
_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
# What all sessions of a project, or of all projects, may use in a day, a week or a month before clew warns.
PERIODS = ("day", "week", "month")
BUDGETS = tuple(f"budget_{period}" for period in PERIODS)
_MONEY = re.compile(r"\$(\d{1,9}(?:\.\d{1,6})?)")
_TOKENS = re.compile(r"(\d{1,15}(?:\.\d{1,3})?)([kM]?) tokens")
_THOUSANDS = {"": 1, "k": 1000, "M": 1_000_000}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a project; of every project when `project` is empty."""

    project: str
    name: str
    value: str


SETTINGS = Group("setting", "How projects are kept.")


@operation(right=Right.ADMINISTER, route="PUT /settings", audited=True, group=SETTINGS)
def setting_set(
    context: Context,
    name: Annotated[str, msgspec.Meta(description="audit_reads, secrets, workspaces ...")],
    value: str,
    *,
    project: Annotated[str, msgspec.Meta(description="Only for this project. [default: all]")] = "",
) -> Setting:
    """Set how a project is kept: audit_reads (off, on) records who reads; secrets (keep, mask) masks what comes in;
    workspaces (off, on) keeps the files of sessions after each turn; snapshots (thin, keep) says whether old ones are
    thinned.

    workspace_quota (a size such as 20 GB, or none) is how much the snapshots of a project may take: near it clew warns,
    at it old ones are thinned more strictly, and then automatic ones stop.

    For all projects together, disk_limit (a size such as 20 GB, or none) is where `clew doctor` begins to warn.

    budget_day, budget_week and budget_month ($20, or 5M tokens, or none) warn about what all sessions use in that time;
    they stop nothing.
    """
    if name == DISK_LIMIT:
        _check_disk_limit(value, project)
    elif name == WORKSPACE_QUOTA:
        _check_size(value)
        if project:
            project_keys(context, project, Right.SEE)  # A quota of a misspelt project would never warn.
    elif name in BUDGETS:
        _check_budget(value)
        if project:
            project_keys(context, project, Right.SEE)  # A budget of a misspelt project would never warn.
    elif name not in VALUES or value not in VALUES[name]:
        allowed = "; ".join(f"{setting}: {', '.join(values)}" for setting, values in VALUES.items())
        allowed += f"; {DISK_LIMIT}, {WORKSPACE_QUOTA}: a size such as 20 GB, or none"
        allowed += f"; {', '.join(BUDGETS)}: $20, 5M tokens, or none"
        raise InvalidInput(f"{name[:40]!r} cannot be set to {value[:40]!r}; there are {allowed}")
    set_setting(context.store, check_name(project, "the project", longest=200), name, value)
    return Setting(project=project, name=name, value=value)


@operation(right=Right.SEE, route="GET /settings", filters_by_reach=True, group=SETTINGS)
def setting_list(context: Context) -> list[Setting]:
    """List what is set for the projects you may see."""
    now = names_now(context.unrestricted)
    all_settings = [
        Setting(project=project, name=name, value=value)
        for (project, name), value in list_settings(context.store).items()
        if now.get(project, project) == project  # What a project of another name had, has the one it is part of.
        and name
        in (*VALUES, DISK_LIMIT, WORKSPACE_QUOTA, *BUDGETS)  # The store keeps other values of clew's own beside them.
    ]
    if not context.reach(Right.SEE):
        return all_settings
    return [
        setting
        for setting in all_settings
        if not setting.project or context.caller.rule(Right.SEE, Target(project=setting.project)).allowed
    ]


def disk_limit(value: str) -> int | None:
    """The bytes of a disk limit; None for no limit."""
    match = _SIZE.fullmatch(value)
    return round(float(match[1]) * _UNITS[match[2]]) if match else None


def _check_disk_limit(value: str, project: str) -> None:
    if project:
        raise InvalidInput(f"{DISK_LIMIT} is for the whole store; leave the project out")
    _check_size(value)


def _check_size(value: str) -> None:
    if value != "none" and not disk_limit(value):
        raise InvalidInput(f"{value[:40]!r} is no size; use one such as 500 MB, 20 GB or 1.5 TB, or none")


def budget_limit(value: str) -> Budget | None:
    """The limit that a setting's value stands for; None for no limit."""
    if match := _MONEY.fullmatch(value):
        return Budget(cost_micros=round(float(match[1]) * 1e6))
    match = _TOKENS.fullmatch(value)
    return Budget(tokens=round(float(match[1]) * _THOUSANDS[match[2]])) if match else None


def _check_budget(value: str) -> None:
    if value != "none" and budget_limit(value) is None:
        raise InvalidInput(f"{value[:40]!r} is not a valid budget; use one such as $20, $7.50 or 5M tokens, or none")
