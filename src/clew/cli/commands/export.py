"""`clew export`: a session as files."""

import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from clew.cli.fidelity import counted, print_fidelity
from clew.cli.options import json_option, session_argument
from clew.cli.output import print_json
from clew.cli.progress import progress
from clew.model.errors import Conflict, InvalidInput
from clew.store.durable_folders import create_private, make_private

if TYPE_CHECKING:
    from clew.service.handover.export import ExportedFile

FORMS = ["native", "jsonl", "markdown", "html", "atif", "copilot"]


@click.command("export")
@session_argument
@click.option("--as", "form", type=click.Choice(FORMS), default="markdown", show_default=True, help="The format.")
@click.option("--out", "-o", default="", metavar="PATH", help="A file, or a folder for it. [default: stdout]")
@click.option("--upto", type=int, metavar="SEQ", help="Only up to this event.")
@click.option("--with-secrets", "secrets", is_flag=True, help="Do not mask secrets: export the exact bytes.")
@click.option("--strict", is_flag=True, help="Refuse the export if the format would drop anything.")
@json_option
@click.pass_obj
def command(
    plane: Any, session: str, form: str, out: str, upto: int | None, secrets: bool, strict: bool, as_json: bool
) -> None:  # fmt: skip
    """Export a session as its native files or in another format. Secrets are masked."""
    wanted = {"session": session, "form": form, "upto": upto, "secrets": secrets, "strict": strict}
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


def _save(written: Path, out: str, name: str, *, several: bool) -> str:
    """Put an exported file in its place, never over another."""
    path = Path(out)
    try:
        if several or path.is_dir() or out.endswith("/"):
            make_private(path)
            path = path / Path(name).name
        _move(written, path)
    except FileExistsError:
        raise Conflict(f"{path} exists and was not changed; name another file with --out") from None
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
        click.echo(f"masked: {counted(rules.total(), 'secrets')} ({kinds}); --with-secrets keeps them", err=True)
