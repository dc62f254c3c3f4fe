"""Objects of a session for people."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.times import ago
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.find.artifacts import Artifact, ArtifactText, NamedArtifact
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


def print_artifact_list(found: "list[NamedArtifact]") -> None:
    if not found:
        click.echo("no session saved an artifact; `clew artifact save FILE --session ID` does", err=True)
        return
    table(
        ("name", "versions", "last", "size", "session", "project", "shown"),
        (
            (
                artifact.name, f"{artifact.versions:,}", ago(artifact.at), f"{artifact.size:,}", artifact.session[:10],
                artifact.project, "at the start" if artifact.progress else "",
            )
            for artifact in found
        ),
    )  # fmt: skip


def print_artifact_versions(found: "list[Artifact]") -> None:
    if not found:
        click.echo("no such artifact; `clew artifact list` shows their names", err=True)
        return
    table(
        ("session", "event", "saved", "size", "digest", "title"),
        (
            (saved.session[:10], str(saved.seq), ago(saved.at), f"{saved.size:,}", saved.blob[:12], saved.title)
            for saved in found
        ),
    )


def print_artifact_get(artifact: "ArtifactText") -> None:
    click.echo(plain(artifact.text), nl=False)


def print_artifact_save(artifact: "Artifact") -> None:
    click.echo(f"{artifact.blob[:12]}  {artifact.size:,} bytes, event {artifact.seq}: {plain(artifact.name)}")
