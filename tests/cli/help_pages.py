"""Every help page at two widths. `python tests/cli/help_pages.py` writes them into tests/cli/help/."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

FOLDER = Path(__file__).parent / "help"
WIDTHS = (80, 120)


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """A command and all below it that a person is shown, each with its context."""
    yield command, context
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, click.Context(below, info_name=name, parent=context))


def pages(width: int) -> dict[str, str]:
    """The help of each command, by what a person types before --help."""
    from clew.cli.run import clew

    root = click.Context(clew, info_name="clew", **clew.context_settings)
    found = {}
    for command, context in commands(clew, root):
        context.terminal_width = width
        command._help_option = None  # It keeps the names of the first context that asked for it.
        context.help_option_names = root.help_option_names
        found[context.command_path] = command.get_help(context)
    return found


def book(width: int) -> str:
    """All pages in one text."""
    return "".join(f"$ {path} --help\n{text}\n\n\n" for path, text in pages(width).items())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for width in WIDTHS:
        (FOLDER / f"{width}.txt").write_text(book(width))
