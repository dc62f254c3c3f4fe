"""Workspaces for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.times import ago
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.workspaces.changes import Changed
    from clew.service.workspaces.checkout import CheckedOut
    from clew.service.workspaces.commit_links import CommitLink
    from clew.service.workspaces.looking import FileDifference, PointInfo
    from clew.service.workspaces.restore import Restored
    from clew.service.workspaces.snapshot import SnapshotTaken
    from clew.service.workspaces.tree import Tree
    from clew.service.workspaces.usage import WorkspaceUsage
    from clew.service.workspaces.who_changed import ChangingCall, FileCause
    from clew.store.log.thinning import Thinned

SIGNS = {"added": "+", "removed": "-", "changed": "~", "mode": "m", "kind": "!"}
COLOURS = {"+": "green", "-": "red", "@": "cyan"}
# So many calls are named.
NAMED = 3
# So many of what was left out are printed; --json has all.
PRINTED = 20


def print_workspace_snapshot(taken: "SnapshotTaken") -> None:
    click.echo(f"{taken.snapshot[:12]}  event {taken.seq}: {taken.files:,} files, {taken.bytes:,} bytes, "
               f"{taken.new_bytes:,} of them new")  # fmt: skip
    if taken.warning:
        click.echo(f"warning: {taken.warning}", err=True)
    for skipped in taken.skipped[:PRINTED]:
        click.echo(f"left out or marked: {skipped.path} {skipped.why}", err=True)
    if len(taken.skipped) > PRINTED:
        click.echo(f"and {len(taken.skipped) - PRINTED:,} more; --json has all of them", err=True)


def print_workspace_log(points: "list[PointInfo]") -> None:
    if not points:
        click.echo("no snapshot yet; `clew workspace snapshot --session ID` takes one", err=True)
        return
    table(
        ("event", "when", "what", "snapshot", "files", "bytes", "changed", "by", "branch", "folder", "label"),
        (
            (
                str(point.seq), ago(point.at), point.event, point.snapshot[:12], f"{point.files:,}", f"{point.bytes:,}",
                f"{point.changed:,}" if point.changed else "", calls_named(point.calls) if point.changed else "",
                point.branch, point.folder,
                f"thinned {ago(point.thinned_at)}" if point.thinned_at else point.label or " ".join(point.paths),
            )
            for point in points
        ),
    )  # fmt: skip


def print_workspace_tree(found: "Tree") -> None:
    for entry in found.entries:
        if entry.kind == "folder":
            click.echo(f"{entry.mode:>4} {entry.size:>13,}  {entry.name}/  {entry.files:,} files")
        else:
            click.echo(
                f"{entry.mode:>4} {entry.size:>13,}  {entry.name}" + (f" -> {entry.target}" * bool(entry.target))
            )
    if found.next:
        click.echo(f"{len(found.entries):,} of {found.total:,}; --after {found.next} goes on", err=True)


def print_workspace_diff(found: "FileDifference") -> None:
    if not found.changes:
        click.echo("the files are the same", err=True)
    for change in found.changes:
        _print_change(change)
        for cause in change.causes or ():
            click.secho(f"  {_cause(cause)}", dim=True)
        for line in change.lines.splitlines()[2:]:
            click.secho(line, fg=COLOURS.get(line[:1]))


def _cause(cause: "FileCause") -> str:
    """Which call changed a file, in one line."""
    named = calls_named(cause.calls)
    match cause.why:
        case "named" | "only":
            return f"by {named}"
        case "hidden":
            return "by a session you cannot see"
        case "several":
            return f"by one of {named}"
        case _:
            return f"unclear; {named} ran" if named else "outside of any call"


def calls_named(calls: "Sequence[ChangingCall]") -> str:
    """The first calls by session, event and tool; --json has all."""
    named = ", ".join(f"{call.session[:10]}@{call.seq} {call.tool}" for call in calls[:NAMED])
    return named + (f" and {len(calls) - NAMED} more" if len(calls) > NAMED else "")


def print_workspace_preview(changes: "list[Changed]") -> None:
    if not changes:
        click.echo("nothing would change", err=True)
    for change in changes:
        _print_change(change)


def _print_change(change: "Changed") -> None:
    sizes = " -> ".join(f"{size:,}" for size in (change.before, change.after) if size is not None)
    words = [SIGNS[change.change], change.path + ("/" if change.kind == "folder" else "")]
    words += [f"({', '.join(filter(None, (sizes, change.mode, change.note)))})"] if sizes or change.mode else []
    click.echo(" ".join(words))


def print_workspace_restore(restored: "Restored") -> None:
    click.echo(f"{restored.written:,} files written, {restored.removed:,} removed, {restored.unchanged:,} unchanged")


def print_workspace_checkout(out: "CheckedOut") -> None:
    words = {"own": "a repository", "worktree": "a worktree"}
    where = f"on {out.branch}" if out.branch else f"at {out.commit[:12]}"
    git = f", {words[out.repository]} {where}" if out.repository else ""
    click.echo(f"{out.folder}: {out.files:,} files of {out.session[:10]}{git}")
    for note in out.notes:
        click.echo(f"note: {plain(note)}", err=True)


def print_workspace_usage(usages: "list[WorkspaceUsage]") -> None:
    if not usages:
        click.echo("no snapshot yet; `clew workspace snapshot --session ID` takes one", err=True)
        return
    table(
        ("project", "sessions", "snapshots", "newest", "content", "on disk", "quota", "used"),
        (
            (
                usage.project, f"{usage.sessions:,}", f"{usage.snapshots:,}", ago(usage.newest_at),
                _size(usage.bytes), _size(usage.stored), _size(usage.quota) if usage.quota else "none",
                f"{usage.stored / usage.quota:.0%}" if usage.quota else "",
            )
            for usage in usages
        ),
    )  # fmt: skip


def _size(size: int) -> str:
    """A size in the unit that suits it."""
    for limit, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= limit:
            return f"{size / limit:,.1f} {unit}"
    return f"{size} B"


def print_workspace_thin(thinned: "list[Thinned]") -> None:
    for session in thinned:
        click.echo(f"{session.session[:10]}: {session.snapshots:,} snapshots thinned, {session.kept:,} kept")
    click.echo(f"{sum(session.snapshots for session in thinned):,} snapshots thinned", err=True)


def print_commit(links: "list[CommitLink]") -> None:
    if not links:
        click.echo("no session is known to have led to it", err=True)
        return
    table(
        ("commit", "by", "when", "session", "event", "runtime", "project", "title"),
        (
            (
                link.commit[:12], f"{len(link.files)} files" if link.files else link.how, ago(link.at),
                link.session[:10], str(link.seq), link.runtime, link.project, link.title or "(untitled)",
            )
            for link in links
        ),
    )  # fmt: skip
    if any(link.files for link in links):
        click.echo("`files` is weak: the session wrote files of the commit before it", err=True)


def print_workspace_gc(collected: "object") -> None:
    from clew.cli.results.maintenance import print_collect

    print_collect(collected)  # type: ignore[arg-type]  # It is what `collect` gives.
