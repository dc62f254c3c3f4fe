"""`clew undo`: take back the last resume."""

from typing import Any

import click

from clew.cli.options import SessionId, complete_id, json_option
from clew.cli.output import print_json
from clew.model.errors import NotFound
from clew.model.plain import plain

# A resume older than these sessions is named by its id.
LOOKED_AT = 500


@click.command("undo")
@click.argument("session", metavar="[ID]", required=False, type=SessionId(), shell_complete=complete_id)
@json_option
@click.pass_obj
def command(plane: Any, session: str | None, as_json: bool) -> None:
    """Take back the last resume: its fork and the file that it wrote.

    With an ID, take back the resume that opened this session. Refused when something was said in it since.
    """
    done = plane.call("take_back", session=session or _last_resume(plane))
    if as_json:
        print_json(done)
        return
    for path in done.files:
        click.echo(f"removed: {plain(path)}", err=True)
    click.echo(f"{done.session} is taken back")


def _last_resume(plane: Any) -> str:
    from clew.service.handover.resumed import mark_of

    machine = plane.client.context.machine
    lines = plane.call("sessions", limit=LOOKED_AT)
    resumed = [line for line in lines if (mark := mark_of(line.metadata)).resumed and mark.machine == machine]
    if not resumed:
        raise NotFound("there is no resume to take back", session="undo")
    return str(max(resumed, key=lambda line: line.opened_at).id)
