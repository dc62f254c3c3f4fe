"""Objects of a session for people."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.sessions.objects import ObjectInfo


def print_object_list(found: "list[ObjectInfo]") -> None:
    if not found:
        click.echo("no event of this session names an object; `clew object put ID FILE` stores one", err=True)
        return
    table(
        ("digest", "size", "event", "type", "name"),
        ((info.digest[:12], f"{info.size:,}", str(info.seq), info.media_type, info.name) for info in found),
    )


def print_object_put(info: "ObjectInfo") -> None:
    click.echo(f"{info.digest[:12]}  {info.size:,} bytes, event {info.seq}: {plain(info.name)}")


def print_object_stat(info: "ObjectInfo") -> None:
    click.echo(f"name: {plain(info.name)}" if info.name else "no name")
    click.echo(f"digest: {info.digest}")
    click.echo(f"size: {info.size:,} bytes")
    if info.media_type:
        click.echo(f"type: {plain(info.media_type)}")
    click.echo(f"event: {info.seq}" if info.seq else "named by another object of the session")
