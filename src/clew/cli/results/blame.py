"""Blamed files for people: the cause beside the first line of each range."""

from typing import TYPE_CHECKING

import click

from clew.cli.times import ago

if TYPE_CHECKING:
    from clew.service.workspaces.blame import Blamed, BlamedRange

# A call is named by so much of the id of its session.
ID = 10
# So many of the calls that can be the cause are printed; --json has all.
PRINTED = 3


def print_blame(blamed: "Blamed") -> None:
    if blamed.note:
        click.echo(blamed.note, err=True)
    causes = [_cause(part) for part in blamed.ranges]
    width = max(map(len, causes), default=0)
    digits = len(str(blamed.lines))
    for part, cause in zip(blamed.ranges, causes, strict=True):
        lines = part.text.split("\n") if blamed.lines else [""]
        for number, line in enumerate(lines):
            name = cause if number == 0 else ""
            at = str(part.first + number) if blamed.lines else ""
            click.secho(f"{name:<{width}}", fg=None if part.session else "yellow", nl=False)
            click.echo(f"  {at:>{digits}}  {line}".rstrip())


def _cause(part: "BlamedRange") -> str:
    """Who wrote the lines, in one line."""
    if part.session:
        who = " ".join(filter(None, (part.runtime or part.agent, part.person.removeprefix("person:"))))
        return f"{part.session[:ID]}@{part.seq} {part.tool}, {who}, {ago(part.at)}"
    calls = ", ".join(f"{call.session[:ID]}@{call.seq} {call.tool}" for call in part.calls[:PRINTED])
    calls += f" and {len(part.calls) - PRINTED} more" if len(part.calls) > PRINTED else ""
    match part.why:
        case "before":
            return "before the first snapshot" + (f" (commit {part.commit[:8]})" if part.commit else "")
        case "outside":
            return f"outside of any call, by {ago(part.at)}"
        case "hidden":
            return "a session you cannot see"
        case "several":
            return f"one of {calls}"
        case _:
            return f"unclear; {calls} ran" if calls else "unclear"
