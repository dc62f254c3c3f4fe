"""A bundle on the command line: sessions into one file, and back."""

import os
import shutil
import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from clew.cli import bulk, upkeep
from clew.cli.output import print_json
from clew.cli.progress import progress
from clew.cli.results.counts import count
from clew.cli.times import moment
from clew.model.errors import Conflict, InvalidInput
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.bundles.bundle import BundleImported, BundleWritten

WORDS = bulk.Words("exports", "exporting", "exported")
# The first bytes of every file that is packed with zstd, as bundles are.
MAGIC = b"\x28\xb5\x2f\xfd"


def is_bundle(path: str) -> bool:
    """Whether a file is a bundle; programs pack files of their own with zstd, too."""
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
    except OSError:
        return False
    from clew.service.bundles import container

    return container.is_bundle(path)


def export(
    plane: Any, session: str | None, out: str, filters: dict[str, Any], *, everything: bool, dry_run: bool,
    secrets: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write a bundle of one session, or of those that the filters select."""
    if bulk.is_bulk(session, filters, everything=everything):
        upkeep.catch_up(plane)
        lines = bulk.selected(plane, filters)
        if dry_run or not lines:
            bulk.work_on_each(plane, lines, lambda line: "", WORDS, dry_run=dry_run, as_json=as_json)
            return
        ids = [line.id for line in lines]
    elif dry_run:
        raise InvalidInput("--dry-run is for several sessions; the export of one changes nothing without --out")
    else:
        ids = [str(session)]
    if out:
        _print_written(_write(plane, ids, _path(out, ids), secrets=secrets, as_json=as_json), as_json=as_json)
        return
    if as_json or sys.stdout.isatty():
        raise InvalidInput("a bundle is no text; name a file for it with --out")
    with TemporaryDirectory(prefix="clew-export-") as folder:
        written = _write(plane, ids, os.path.join(folder, "bundle"), secrets=secrets, as_json=False)
        with open(written.file, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _path(out: str, ids: list[str]) -> str:
    from clew.service.bundles.values import SUFFIX

    if os.path.isdir(out) or out.endswith("/"):
        return os.path.join(out, (ids[0] if len(ids) == 1 else "sessions") + SUFFIX)
    return os.path.abspath(out)


def _receive(plane: Any, ids: list[str], path: str) -> "BundleWritten":
    """A bundle of a session that is on a server."""
    from clew.service.bundles.bundle import written_bundle

    if len(ids) > 1:
        raise InvalidInput("a server gives a bundle of one session; make a larger one where its store is")
    return written_bundle(path, plane.client.read_bundle(ids[0]))


def _write(plane: Any, ids: list[str], path: str, *, secrets: bool, as_json: bool) -> "BundleWritten":
    from clew.app import is_remote

    with progress("exporting", shown=not as_json) as on_progress:
        if is_remote(plane.settings.store):
            if secrets:
                raise InvalidInput("secrets do not leave a server; make this bundle where its store is")
            return _receive(plane, ids, path)
        try:
            written: BundleWritten = plane.call_reporting(
                on_progress, "bundle_write", sessions=ids, file=path, secrets=secrets
            )
        except Conflict as error:
            if not error.details.get("secrets"):
                raise
            raise Conflict(f"{error} (--with-secrets takes them along)", **error.details) from error
    return written


def _print_written(written: "BundleWritten", *, as_json: bool) -> None:
    if as_json:
        print_json(written)
        return
    click.echo(written.file)
    if not written.sessions:
        return  # A server does not say what is in it.
    parts = [count(written.sessions, "session"), count(written.events, "event"), count(written.objects, "object")]
    parts += [count(written.files, "native file")] if written.files else []
    proved = f"; a signed checkpoint proves {count(written.proved, 'session')}" if written.proved else ""
    click.echo(f"{', '.join(parts)}{proved}", err=True)


def import_(plane: Any, path: str, keys: list[str], *, dry_run: bool, as_json: bool) -> None:
    """Verify a bundle and restore what is in it."""
    with progress("importing", shown=not as_json) as on_progress:
        done: BundleImported = plane.call_reporting(
            on_progress, "bundle_import", file=os.path.abspath(path), keys=keys or None, dry_run=dry_run
        )
    if as_json:
        print_json(done)
        return
    parts = [count(done.sessions, "session"), count(done.events, "event"), count(done.objects, "object")]
    parts += [count(done.files, "native file")] if done.files else []
    click.echo(f"{', '.join(parts)}; written by {plain(done.store)} at {moment(done.made_at)}")
    for key in done.signers:
        who = "a key that you gave" if keys else "nobody here has said whose key this is"
        click.echo(f"{count(done.proved, 'session')} signed by {plain(key)} ({who})")
    if dry_run:
        click.echo("all of it holds; nothing was changed", err=True)
    elif done.new_sessions or done.new_events or done.new_files:
        click.echo(f"new here: {count(done.new_sessions, 'session')}, {count(done.new_events, 'event')}", err=True)
    else:
        click.echo("all of it was here before; nothing was changed", err=True)
