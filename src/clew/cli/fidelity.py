"""Prints what another format carried, adapted and dropped of a conversation."""

from typing import Any

import click

from clew.model.plain import plain
from clew.runtimes.fit import in_words


def print_fidelity(fidelity: Any) -> None:
    """Print what was carried, adapted and dropped."""
    carried = ", ".join(in_words(count, name) for name, count in fidelity.carried.items())
    click.echo(f"carried: {carried or 'nothing'}", err=True)
    for word, changes in (("adapted", fidelity.adapted), ("dropped", fidelity.dropped)):
        for change in changes:
            click.echo(f"{word}: {plain(in_words(change.count, change.what))} ({change.why})", err=True)
