"""`clew append`: drafts from standard input."""

import os
import sys
from collections.abc import Iterator

import click

from clew.cli.options import json_option, session_argument
from clew.cli.output import print_json
from clew.cli.plane import LazyPlane
from clew.model import codec
from clew.model.errors import BudgetExceeded, InvalidInput
from clew.model.events import Draft

CHUNK = 256 * 1024


@click.command("append")
@session_argument
@click.option(
    "--expect", type=int, metavar="SEQ", help="The head you know; clew refuses the append if the session has grown."
)
@click.option("--lease", type=int, metavar="EPOCH", help="The epoch of the lease you hold.")
@json_option
@click.pass_obj
def command(plane: LazyPlane, session: str, expect: int | None, lease: int | None, as_json: bool) -> None:
    """Append drafts, one JSON object per line of standard input.

    Prints {"seq": N} for each line once it is durable. Example:

        echo '{"kind": "message_added", "role": "user", "text": "hi"}' | clew append ID
    """
    if sys.stdin.isatty():
        click.echo("reading drafts, one JSON object per line; end with Ctrl-D", err=True)
    for batch, refused in drafts(sys.stdin.fileno()):
        if batch:
            expect = _append(plane, session, batch, expect, lease)
        if refused is not None:
            raise refused


def drafts(descriptor: int) -> Iterator[tuple[list[Draft], InvalidInput | None]]:
    """Drafts as they arrive, in batches: each batch holds the lines read so far, up to the first invalid one."""
    rest = b""
    number = 0
    while chunk := os.read(descriptor, CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        batch, refused = _parsed(lines, number)
        yield batch, refused
        number += len(lines)
    if rest.strip():
        yield _parsed([rest], number)


def _parsed(lines: list[bytes], number: int) -> tuple[list[Draft], InvalidInput | None]:
    batch: list[Draft] = []
    for offset, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            batch.append(codec.draft(line))
        except InvalidInput as error:
            return batch, InvalidInput(f"line {number + offset}: {error}", line=number + offset)
    return batch, None


def _append(plane: LazyPlane, session: str, batch: list[Draft], expect: int | None, lease: int | None) -> int | None:
    """Append a batch and acknowledge each line; returns the head to expect next, if one was expected."""
    try:
        appended = plane.call("append", session=session, drafts=batch, expect=expect, lease=lease)
    except BudgetExceeded as error:
        _acknowledge(error.details["seqs"], [])
        raise
    _acknowledge(appended.seqs, appended.deduplicated)
    return appended.head if expect is not None else None


def _acknowledge(seqs: list[int], repeated: list[int]) -> None:
    print_json([{"seq": seq, "deduplicated": True} if seq in repeated else {"seq": seq} for seq in seqs])
