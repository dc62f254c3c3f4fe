"""Prints what another format carried, adapted and dropped of a conversation."""

from typing import Any

import click

from clew.model.plain import plain


def print_fidelity(fidelity: Any) -> None:
    """Print what was carried, adapted and dropped."""
    carried = ", ".join(counted(count, name) for name, count in fidelity.carried.items())
    click.echo(f"carried: {carried or 'nothing'}", err=True)
    for word, changes in (("adapted", fidelity.adapted), ("dropped", fidelity.dropped)):
        for change in changes:
            click.echo(f"{word}: {plain(counted(change.count, change.what))} ({change.why})", err=True)


def counted(count: int, name: str) -> str:
    """The count and the name, which is a plural; 1 takes the singular."""
    if count != 1:
        return f"{count:,} {name}"
    noun = name
    for word in (" of ", " before ", " without "):
        noun = noun.partition(word)[0]
    return f"1 {' or '.join(word.removesuffix('s') for word in noun.split(' and '))}{name.removeprefix(noun)}"
