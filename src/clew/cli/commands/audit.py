"""`clew audit`: checkpoints to keep elsewhere, proofs, the audit log, and verification without a store."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from clew.cli import witness
from clew.cli.exits import exit_code
from clew.cli.help import Summaries
from clew.cli.options import complete_id, json_option
from clew.cli.output import print_json
from clew.cli.progress import progress
from clew.model.errors import Conflict, InvalidInput
from clew.model.plain import plain

FORMS = ["bundle", "jsonl", "csv", "otel"]


def _option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*names, **{"default": "", **settings})


_after = _option("--after", metavar="NEXT", help="Continue from the `next` of the page before.")
_project = _option("--project", metavar="NAME", help="Only this project.")
_principal = _option("--principal", metavar="NAME", help="Only calls of this principal, such as ada or agent:fred.")
_operation = _option("--operation", metavar="NAME", help="Only this operation.")
_ruling = click.option("--ruling", type=click.Choice(["allowed", "refused"]), help="Only calls with this ruling.")
_since = _option("--since", metavar="TIME", help="From this time on, such as tuesday, 3d or 2026-10-05.")
_until = _option("--until", metavar="TIME", help="Up to the end of this time.")


@click.group("audit", cls=Summaries)
def command() -> None:
    """Show who called what, and prove that nobody changed the log since."""


@command.command()
@json_option
@click.pass_obj
def checkpoint(plane: Any, as_json: bool) -> None:
    """Make a signed checkpoint of the log, if the log has grown, and print it.

    Keep the output where a person who can change the log cannot change it.
    """
    result = plane.call("audit_checkpoint")
    if as_json:
        print_json(result)
        return
    click.echo(plain(result.note), nl=False)
    name = f"checkpoint {result.number} of {result.size:,} leaves"
    click.echo(f"{name}: keep it elsewhere" if result.made else f"nothing is new since {name}", err=True)


@command.command()
@click.option(
    "-n", "--limit", type=int, default=20, show_default=True, metavar="N", help="The most checkpoints to list."
)
@_after
@json_option
@click.pass_obj
def checkpoints(plane: Any, limit: int, after: str, as_json: bool) -> None:
    """List the checkpoints, newest first."""
    from clew.cli.results import audit

    page = plane.call("audit_checkpoints", limit=limit, after=after)
    if as_json:
        print_json(page)
    else:
        audit.print_checkpoints(page.checkpoints)
        _print_next(page.next)


@command.command()
@click.option("--new", is_flag=True, help="Make a new key for the same log; the old key stays beside it.")
@json_option
@click.pass_obj
def key(plane: Any, new: bool, as_json: bool) -> None:
    """Show the public key that checks the signatures of checkpoints. Write it down elsewhere."""
    result = plane.call("audit_new_key" if new else "audit_key")
    if as_json:
        print_json(result)
        return
    click.echo(plain(result.key))
    where = f"the private key is in {plain(result.file)}" if result.file else "the private key is not on this machine"
    click.echo(where, err=True)


@command.command()
@click.argument("session", metavar="ID", shell_complete=complete_id)
@click.option("--checkpoint", type=int, metavar="NUMBER", help="The checkpoint. [default: the newest]")
@click.option("--since", type=int, metavar="NUMBER", help="Also prove that this older checkpoint is its beginning.")
@json_option
@click.pass_obj
def proof(plane: Any, session: str, checkpoint: int | None, since: int | None, as_json: bool) -> None:
    """Prove that a checkpoint covers the head of a session, as a C2SP tlog-proof."""
    result = plane.call("audit_proof", session=session, checkpoint=checkpoint, since=since)
    if as_json:
        print_json(result)
        return
    from clew.cli.results import audit

    audit.print_proof(result)


@command.command("session")
@click.argument("session", metavar="ID", shell_complete=complete_id)
@json_option
@click.pass_obj
def one_session(plane: Any, session: str, as_json: bool) -> None:
    """Verify one session: its chain, and that the newest checkpoint agrees with it."""
    result = plane.call("audit_session", session=session)
    if as_json:
        print_json(result)
    else:
        from clew.cli.results import audit

        audit.print_audit_session(result)
    if result.problems:
        raise click.exceptions.Exit(exit_code("damaged"))


command.add_command(witness.command)


@command.command()
@_project
@_principal
@_operation
@_ruling
@_since
@_until
@click.option("-n", "--limit", type=int, default=50, show_default=True, metavar="N", help="The most entries to list.")
@_after
@json_option
@click.pass_obj
def log(plane: Any, /, as_json: bool, **filters: Any) -> None:
    """List the calls, newest first: who called what, on what, the ruling and why."""
    page = plane.call("audit_log", **filters)
    if as_json:
        print_json(page.entries)
    else:
        from clew.cli.results import audit

        audit.print_entries(page.entries)
    _print_next(page.next)


@command.command()
@click.option("--as", "form", type=click.Choice(FORMS), default="bundle", show_default=True,
              help="A bundle to verify elsewhere, or only the entries in this format.")  # fmt: skip
@click.option("--out", "-o", default="", metavar="FILE", help="The file to write. [default: standard output]")
@click.option("--with-content", is_flag=True, help="Include bodies in the bundle, not only their hashes.")
@_project
@_principal
@_operation
@_ruling
@_since
@_until
@json_option
@click.pass_obj
def export(plane: Any, /, out: str, as_json: bool, **filters: Any) -> None:
    """Export the log for an audit elsewhere: a bundle that proves all of it, or the entries of the audit log.

    A bundle holds the hashes of bodies, not the bodies, unless --with-content is given.
    """
    if not out:
        for text in _portions(plane, filters):
            sys.stdout.write(text)
        sys.stdout.flush()
        return
    size = _save(out, _portions(plane, filters))
    if as_json:
        print_json({"file": out, "bytes": size})
    else:
        click.echo(plain(out))


@command.command()
@click.option("--checkpoint", "paths", multiple=True, metavar="FILE", help="A checkpoint that you kept elsewhere.")
@click.option("--bundle", default="", metavar="FILE", help="Verify this bundle, without any store; - is stdin.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="A public key to trust, as `clew audit key` prints it. [default: of this home]",
)
@click.option("--witness", "witnesses", multiple=True, metavar="KEY",
              help="The public key of a witness that countersigned. [default: those of this home]")  # fmt: skip
@json_option
@click.pass_obj
def verify(
    plane: Any, paths: tuple[str, ...], bundle: str, keys: tuple[str, ...], witnesses: tuple[str, ...], as_json: bool
) -> None:
    """Verify every chain, leaf and checkpoint, of this log or of a bundle, and list the problems.

    Only a checkpoint that you kept elsewhere, or a witness, shows that the end of the log was cut off.
    """
    notes = [_read_checkpoint(path) for path in paths]
    with progress("verifying", shown=not as_json):
        if bundle:
            result = _verify_bundle(bundle, notes, keys, witnesses)
        else:
            result = plane.call("audit_verify", checkpoints=notes, keys=list(keys), witnesses=list(witnesses))
    if as_json:
        print_json(result)
    else:
        from clew.cli.results import audit

        audit.print_verified(result)
    if result.problems:
        raise click.exceptions.Exit(exit_code("damaged"))


def _print_next(cursor: str) -> None:
    if cursor:
        click.echo(f"the next page: --after {cursor}", err=True)


# Files ----------------------------------------------------------------------------------------------------------------


def _portions(plane: Any, filters: dict[str, Any]) -> Iterator[str]:
    after = ""
    while True:
        portion = plane.call("audit_export", after=after, **filters)
        yield portion.text
        if not portion.next:
            return
        after = portion.next


def _save(path: str, portions: Iterator[str]) -> int:
    """Write a new file and return its size. An existing file is not overwritten; an unfinished one is removed."""
    first = next(portions)  # Before the file is made: a refused export leaves no file.
    size = 0
    try:
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            try:
                size += file.write(first.encode())
                for text in portions:
                    size += file.write(text.encode())
            except BaseException:
                os.unlink(path)
                raise
    except FileExistsError:
        raise Conflict(f"{path} exists and was not changed; name another file with --out") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error
    return size


def _read_checkpoint(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read the checkpoint in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a valid checkpoint: it is not text") from error


def _verify_bundle(path: str, notes: list[str], keys: tuple[str, ...], witnesses: tuple[str, ...]) -> Any:
    from clew.model.checkpoint import COSIGNATURE, public_key
    from clew.service.audit import signing, verify_bundle

    signing.need_cryptography()
    trusted = [public_key(key) for key in keys]
    countersigners = [public_key(key, COSIGNATURE) for key in witnesses]
    if path == "-":
        return verify_bundle.examine(sys.stdin.buffer, trusted, notes, countersigners)
    try:
        file: BinaryIO
        with open(path, "rb") as file:
            return verify_bundle.examine(file, trusted, notes, countersigners)
    except OSError as error:
        raise InvalidInput(f"cannot read the bundle {path}: {error.strerror}") from error
