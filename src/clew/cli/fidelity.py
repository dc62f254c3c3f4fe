"""What a conversation lost or kept on its way into another form, for a person."""

from typing import Any

import click

from clew.model.plain import plain


def print_fidelity(fidelity: Any) -> None:
    """What was carried, adapted and dropped, to a person."""
    carried = ", ".join(counted(count, name) for name, count in fidelity.carried.items())
    click.echo(f"carried: {carried or 'nothing'}", err=True)
    for word, changes in (("adapted", fidelity.adapted), ("dropped", fidelity.dropped)):
        for one in changes:
            click.echo(f"{word}: {plain(counted(one.count, one.what))} ({one.why})", err=True)


def counted(count: int, name: str) -> str:
    if count != 1:
        return f"{count:,} {name}"
    noun = name
    for word in (" of ", " before ", " without "):
        noun = noun.partition(word)[0]
    return f"1 {' or '.join(one.removesuffix('s') for one in noun.split(' and '))}{name.removeprefix(noun)}"
