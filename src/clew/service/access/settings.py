"""Settings of projects: whether reads are recorded, and what becomes of secrets."""

from typing import Annotated

import msgspec

from clew.model.access import Right, Target
from clew.model.errors import InvalidInput
from clew.model.ids import check_name
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Group, operation
from clew.store.access.settings import list_settings, set_setting

# What can be set, to what, and what it is when nobody has set it.
KNOWN = {"audit_reads": ("off", "on"), "secrets": ("keep", "mask")}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for a project; for every project when it is empty."""

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
    if name not in KNOWN or value not in KNOWN[name]:
        some = "; ".join(f"{one}: {', '.join(values)}" for one, values in KNOWN.items())
        raise InvalidInput(f"{name[:40]!r} cannot be set to {value[:40]!r}; there are {some}")
    set_setting(context.store, check_name(project, "the project", longest=200), name, value)
    return Setting(project=project, name=name, value=value)


@operation(right=Right.SEE, route="GET /settings", filters_by_reach=True, group=SETTINGS)
def setting_list(context: Context) -> list[Setting]:
    """List what is set for the projects you may see."""
    known = [
        Setting(project=project, name=name, value=value)
        for (project, name), value in list_settings(context.store).items()
        if name in KNOWN  # What clew itself keeps there is nobody's to set.
    ]
    if not context.reach(Right.SEE):
        return known
    return [
        one for one in known if not one.project or context.caller.rule(Right.SEE, Target(project=one.project)).allowed
    ]
