"""`clew usage`: tokens and cost by what is asked for, or by the windows of five hours that subscriptions go by."""

import typing
from typing import Any

import click

from clew.cli.run import command as operation_command
from clew.service.kernel.registry import operation_named

_SUMS, _BLOCKS = operation_command(operation_named("usage")), operation_command(operation_named("usage_blocks"))


def invoke(blocks: bool, **values: Any) -> None:
    chosen, other = (_BLOCKS, _SUMS) if blocks else (_SUMS, _BLOCKS)
    known = {str(parameter.name) for parameter in chosen.params}
    for parameter in other.params:
        if parameter.name not in known and values.pop(str(parameter.name), None) not in (None, (), False):
            option = f"{parameter.opts[-1]} {'does not go with' if blocks else 'goes only with'} --blocks"
            raise click.UsageError(option)
    callback = typing.cast("typing.Callable[..., Any]", chosen.callback)
    callback(**values)


_OWN = click.Option(
    ["--blocks"], is_flag=True, help="By windows of five hours, as subscriptions count, with rate and projection."
)
_names = {parameter.name for parameter in _SUMS.params}
command = click.Command(
    "usage", callback=invoke, help=_SUMS.help,
    params=[_SUMS.params[0], _OWN, *_SUMS.params[1:], *(p for p in _BLOCKS.params if p.name not in _names)],
)  # fmt: skip
