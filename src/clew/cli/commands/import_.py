"""`clew import`: session files named by a person."""

from typing import Any

import click

from clew.cli import bundles, capturing
from clew.cli.options import complete_runtime, json_option
from clew.cli.output import print_json
from clew.cli.results.counts import count
from clew.model.errors import InvalidInput
from clew.model.plain import plain


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--runtime",
    default="",
    metavar="RUNTIME",
    help="The program that wrote the files.",
    shell_complete=complete_runtime,
)
@click.option(
    "--key", "keys", multiple=True, metavar="KEY", help="Of a bundle: a public key that has to have signed it."
)
@click.option("--dry-run", is_flag=True, help="Show which files would be imported and change nothing.")
@json_option
@click.pass_obj
def command(
    plane: Any, paths: tuple[str, ...], runtime: str, keys: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Import session files of any agent program, ATIF, Copilot's interchange, clew's own JSON lines, or bundles.

    A bundle (clew export --as bundle) is verified first; one that is not whole changes nothing.
    """
    files = [path for path in paths if bundles.is_bundle(path)]
    if files or keys:
        if runtime or len(files) < len(paths):
            raise InvalidInput("bundles are imported by themselves, without --runtime; name the other files alone")
        for path in files:
            bundles.import_(plane, path, list(keys), dry_run=dry_run, as_json=as_json)
        return
    if not dry_run:
        capturing.capture(plane, list(paths), runtime, "", as_json=as_json)
        return
    finds = plane.call("capture_find", runtime=runtime, paths=list(paths))
    if as_json:
        print_json([{"runtime": file.runtime, "path": file.path, "bytes": file.size} for file in finds.changed])
        return
    for file in finds.changed:
        click.echo(f"{file.runtime}  {plain(file.path)}")
    unchanged = f", {len(finds.unchanged):,} were before" if finds.unchanged else ""
    click.echo(f"{count(len(finds.changed), 'file')} would be read{unchanged}; nothing was changed", err=True)
