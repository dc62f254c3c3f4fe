"""`clew export`: a session as files, or those that filters select."""

import os
import re
import shutil
import sys
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from clew.cli import bulk, bundles, upkeep
from clew.cli.bulk import Words, filter_options
from clew.cli.fidelity import print_fidelity
from clew.cli.options import json_option, optional_session_argument
from clew.cli.output import print_json
from clew.cli.progress import progress
from clew.model.errors import Conflict, InvalidInput
from clew.runtimes.fit import in_words
from clew.store.durable_folders import create_private, make_private

if TYPE_CHECKING:
    from clew.service.handover.export import ExportedFile
    from clew.service.sessions.line import SessionLine

WORDS = Words("exports", "exporting", "exported")
BUNDLE = "bundle"
FORMS = ["native", "jsonl", "markdown", "html", "atif", "copilot", BUNDLE]


@click.command("export")
@optional_session_argument
@click.option("--as", "form", type=click.Choice(FORMS), default="markdown", show_default=True, help="The format.")
@click.option("--out", "-o", default="", metavar="PATH", help="A file, or a folder for it. [default: stdout]")
@click.option("--to", "into", default="", metavar="DIR", help="With filters: the folder for the files.")
@click.option("--overwrite", is_flag=True, help="With filters: replace files that have another content.")
@click.option("--upto", type=int, metavar="SEQ", help="Only up to this event.")
@click.option("--with-secrets", "secrets", is_flag=True, help="Do not mask secrets: export the exact bytes.")
@click.option("--strict", is_flag=True, help="Refuse the export if the format would drop anything.")
@json_option
@filter_options
@click.pass_obj
def command(
    plane: Any, session: str | None, form: str, out: str, into: str, overwrite: bool, upto: int | None, secrets: bool,
    strict: bool, as_json: bool, everything: bool, dry_run: bool, filters: dict[str, Any],
) -> None:  # fmt: skip
    """Export a session as its native files or in another format. Secrets are masked.

    Without an ID: export every session that the filters select into the folder --to, or as one bundle. A bundle has
    everything of its sessions, for `clew import` on another machine.
    """
    if form == BUNDLE:
        if into or overwrite or upto is not None or strict:
            raise InvalidInput("a bundle is one file with whole sessions; --out names it")
        bundles.export(plane, session, out, filters, everything=everything, dry_run=dry_run, secrets=secrets,
                       as_json=as_json)  # fmt: skip
        return
    wanted: dict[str, Any] = {"form": form, "upto": upto, "secrets": secrets, "strict": strict}
    if bulk.is_bulk(session, filters, everything=everything):
        if out or upto is not None:
            raise InvalidInput("--out and --upto are for one session; --to names the folder for several")
        if not into and not dry_run:
            raise InvalidInput("several sessions need a folder; name it with --to DIR")
        _export_selected(plane, filters, wanted, Path(into), overwrite=overwrite, dry_run=dry_run, as_json=as_json)
        return
    if into or overwrite:
        raise InvalidInput("--to and --overwrite are for several sessions; --out names the file of one")
    if dry_run:
        raise InvalidInput("--dry-run is for several sessions; the export of one changes nothing without --out")
    _export(plane, {**wanted, "session": session}, out, form, as_json=as_json)


def _export(plane: Any, wanted: dict[str, Any], out: str, form: str, *, as_json: bool) -> None:
    with _temporary_folder(out) as folder:
        with progress("exporting", shown=not as_json):
            files = _files(plane, wanted, folder)
        if not out and len(files) > 1:
            raise InvalidInput(f"the session has {len(files)} native files; name a folder with --out")
        several = len(files) > 1
        paths = [_save(Path(file.file), out, file.name, several=several) if out else None for file in files]
        if as_json:
            print_json([_as_json(path, file) for path, file in zip(paths, files, strict=True)])
            return
        for path, file in zip(paths, files, strict=True):
            if path:
                click.echo(path)
            else:
                _print_file(file.file)
            if form != "native":
                print_fidelity(file.fidelity)
    _print_masked(files)


def _export_selected(
    plane: Any, filters: dict[str, Any], wanted: dict[str, Any], into: Path, *, overwrite: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    def export(line: "SessionLine") -> str:
        with _temporary_folder(f"{into}/") as folder:
            files = _files(plane, {**wanted, "session": line.id}, folder)
            has_new = False
            for file in files:
                path = _place_of(into, line, file, native=wanted["form"] == "native")
                if _is_same(Path(file.file), path):
                    continue
                has_new = True
                if overwrite:
                    path.unlink(missing_ok=True)
                _save(Path(file.file), f"{path.parent}/", path.name, several=True, instead="--overwrite replaces it")
        return "" if has_new else "exported before" if files else "without a native file"

    upkeep.catch_up(plane)
    lines = bulk.selected(plane, filters)
    bulk.work_on_each(plane, lines, export, WORDS, dry_run=dry_run, as_json=as_json)


def _place_of(into: Path, line: "SessionLine", file: "ExportedFile", *, native: bool) -> Path:
    """Where a file of a session goes. A native file keeps its name, because some programs name the session by it."""
    name = Path(file.name).name
    return into / line.id / name if native else into / name


def _is_same(written: Path, path: Path) -> bool:
    """Whether a file has this content already; when it was exported does not count."""
    if not path.is_file():
        return False
    with open(written, "rb") as new, open(path, "rb") as old:
        return all(
            left == right or _EXPORTED_AT.sub(b"", left) == _EXPORTED_AT.sub(b"", right)
            for left, right in zip_longest(new, old, fillvalue=b"")
        )


# As Markdown and HTML say it.
_EXPORTED_AT = re.compile(rb"Exported[^0-9\n]{1,20}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")


def _print_file(path: str) -> None:
    with open(path, "rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _files(plane: Any, wanted: dict[str, Any], folder: str) -> "list[ExportedFile]":
    """The exported files in a folder; a server sends them as values."""
    from clew.app import is_remote
    from clew.service.handover.export import ExportedFile

    if not is_remote(plane.settings.store):
        written: list[ExportedFile] = plane.call("export_files", folder=folder, **wanted)
        return written
    files = []
    for number, file in enumerate(plane.call("export", **wanted)):
        path = Path(folder, str(number))
        path.write_bytes(file.data)
        files.append(
            ExportedFile(
                name=file.name, file=str(path), bytes=len(file.data), path=file.path, masked=file.masked,
                fidelity=file.fidelity,
            )
        )  # fmt: skip
    return files


def _temporary_folder(out: str) -> "TemporaryDirectory[str]":
    """A folder on the file system of the destination; where temporary files go without one."""
    if not out:
        return TemporaryDirectory(prefix="clew-export-")
    path = Path(out).absolute()
    wanted = path if path.is_dir() or out.endswith("/") else path.parent
    parent = next(folder for folder in (wanted, *wanted.parents) if folder.is_dir())
    try:
        return TemporaryDirectory(prefix=".clew-export-", dir=parent)
    except OSError as error:
        raise InvalidInput(f"cannot write {out}: {error.strerror}") from error


def _save(
    written: Path, out: str, name: str, *, several: bool, instead: str = "name another file with --out"
) -> str:  # fmt: skip
    """Put an exported file in its place, never over another."""
    path = Path(out)
    try:
        if several or path.is_dir() or out.endswith("/"):
            make_private(path)
            path = path / Path(name).name
        _move(written, path)
    except FileExistsError:
        raise Conflict(f"{path} exists and was not changed; {instead}") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error
    return str(path)


def _move(written: Path, path: Path) -> None:
    """Give a file its name, unless the name is taken. A transcript is for its user alone, until the user shares it."""
    with open(path, "xb", opener=create_private):
        try:
            os.chmod(written, 0o600)
            os.replace(written, path)
        except BaseException:
            path.unlink()
            raise


def _as_json(path: str | None, file: "ExportedFile") -> dict[str, Any]:
    """An exported file as one object, with its text if it was not written to a file."""
    about = {"file": path, "bytes": file.bytes, "masked": file.masked, "fidelity": file.fidelity}
    if path:
        return about
    try:
        return {**about, "text": Path(file.file).read_bytes().decode()}
    except UnicodeDecodeError:
        raise InvalidInput(f"{file.name} is not text, so it cannot be shown as JSON; name a file with --out") from None


def _print_masked(files: "list[ExportedFile]") -> None:
    """Print how many secrets were masked."""
    rules = Counter[str]()
    for file in files:
        rules.update(file.masked)
    if rules:
        kinds = ", ".join(f"{times:,} {rule}" for rule, times in rules.most_common())
        click.echo(f"masked: {in_words(rules.total(), 'secrets')} ({kinds}); --with-secrets keeps them", err=True)
