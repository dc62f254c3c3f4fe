"""Text that is longer than the screen goes through a pager; closing it early is not an error."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import PurePath

from clew.model.errors import InvalidInput


def command() -> list[str] | None:
    """The user's pager: $CLEW_PAGER, $PAGER or less; None if it is not installed or not wanted."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    name = next((name for name in ("CLEW_PAGER", "PAGER") if name in os.environ), "")
    try:
        words = shlex.split(os.environ[name]) if name else ["less", "-FX"]
    except ValueError as error:
        raise InvalidInput(f"${name} is not a valid command: {error}; set it to one, such as 'less -R'") from error
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        return None
    return [*words, "-R"] if keeps_colours(words) else words


def keeps_colours(words: list[str]) -> bool:
    """Whether the pager shows colours; only less is known to."""
    return PurePath(words[0]).name == "less"


def print_paged(texts: Iterator[str], words: list[str] | None, *, rows: int) -> bool:
    """Print to the terminal; through the pager if the text is longer than the screen. Returns whether it was."""
    held: list[str] = []
    lines = 0
    # The prompt of the shell needs a row, too.
    while words and lines < rows and (text := next(texts, None)) is not None:
        held.append(text)
        lines += text.count("\n")
    if words and lines >= rows:
        _page(chain(held, texts), words)
        return True
    for text in chain(held, texts):
        sys.stdout.write(text)
        sys.stdout.flush()
    return False


def _page(texts: Iterable[str], words: list[str]) -> None:
    sys.stdout.flush()
    pager = subprocess.Popen(words, stdin=subprocess.PIPE, bufsize=0)
    # The pager was started before this, so Ctrl-C still reaches it, and only it.
    with _uninterrupted(), suppress(BrokenPipeError), pager:
        for text in texts:
            pager.stdin.write(text.encode(errors="replace"))  # type: ignore[union-attr]  # a pipe was asked for


@contextmanager
def _uninterrupted() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
