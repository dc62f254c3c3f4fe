"""Settings of projects: whether reads are recorded, and whether secrets are masked when they come in."""

from typing import Annotated

import msgspec

from clew.model.access import Right, Target
from clew.model.errors import InvalidInput
from clew.model.ids import check_name
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.access.settings import list_settings, set_setting

# The settings and their values; the first value is the default.
VALUES = {"audit_reads": ("off", "on"), "secrets": ("keep", "mask")}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a project; of every project when `project` is empty."""

    project: str
    name: str
    value: str


SETTINGS = Group("setting", "How projects are kept.")


@operation(right=Right.ADMINISTER, route="PUT /settings", audited=True, group=SETTINGS)
def setting_set(
    context: Context,
    name: Annotated[str, msgspec.Meta(description="audit_reads or secrets.")],
    value: str,
    *,
    project: Annotated[str, msgspec.Meta(description="Only for this project. [default: all]")] = "",
) -> Setting:
    """Set how a project is kept: audit_reads (off, on) records who reads; secrets (keep, mask) masks what comes in."""
    if name not in VALUES or value not in VALUES[name]:
        allowed = "; ".join(f"{setting}: {', '.join(values)}" for setting, values in VALUES.items())
        raise InvalidInput(f"{name[:40]!r} cannot be set to {value[:40]!r}; there are {allowed}")
    set_setting(context.store, check_name(project, "the project", longest=200), name, value)
    return Setting(project=project, name=name, value=value)


@operation(right=Right.SEE, route="GET /settings", filters_by_reach=True, group=SETTINGS)
def setting_list(context: Context) -> list[Setting]:
    """List what is set for the projects you may see."""
    all_settings = [
        Setting(project=project, name=name, value=value)
        for (project, name), value in list_settings(context.store).items()
        if name in VALUES  # The store keeps other values of clew's own beside them.
    ]
    if not context.reach(Right.SEE):
        return all_settings
    return [
        setting
        for setting in all_settings
        if not setting.project or context.caller.rule(Right.SEE, Target(project=setting.project)).allowed
    ]
