"""One session for people: its state, its knowledge, its forks and its budget."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from clew.cli.output import one_line
from clew.cli.results.counts import cost, count
from clew.cli.times import ago, moment
from clew.model.plain import plain
from clew.model.session import WARNS_AT, Status

if TYPE_CHECKING:
    from clew.service.handover.brief import Brief
    from clew.service.sessions.forks import Side
    from clew.service.sessions.info import SessionInfo
    from clew.service.sessions.lifecycle import Changed
    from clew.service.sessions.line import SessionLine
    from clew.service.sessions.show import SessionDetail


# What a program wrote longer ago than this was captured later, which is shown.
LATE_US = 60_000_000


def print_open(session: "SessionInfo") -> None:
    click.echo(session.id)
    click.echo(f"append to it with: clew append {session.id[:8]}", err=True)


def print_pause(change: "Changed") -> None:
    click.echo(f"{change.id} is {change.state}")


def print_head(session: "SessionInfo") -> None:
    held = f", being written by {session.holder}" if session.holder else ""
    click.echo(f"{session.id} is {session.state} at event {session.head}{held}")


print_resume = print_close = print_archive = print_pause


def print_brief(brief: "Brief") -> None:
    click.echo(plain(brief.text))


def state_lines(detail: "SessionDetail") -> list[tuple[str, str]]:
    """The state of a session: labels and values, each on one line."""
    session = detail.session
    no_title = "(erased)" if session.state == "erased" else "(untitled)"
    pairs = [
        ("session", session.id),
        ("title", session.title or no_title),
        ("tags", ", ".join(session.tags) + (", starred" if session.tags and session.starred else "")),
        ("starred", "yes" if session.starred and not session.tags else ""),
        ("state", _state(session) + (f", being written by {session.holder}" if session.holder else "")),
        ("project", session.project),
        ("agent", session.agent),
        ("began", f"{moment(session.began_at)} ({ago(session.began_at)})"),
        ("last event", f"{session.head}, {moment(session.last_at)} ({ago(session.last_at)})"),
    ]
    if abs(session.stored_at - session.last_at) > LATE_US:
        pairs.append(("captured", f"{moment(session.stored_at)} ({ago(session.stored_at)})"))
    if session.parent:
        pairs.append(("forked from", f"{session.parent} at {session.upto}"))
    pairs += [("fork", f"{id} at {upto}") for id, upto in detail.forks]
    pairs += [("subagent of", detail.subagent_of), *(("subagent", id) for id in detail.subagents)]
    pairs += _sums(session)
    if session.metadata not in (msgspec.Raw(b"{}"), msgspec.Raw(b"")):
        pairs.append(("metadata", bytes(session.metadata).decode()))
    return [(label, one_line(value, 400)) for label, value in pairs if value]


def _sums(session: "SessionLine") -> Iterator[tuple[str, str]]:
    """How much was done, and what it took."""
    if session.turns or session.calls:
        failed = f", {session.errors:,} failed" if session.errors else ""
        yield "did", f"{count(session.turns, 'turn')}, {count(session.calls, 'call')}{failed}"
    if session.tokens or session.cached_tokens or session.cost_micros:
        yield "used", _used(session)
    if session.budget:
        yield "budget", _budget(session)


def knowledge_sections(detail: "SessionDetail") -> list[tuple[str, list[str]]]:
    """What a session knows and touched: titles and lines, without empty sections."""
    progress = detail.progress
    stages = (("done", progress.done), ("next", progress.next), ("open", ", ".join(progress.open))) if progress else ()
    sections = [
        ("notes", [f"{note.text} ({note.by.removeprefix('person:')}, {ago(note.at)})" for note in detail.notes]),
        ("decisions", [f"{d.choice}{f' ({d.why})' if d.why else ''}" for d in detail.decisions]),
        ("facts", [fact.text for fact in detail.facts]),
        ("progress", [f"{label}: {text}" for label, text in stages if text]),
        ("scratch", [f"{name} = {bytes(value).decode()}" for name, value in detail.scratch.items()]),
        ("working set", [f"{t.what} (read {t.read}, written {t.written})" for t in detail.working_set]),
    ]
    return [(title, [one_line(line, 160) for line in lines]) for title, lines in sections if lines]


def _state(session: "SessionLine") -> str:
    """The state in words; who is waited for is the session's owner."""
    match session.status:
        case Status.WAITING:
            return "waiting for a reply"
        case Status.IDLE:
            return f"idle for {ago(session.last_at)}".removesuffix(" ago")
        case _:
            return session.status


def print_budget(session: "SessionLine") -> None:
    click.echo(f"{session.id} used {_used(session)}; {_budget(session)}")
    warn_of_budget(session)


def warn_of_budget(session: "SessionLine") -> None:
    """Warn on standard error when most of a budget is used."""
    if session.budget_used is not None and session.budget_used >= WARNS_AT:
        words = "is over its budget" if session.budget_used > 1 else f"has used {session.budget_used:.0%} of its budget"
        click.secho(f"warning: {session.id[:10]} {words}; it pauses when it goes over", fg="yellow", err=True)


def _used(session: "SessionLine") -> str:
    cached = f" and {session.cached_tokens:,} from a cache" if session.cached_tokens else ""
    return f"{session.tokens:,} tokens{cached}, {cost(session.cost_micros)}"


def _budget(session: "SessionLine") -> str:
    budget = session.budget
    if budget is None:
        return "no budget"
    parts = [f"{budget.tokens:,} tokens"] if budget.tokens is not None else []
    parts += [cost(budget.cost_micros)] if budget.cost_micros is not None else []
    return f"{' and '.join(parts)}, {session.budget_used or 0:.0%} used"


# Forks ----------------------------------------------------------------------------------------------------------------


def print_fork(child: "SessionInfo") -> None:
    click.echo(child.id)
    click.echo(f"forked from {child.parent} at {child.upto}", err=True)


def print_side(side: "Side") -> None:
    """What one of two sessions knows and touched that the other does not."""
    _print_section("facts", side.facts)
    _print_section("decisions", side.decisions)
    _print_section("scratch", (f"{name} = {bytes(value).decode()}" for name, value in side.scratch.items()))
    _print_section("files", side.files)


def _print_section(title: str, lines: Iterable[str]) -> None:
    lines = list(lines)
    if lines:
        click.secho(f"\n{title}", bold=True)
        for line in lines:
            click.echo(f"  {one_line(line, 160)}")
