"""`clew completion`: scripts for shells."""

import click

from clew.model.errors import InvalidInput


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell: eval "$(clew completion bash)"."""
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    if kind is None:
        raise InvalidInput(f"{shell!r} has no completion script")
    click.echo(kind(root, {}, "clew", "_CLEW_COMPLETE").source())
