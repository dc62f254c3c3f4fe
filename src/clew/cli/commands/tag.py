"""`clew tag`: put tags on a session, or on those that filters select."""

import re
from typing import TYPE_CHECKING, Any

import click

from clew.cli import bulk, upkeep
from clew.cli.bulk import Words, filter_options
from clew.cli.options import SessionId, complete_id, json_option
from clew.cli.output import print_result
from clew.cli.plane import LazyPlane
from clew.model.errors import InvalidInput
from clew.model.ids import ALPHABET, LENGTH
from clew.model.labels import checked_tag

if TYPE_CHECKING:
    from clew.service.sessions.line import SessionLine

_ID = re.compile(f"[{ALPHABET}]{{{LENGTH}}}")
TAGS, UNTAGS = Words("tags", "tagging", "tagged"), Words("untags", "untagging", "untagged")


@click.command("tag")
@click.argument("words", nargs=-1, metavar="[ID] TAG...", shell_complete=complete_id)
@click.option("--remove", is_flag=True, help="Take the tags away.")
@json_option
@filter_options
@click.pass_obj
def command(
    plane: LazyPlane, words: tuple[str, ...], remove: bool, as_json: bool, everything: bool, dry_run: bool,
    filters: dict[str, Any],
) -> None:  # fmt: skip
    """Tag a session; lists and searches filter by tags. `clew tags` lists those in use.

    Without an ID: tag every session that the filters select.
    """
    several = bool(filters or everything)
    session, tags = (None, words) if several else (words[0] if words else None, words[1:])
    bulk.is_bulk(session, filters, everything=everything)
    if not tags:
        raise InvalidInput("no tag is named; give one or several, as in: clew tag ID work urgent")
    if session is not None:
        session = SessionId().convert(session, None, click.get_current_context())
        print_result(plane.call("tag", session=session, tags=list(tags), remove=remove), "tag", as_json=as_json)
        return
    names = [checked_tag(tag) for tag in tags]
    for name in names:
        if _ID.fullmatch(name):
            raise InvalidInput(f"{name} names one session and the filters select several; use one of them")

    def tag(line: "SessionLine") -> str:
        if all((name in line.tags) != remove for name in names):
            return "had them not" if remove else "had them before"
        plane.call("tag", session=line.id, tags=names, remove=remove)
        return ""

    upkeep.catch_up(plane)
    lines = bulk.selected(plane, filters)
    bulk.work_on_each(plane, lines, tag, UNTAGS if remove else TAGS, dry_run=dry_run, as_json=as_json)
