"""`clew object`: put a file into a session, open one, and list which there are."""

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from clew.cli.help import Summaries
from clew.cli.options import json_option, session_argument
from clew.cli.output import print_result
from clew.cli.progress import OnProgress, progress
from clew.cli.run import command as operation_command
from clew.model.errors import Conflict, InvalidInput
from clew.model.plain import plain
from clew.service.kernel.registry import operation_named
from clew.store.durable_folders import create_private

if TYPE_CHECKING:
    from clew.service.sessions.objects import OpenedObject

PIECE_BYTES = 1024 * 1024


@click.group("object", cls=Summaries)
def command() -> None:
    """Put files of any size into a session, and read them, images and artifacts."""


@command.command("put")
@session_argument
@click.argument("file", metavar="FILE")
@click.option("--name", default="", metavar="NAME", help="What to call it. [default: the name of the file]")
@click.option("--type", "media_type", default="", metavar="TYPE", help="Its type. [default: guessed from the name]")
@json_option
@click.pass_obj
def put(plane: Any, session: str, file: str, name: str, media_type: str, as_json: bool) -> None:
    """Store a file as an artifact of a session; - reads standard input.

    The same bytes under the same name are stored once.
    """
    if file == "-" and not name:
        raise InvalidInput("standard input has no name; add one, as in --name report.pdf")
    with _opened(file) as source, progress("storing", shown=not as_json) as on_progress:
        pieces = _reported(source, on_progress)
        stored = plane.client.put_object(session, name or Path(file).name, pieces, media_type=media_type)
    print_result(stored, "object_put", as_json=as_json)


@command.command("open")
@session_argument
@click.argument("object", metavar="OBJECT")
@click.option("--out", "-o", default="", metavar="FILE", help="A new file for it. [default: stdout]")
@click.pass_obj
def open_(plane: Any, session: str, object: str, out: str) -> None:
    """Read an object by its name, or by its digest or a beginning of it."""
    opened = plane.client.open_object(session, object)
    if not out:
        _print(opened)
        return
    with progress("reading") as on_progress:
        info = opened.info
        name = Path(info.name).name or info.digest[:16]
        path = write_new(Path(out), name, opened.pieces, on_progress, info.size)
    click.echo(path)
    if not opened.is_exact:
        click.echo("secrets in it were masked by the server", err=True)


for name in ("list", "stat"):
    command.add_command(operation_command(operation_named(f"object_{name}")))


def _opened(file: str) -> BinaryIO:
    try:
        return open(os.dup(0), "rb") if file == "-" else open(file, "rb")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from error


def _reported(source: BinaryIO, on_progress: OnProgress | None) -> Iterator[bytes]:
    """The pieces of a file, with a word about how much of it was read."""
    total, done = os.fstat(source.fileno()).st_size, 0
    while piece := source.read(PIECE_BYTES):
        yield piece
        done += len(piece)
        if on_progress is not None:
            on_progress(done, total)


def _print(opened: "OpenedObject") -> None:
    """Print the bytes as they are; on a terminal only a text, and what controls a terminal is written out."""
    if not sys.stdout.isatty():
        write_out(opened.pieces)
        return
    from clew.secrets.blobs import is_binary

    decoder = getincrementaldecoder("utf-8")("replace")
    is_first = True
    for piece in opened.pieces:
        if is_first and is_binary(piece):
            raise InvalidInput("this object is no text; write it to a file with --out, or into a pipe")
        is_first = False
        click.echo(plain(decoder.decode(piece)), nl=False)
    click.echo(plain(decoder.decode(b"", final=True)))


def write_out(pieces: Iterator[bytes]) -> None:
    """Print bytes as they are."""
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def write_new(path: Path, name: str, pieces: Iterator[bytes], on_progress: OnProgress | None, size: int) -> Path:
    """Write pieces into a new file, under this name if the path is a folder; what cannot be completed is removed."""
    if path.is_dir():
        path = path / Path(name).name  # A name in a log is hostile.
    done = 0
    try:
        with open(path, "xb", opener=create_private) as file:
            try:
                for piece in pieces:
                    file.write(piece)
                    done += len(piece)
                    if on_progress is not None:
                        on_progress(done, size)
            except BaseException:
                path.unlink()
                raise
    except FileExistsError:
        raise Conflict(f"{path} exists and was not changed; name another file with --out") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error
    return path
