"""What was published keeps its name: operations, routes, commands and tools, each with what it takes.

`published.json` is what people, scripts and agents call by now. A name in it is never taken away; it may be joined by
another.
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from clew.cli.run import clew
from clew.mcp.tools import tools
from clew.server.http.endpoints import PREFIX, endpoints
from clew.service.kernel.registry import load

PUBLISHED: dict[str, Any] = msgspec.json.decode((Path(__file__).parent / "published.json").read_bytes())


def missing(published: dict[str, list[str]], present: dict[str, set[str]]) -> list[str]:
    """The names, and what they took, that are not there any more."""
    gone = sorted(published.keys() - present.keys())
    return gone + [
        f"{name}: {taken}"
        for name in sorted(published.keys() & present.keys())
        for taken in published[name]
        if taken not in present[name]
    ]


def commands(group: click.Group, *names: str) -> dict[str, set[str]]:
    """Every command with its options."""
    context = click.Context(group)
    present: dict[str, set[str]] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            present |= commands(command, *names, name)
        else:
            options = [param for param in command.params if isinstance(param, click.Option)]
            present[" ".join((*names, name))] = {flag for option in options for flag in option.opts}
    return present


def test_every_operation_still_takes_what_it_took() -> None:
    present = {operation.name: {parameter.name for parameter in operation.parameters} for operation in load().values()}
    assert not missing(PUBLISHED["operations"], present)


def test_every_route_still_leads_to_its_operation() -> None:
    present = {
        f"{endpoint.method} {endpoint.template.removeprefix(PREFIX)}": endpoint.operation.name
        for endpoint in endpoints()
    }
    assert PUBLISHED["routes"].items() <= present.items()


def test_every_command_still_has_its_options() -> None:
    assert not missing(PUBLISHED["commands"], commands(clew))


def test_every_tool_still_takes_what_it_took() -> None:
    present = {name: set(tool.schema["properties"]) for name, tool in tools().items()}
    assert not missing(PUBLISHED["tools"], present)


def test_the_check_sees_what_is_gone() -> None:
    assert missing({"a": ["--x", "--y"], "b": []}, {"a": {"--x"}}) == ["b", "a: --y"]
