"""`clew commit`: which sessions led to a commit of git, and which commits came out of sessions."""

import os
from typing import Any

import click

from clew.cli.options import complete_id, json_option
from clew.cli.output import print_result


@click.command("commit")
@click.argument("sha", metavar="[SHA]", default="")
@click.option("--session", default="", metavar="ID", shell_complete=complete_id, help="Only what came out of this one.")
@click.option("--project", default="", metavar="NAME", help="Only this project.")
@click.option("--limit", type=int, default=50, metavar="N", help="How many at the most. [default: 50]")
@json_option
@click.pass_obj
def command(plane: Any, /, sha: str, as_json: bool, **values: Any) -> None:
    """Tell which sessions led to a commit, by which event; without a commit: which came out of sessions.

    `call` is a commit that a call of the session made. `head` was made in the session's folder during a turn. `files`
    is weak: the session wrote files of the commit in the weeks before it. SHA is a beginning of its name, or in a
    repository whatever git takes for a commit, such as HEAD.
    """
    from clew import app

    given = {name: value for name, value in values.items() if value}
    if sha and not app.is_remote(plane.settings.store):
        given["folder"] = os.getcwd()
    print_result(plane.call("commit", sha=sha, **given), "commit", as_json=as_json)
