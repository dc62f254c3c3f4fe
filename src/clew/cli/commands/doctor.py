"""`clew doctor`: works when the store does not."""

import click

from clew.cli.options import json_option
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane


@click.command("doctor")
@json_option
@click.pass_obj
def command(plane: LazyPlane, as_json: bool) -> None:
    """Check versions, permissions, free disk, integrity, every digest chain and captures in the background."""
    from clew import doctor as examination
    from clew.cli import background

    found = [*examination.diagnose(plane.settings), *background.findings(plane.settings.home)]
    if as_json:
        print_json(found)
    else:
        from clew.cli.render import findings

        findings(found)
    if not all(one.ok for one in found):
        raise click.exceptions.Exit(1)
