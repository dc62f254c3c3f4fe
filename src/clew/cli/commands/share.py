"""`clew share`: give somebody rights on a session, or on those that filters select."""

from typing import TYPE_CHECKING, Any

import click

from clew.cli import bulk, upkeep
from clew.cli.bulk import Words, filter_options
from clew.cli.confirming import yes_option
from clew.cli.options import SessionId, complete_id, json_option
from clew.cli.output import print_result
from clew.cli.parameters import parameter_of
from clew.cli.plane import LazyPlane
from clew.model.errors import InvalidInput
from clew.service.kernel.registry import operation_named

if TYPE_CHECKING:
    from clew.service.sessions.line import SessionLine

WORDS = Words("shares", "sharing", "shared")


@click.command("share")
@click.argument("words", nargs=-1, metavar="[ID] WHO", shell_complete=complete_id)
@yes_option
@json_option
@filter_options
@click.pass_obj
def command(
    plane: LazyPlane, /, words: tuple[str, ...], yes: bool, as_json: bool, everything: bool, dry_run: bool,
    filters: dict[str, Any], **given: Any,
) -> None:  # fmt: skip
    """Share a session with a person, an agent or a team.

    Without an ID: share every session that the filters select.
    """
    *ids, who = words or ("",)
    several = bool(filters or everything)
    if not who or len(ids) != (not several):
        raise InvalidInput("expected a session and who to share it with, or filters and who: clew share --tag x ada")
    how = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value}
    if not bulk.is_bulk(ids[0] if ids else None, filters, everything=everything):
        session = SessionId().convert(ids[0], None, click.get_current_context())
        print_result(plane.call("share", session=session, who=who, **how), "share", as_json=as_json)
        return

    def share(line: "SessionLine") -> str:
        plane.call("share", session=line.id, who=who, **how)
        return ""

    upkeep.catch_up(plane)
    lines = bulk.selected(plane, filters)
    bulk.work_on_each(plane, lines, share, WORDS, dry_run=dry_run, as_json=as_json, asks=True, yes=yes)


# How it is shared is said as the operation says it.
command.params[1:1] = [
    parameter_of(parameter) for parameter in operation_named("share").parameters if parameter.by_name
]
