"""`clew doctor`: checks an installation. It works even if the store cannot be opened."""

import click

from clew.cli.options import json_option
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane
from clew.cli.progress import progress


@click.command("doctor")
@json_option
@click.pass_obj
def command(plane: LazyPlane, as_json: bool) -> None:
    """Check versions, permissions, free disk space, integrity, every digest chain and background captures."""
    from clew import doctor as examination
    from clew.cli import background_findings

    with progress("checking", shown=not as_json):
        findings = [*examination.diagnose(plane.settings), *background_findings.findings(plane.settings.home)]
    if as_json:
        print_json(findings)
    else:
        from clew.cli.results.maintenance import print_findings

        print_findings(findings)
    if not all(finding.ok for finding in findings):
        raise click.exceptions.Exit(1)
