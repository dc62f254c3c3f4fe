"""`clew export`: a session as files."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from clew.cli.fidelity import counted, print_fidelity
from clew.cli.options import json_option, session_argument
from clew.cli.output import print_json
from clew.model.errors import Conflict, InvalidInput

FORMS = ["native", "jsonl", "markdown", "html", "atif", "copilot"]


@click.command("export")
@session_argument
@click.option("--as", "form", type=click.Choice(FORMS), default="markdown", show_default=True, help="The form.")
@click.option("--out", "-o", default="", metavar="PATH", help="A file, or a folder for it. [default: stdout]")
@click.option("--upto", type=int, metavar="SEQ", help="Only up to this event.")
@click.option("--with-secrets", "secrets", is_flag=True, help="The exact bytes, with the secrets in them.")
@click.option("--strict", is_flag=True, help="Refuse if anything would be dropped.")
@json_option
@click.pass_obj
def command(
    plane: Any, session: str, form: str, out: str, upto: int | None, secrets: bool, strict: bool, as_json: bool
) -> None:  # fmt: skip
    """Export a session: its native files, or its conversation in a form others read. Secrets are masked."""
    files = plane.call("export", session=session, form=form, upto=upto, secrets=secrets, strict=strict)
    if not out and len(files) > 1:
        raise InvalidInput(f"the session has {len(files)} native files; name a folder with --out")
    written = [_save(out, file.name, file.data, several=len(files) > 1) if out else None for file in files]
    if as_json:
        print_json([_exported(path, file) for path, file in zip(written, files, strict=True)])
        return
    for path, file in zip(written, files, strict=True):
        if path:
            click.echo(path)
        else:
            sys.stdout.buffer.write(file.data)
            sys.stdout.buffer.flush()
        if form != "native":
            print_fidelity(file.fidelity)
    _print_masked(files)


def _print_masked(files: list[Any]) -> None:
    """How many secrets were masked, to a person."""
    rules = Counter[str]()
    for file in files:
        rules.update(file.masked)
    if rules:
        kinds = ", ".join(f"{times:,} {rule}" for rule, times in rules.most_common())
        click.echo(f"masked: {counted(rules.total(), 'secrets')} ({kinds}); --with-secrets keeps them", err=True)


def _exported(path: str | None, file: Any) -> dict[str, Any]:
    """An exported file as one object, with its text where it went to no file."""
    told = {"file": path, "bytes": len(file.data), "masked": file.masked, "fidelity": file.fidelity}
    if path:
        return told
    try:
        return {**told, "text": file.data.decode()}
    except UnicodeDecodeError:
        raise InvalidInput(f"{file.name} is no text, so it cannot be told as JSON; name a file with --out") from None


def _save(out: str, name: str, data: bytes, *, several: bool) -> str:
    """Write an exported file, never over another."""
    place = Path(out)
    if several or place.is_dir() or out.endswith("/"):
        place.mkdir(parents=True, exist_ok=True)
        place = place / Path(name).name
    try:
        with open(place, "xb") as file:
            file.write(data)
    except FileExistsError:
        raise Conflict(f"{place} is there already and was left alone; name another with --out") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {place}: {error.strerror}") from error
    return str(place)
