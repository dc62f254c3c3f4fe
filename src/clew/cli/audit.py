"""Audit on the command line: checkpoints to keep elsewhere, proofs, the audit log, and verification without a store."""

import os
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from clew.cli.exits import exit_code
from clew.cli.options import complete_id, json_option
from clew.cli.output import one_line, print_json, table
from clew.model.errors import Conflict, InvalidInput
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.audit.checkpoints import CheckpointInfo
    from clew.service.audit.entries import Entry
    from clew.service.audit.examination import Audited
    from clew.service.audit.proof import SessionProof

FORMS = ["bundle", "jsonl", "csv", "otel"]
# Problems that are shown to a person; more than these are one and the same, most likely. --json has all.
MOST_SHOWN = 50


def audit_group() -> click.Group:
    """The group with all of them."""

    @click.group()
    def audit() -> None:
        """What was asked for and by whom, and proof that nothing was changed since."""

    @audit.command()
    @json_option
    @click.pass_obj
    def checkpoint(plane: Any, as_json: bool) -> None:
        """Make a signed checkpoint of the log, if anything is new, and print it.

        Keep what it prints where nobody can change it together with the log.
        """
        found = plane.call("audit_checkpoint")
        if as_json:
            print_json(found)
            return
        click.echo(plain(found.note), nl=False)
        told = f"checkpoint {found.number} of {found.size:,} leaves"
        click.echo(f"{told}: keep it elsewhere" if found.made else f"nothing is new since {told}", err=True)

    @audit.command()
    @click.option("--limit", type=int, default=20, show_default=True, metavar="N", help="How many at the most.")
    @click.option("--after", default="", metavar="NEXT", help="Go on from the `next` of the page before.")
    @json_option
    @click.pass_obj
    def checkpoints(plane: Any, limit: int, after: str, as_json: bool) -> None:
        """List the checkpoints, newest first."""
        found = plane.call("audit_checkpoints", limit=limit, after=after)
        if as_json:
            print_json(found)
        else:
            _checkpoints(found.checkpoints)
            _more(found.next)

    @audit.command()
    @click.option("--new", is_flag=True, help="Begin a new key of the same log; the old one stays beside it.")
    @json_option
    @click.pass_obj
    def key(plane: Any, new: bool, as_json: bool) -> None:
        """Show the public key that checks the signatures of checkpoints: write it down elsewhere."""
        found = plane.call("audit_new_key" if new else "audit_key")
        if as_json:
            print_json(found)
        else:
            click.echo(plain(found.key))
            click.echo(f"the private half is in {plain(found.file)}" if found.file else "its private half is not here",
                       err=True)  # fmt: skip

    @audit.command()
    @click.argument("session", metavar="ID", shell_complete=complete_id)
    @click.option("--checkpoint", type=int, metavar="NUMBER", help="In this checkpoint. [default: the newest]")
    @click.option("--since", type=int, metavar="NUMBER", help="And that this older one is its beginning.")
    @json_option
    @click.pass_obj
    def proof(plane: Any, session: str, checkpoint: int | None, since: int | None, as_json: bool) -> None:
        """Prove that a checkpoint holds where a session stood, as a C2SP tlog-proof."""
        found = plane.call("audit_proof", session=session, checkpoint=checkpoint, since=since)
        if as_json:
            print_json(found)
        else:
            _proof(found)

    @audit.command()
    @click.option("--project", default="", metavar="NAME", help="Only this project.")
    @click.option("--principal", default="", metavar="NAME", help="Only what this one asked for: ada, or agent:fred.")
    @click.option("--operation", default="", metavar="NAME", help="Only this operation.")
    @click.option("--ruling", type=click.Choice(["allowed", "refused"]), help="Only with this ruling.")
    @click.option("--since", default="", metavar="TIME", help="From then on: tuesday, 3d, 2026-10-05 ...")
    @click.option("--until", default="", metavar="TIME", help="Up to then, and all of it.")
    @click.option("--limit", type=int, default=50, show_default=True, metavar="N", help="How many at the most.")
    @click.option("--after", default="", metavar="NEXT", help="Go on from the `next` of the page before.")
    @json_option
    @click.pass_obj
    def log(plane: Any, /, as_json: bool, **filters: Any) -> None:
        """List what was asked for, newest first: who, what, on what, the ruling and why."""
        found = plane.call("audit_log", **filters)
        if as_json:
            print_json(found.entries)
        else:
            _entries(found.entries)
        _more(found.next)

    @audit.command()
    @click.option("--as", "form", type=click.Choice(FORMS), default="bundle", show_default=True,
                  help="A bundle to verify elsewhere, or the entries alone.")  # fmt: skip
    @click.option("--out", "-o", default="", metavar="FILE", help="Where to. [default: standard output]")
    @click.option("--with-content", is_flag=True, help="Bodies in the bundle, not only their hashes.")
    @click.option("--project", default="", metavar="NAME", help="Only this project's entries.")
    @click.option("--principal", default="", metavar="NAME", help="Only what this one asked for.")
    @click.option("--operation", default="", metavar="NAME", help="Only this operation.")
    @click.option("--ruling", type=click.Choice(["allowed", "refused"]), help="Only with this ruling.")
    @click.option("--since", default="", metavar="TIME", help="From then on.")
    @click.option("--until", default="", metavar="TIME", help="Up to then, and all of it.")
    @json_option
    @click.pass_obj
    def export(plane: Any, /, out: str, as_json: bool, **wanted: Any) -> None:
        """Export the log for an audit elsewhere: a bundle that proves all of it, or the audit log's entries.

        A bundle holds the hashes of bodies, not the bodies, unless --with-content is given.
        """
        if not out:
            for text in _portions(plane, wanted):
                sys.stdout.write(text)
            sys.stdout.flush()
            return
        size = _save(out, _portions(plane, wanted))
        if as_json:
            print_json({"file": out, "bytes": size})
        else:
            click.echo(plain(out))

    @audit.command()
    @click.option("--checkpoint", "kept", multiple=True, metavar="FILE", help="A checkpoint that was kept elsewhere.")
    @click.option("--bundle", default="", metavar="FILE", help="Verify this bundle, without any store; - is stdin.")
    @click.option("--key", "keys", multiple=True, metavar="KEY", help="A public key to trust. [default: this home's]")
    @json_option
    @click.pass_obj
    def verify(plane: Any, kept: tuple[str, ...], bundle: str, keys: tuple[str, ...], as_json: bool) -> None:
        """Check every chain, every leaf and every checkpoint, of this log or of a bundle, and say what does not hold.

        That the end was cut off shows only against a checkpoint that was kept elsewhere.
        """
        notes = [_text(path) for path in kept]
        if bundle:
            found = _verify_bundle(bundle, notes, keys)
        else:
            found = plane.call("audit_verify", checkpoints=notes, keys=list(keys))
        if as_json:
            print_json(found)
        else:
            _audited(found)
        if found.problems:
            raise click.exceptions.Exit(exit_code("damaged"))

    return audit


# Files ----------------------------------------------------------------------------------------------------------------


def _portions(plane: Any, wanted: dict[str, Any]) -> Iterator[str]:
    after = ""
    while True:
        found = plane.call("audit_export", after=after, **wanted)
        yield found.text
        if not found.next:
            return
        after = found.next


def _save(out: str, portions: Iterator[str]) -> int:
    """Write a file of its own, never over another; one that is not finished does not stay."""
    first = next(portions)  # What is refused leaves no file.
    size = 0
    try:
        with open(out, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            try:
                size += file.write(first.encode())
                for text in portions:
                    size += file.write(text.encode())
            except BaseException:
                os.unlink(out)
                raise
    except FileExistsError:
        raise Conflict(f"{out} is there already and was left alone; name another with --out") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {out}: {error.strerror}") from error
    return size


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read the checkpoint in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is no checkpoint: it is not even text") from error


def _verify_bundle(path: str, notes: list[str], keys: tuple[str, ...]) -> Any:
    from clew.model.checkpoint import public_key
    from clew.service.audit import signing, verify_bundle

    signing.need_cryptography()
    trusted = [public_key(key) for key in keys]
    if path == "-":
        return verify_bundle.examine(sys.stdin.buffer, trusted, notes)
    try:
        file: BinaryIO
        with open(path, "rb") as file:
            return verify_bundle.examine(file, trusted, notes)
    except OSError as error:
        raise InvalidInput(f"cannot read the bundle {path}: {error.strerror}") from error


# For people -----------------------------------------------------------------------------------------------------------


def _checkpoints(found: "list[CheckpointInfo]") -> None:
    from clew.cli.times import moment

    if not found:
        click.echo("no checkpoints yet; make one with: clew audit checkpoint", err=True)
        return
    rows = ((str(one.number), moment(one.at), f"{one.size:,}", one.note.split("\n")[2]) for one in found)
    table(("number", "made", "leaves", "root"), rows)


def _proof(found: "SessionProof") -> None:
    # The leaf itself goes along, so that the file alone is enough.
    leaf = b64encode(found.statement.encode()).decode()
    lines = ["c2sp.org/tlog-proof@v1", f"extra {leaf}", f"index {found.index}", *found.hashes, "", found.checkpoint]
    click.echo("\n".join(lines), nl=False)
    click.echo(f"the leaf (extra) is: {plain(found.statement)}", err=True)
    click.echo(f"session {found.session} stood at event {found.seq} with digest {found.digest}", err=True)
    if found.since:
        click.echo("\nthe older checkpoint, and the proof that the newer begins with it:", err=True)
        click.echo(plain(found.since) + "\n".join(found.consistency), err=True)


def _entries(found: "list[Entry]") -> None:
    from clew.cli.times import moment

    if not found:
        click.echo("nothing of that was asked for", err=True)
        return
    rows = (
        (
            moment(one.at), one.principal, one.operation, one_line(one.target or one.project, 40),
            "allowed" if one.allowed else "refused", _why(one),
        )
        for one in found
    )  # fmt: skip
    table(("when", "who", "what", "on what", "ruling", "why"), rows, wrapped="why")


def _why(one: "Entry") -> str:
    arguments = bytes(one.arguments).decode()
    return one_line(one.because + (f" {arguments}" if arguments != "{}" else ""), 400)


def _more(following: str) -> None:
    if following:
        click.echo(f"the next page: --after {following}", err=True)


def _audited(found: "Audited") -> None:
    from clew.cli.render import count

    if found.problems:
        shown = found.problems[:MOST_SHOWN]
        table(("where", "problem"), ((one.where, one.what) for one in shown), wrapped="problem")
        if len(found.problems) > len(shown):
            click.echo(f"... and {len(found.problems) - len(shown):,} more; --json prints all", err=True)
    click.echo(
        f"{count(found.sessions, 'log')} (control logs included), {count(found.events, 'event')}"
        + (f", {found.removed:,} without a body, on record" if found.removed else "")
        + f"; {count(found.checkpoints, 'checkpoint')}, {found.leaves:,} {'leaf' if found.leaves == 1 else 'leaves'}"
        + (f", {found.kept} kept elsewhere" if found.kept else "")
        + (f": {count(len(found.problems), 'problem')}" if found.problems else ": everything holds")
    )
    if found.beyond and found.checkpoints:
        click.echo(f"{count(found.beyond, 'event')} after the newest checkpoint, covered by the chains alone")
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
