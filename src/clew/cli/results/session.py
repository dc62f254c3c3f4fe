"""One session for people: its state, its knowledge, its forks and its budget."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
import msgspec

from clew.cli.output import one_line
from clew.cli.times import ago, moment
from clew.model import events as e
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.handover.brief import Brief
    from clew.service.sessions.forks import Side
    from clew.service.sessions.info import SessionInfo
    from clew.service.sessions.lifecycle import Changed
    from clew.service.sessions.show import SessionDetail


def print_open(session: "SessionInfo") -> None:
    click.echo(session.id)
    click.echo(f"append to it with: clew append {session.id[:8]}", err=True)


def print_pause(change: "Changed") -> None:
    click.echo(f"{change.id} is {change.state}")


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
        ("state", session.state + (f", being written by {session.holder}" if session.holder else "")),
        ("project", session.project),
        ("agent", session.agent),
        ("opened", f"{moment(session.opened_at)} ({ago(session.opened_at)})"),
        ("last event", f"{session.head}, {ago(session.last_at)}"),
    ]
    if session.parent:
        pairs.append(("forked from", f"{session.parent} at {session.upto}"))
    pairs += [("fork", f"{id} at {upto}") for id, upto in detail.forks]
    pairs += [("subagent of", detail.subagent_of), *(("subagent", id) for id in detail.subagents)]
    if session.spent_tokens or session.spent_cost_micros or session.budget:
        pairs.append(("used", _used(session)))
    if session.metadata not in (msgspec.Raw(b"{}"), msgspec.Raw(b"")):
        pairs.append(("metadata", bytes(session.metadata).decode()))
    return [(label, one_line(value, 400)) for label, value in pairs if value]


def knowledge_sections(detail: "SessionDetail") -> list[tuple[str, list[str]]]:
    """What a session knows and touched: titles and lines, without empty sections."""
    progress = detail.progress
    stages = (("done", progress.done), ("next", progress.next), ("open", ", ".join(progress.open))) if progress else ()
    sections = [
        ("decisions", [f"{d.choice}{f' ({d.why})' if d.why else ''}" for d in detail.decisions]),
        ("facts", [fact.text for fact in detail.facts]),
        ("progress", [f"{label}: {text}" for label, text in stages if text]),
        ("scratch", [f"{name} = {bytes(value).decode()}" for name, value in detail.scratch.items()]),
        ("working set", [f"{t.what} (read {t.read}, written {t.written})" for t in detail.working_set]),
    ]
    return [(title, [one_line(line, 160) for line in lines]) for title, lines in sections if lines]


def print_budget(session: "SessionInfo") -> None:
    click.echo(f"{session.id} used {_used(session)}")


def _used(session: "SessionInfo") -> str:
    cost = f"${session.spent_cost_micros / 1e6:.2f}"
    return f"{session.spent_tokens:,} tokens, {cost}{_limit(session.budget)}"


def _limit(budget: e.Budget | None) -> str:
    if budget is None:
        return " (no limit)"
    parts = [f"{budget.tokens:,} tokens"] if budget.tokens is not None else []
    parts += [f"${budget.cost_micros / 1e6:.2f}"] if budget.cost_micros is not None else []
    return f" of {' and '.join(parts)}"


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
