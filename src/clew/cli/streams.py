"""Files that go into the store and objects that come out of it, piece by piece."""

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from clew.cli.progress import OnProgress
from clew.model.errors import Conflict, InvalidInput
from clew.model.plain import plain
from clew.store.durable_folders import create_private

if TYPE_CHECKING:
    from clew.service.sessions.objects import OpenedObject

PIECE_BYTES = 1024 * 1024


def opened_file(file: str) -> BinaryIO:
    try:
        return open(os.dup(0), "rb") if file == "-" else open(file, "rb")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from error


def reported(source: BinaryIO, on_progress: OnProgress | None) -> Iterator[bytes]:
    """The pieces of a file, with a word about how much of it was read."""
    total, done = os.fstat(source.fileno()).st_size, 0
    while piece := source.read(PIECE_BYTES):
        yield piece
        done += len(piece)
        if on_progress is not None:
            on_progress(done, total)


def print_object(opened: "OpenedObject") -> None:
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
