"""Results for people: one function per operation. An operation without one is shown as JSON."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from clew.app import Finding
from clew.cli.output import one_line, table
from clew.model import events as e
from clew.model.events import Event
from clew.model.plain import plain
from clew.model.retention import Policy
from clew.service.care import Collected
from clew.service.connecting import Known
from clew.service.forks import Difference, Side
from clew.service.sessions import Changed, SessionDetail, SessionInfo
from clew.store.forget import Erased, Pruned
from clew.store.leases import Lease
from clew.store.verify import Verified


def ago(at: int) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0.0, datetime.now(UTC).timestamp() - at / 1e6)
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


def moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def opened(session: SessionInfo) -> None:
    click.echo(session.id)
    click.echo(f"append to it with: clew append {session.id[:8]}", err=True)


def sessions(found: list[SessionInfo]) -> None:
    if not found:
        click.echo("no such sessions; open one with: clew open --title 'My first session'", err=True)
        return
    table(
        ("id", "state", "last", "events", "project", "agent", "title"),
        (
            (one.id[:10], one.state, ago(one.last_at), str(one.head), one.project, one.agent, one.title or "(untitled)")
            for one in found
        ),
    )


def show(detail: SessionDetail) -> None:
    one = detail.session
    _pair("session", one.id)
    _pair("title", one.title or "(untitled)")
    _pair("state", one.state + (f", being written by {one.holder}" if one.holder else ""))
    _pair("project", one.project)
    _pair("agent", one.agent)
    _pair("opened", f"{moment(one.opened_at)} ({ago(one.opened_at)})")
    _pair("last event", f"{one.head}, {ago(one.last_at)}")
    if one.parent:
        _pair("forked from", f"{one.parent} at {one.upto}")
    for id, upto in detail.forks:
        _pair("fork", f"{id} at {upto}")
    if one.spent_tokens or one.spent_cost_micros or one.budget:
        _pair("used", f"{one.spent_tokens:,} tokens, ${one.spent_cost_micros / 1e6:.2f}{_limit(one.budget)}")
    if one.metadata not in (msgspec.Raw(b"{}"), msgspec.Raw(b"")):
        _pair("metadata", bytes(one.metadata).decode())
    _section("decisions", (f"{d.choice}{f' ({d.why})' if d.why else ''}" for d in detail.decisions))
    _section("facts", (fact.text for fact in detail.facts))
    if detail.progress:
        p = detail.progress
        _section("progress", (f"{label}: {text}" for label, text in (("done", p.done), ("next", p.next)) if text))
    _section("scratch", (f"{name} = {bytes(value).decode()}" for name, value in detail.scratch.items()))
    _section("working set", (f"{t.what} (read {t.read}, written {t.written})" for t in detail.working_set))


def events(found: list[Event]) -> None:
    for event in found:
        click.echo(f"{event.seq:>5}  ", nl=False)
        click.secho(f"{moment(event.at)}  ", dim=True, nl=False)
        click.secho(f"{event.kind:<18} ", fg="cyan", nl=False)
        click.echo(one_line(gist(event.body)))


def tailed(found: list[Event]) -> None:
    for event in found:
        click.secho(f"{event.session[:8]}", fg="magenta", nl=False)
        events([event])


def gist(body: e.AnyBody) -> str:
    """What a body says, in one line."""
    match body:
        case e.MessageAdded(role=role):
            return f"{role}: {' '.join(getattr(part, 'text', f'[{type(part).__name__}]') for part in body.content)}"
        case e.CallMade(tool=tool, input=value):
            return f"{tool} {bytes(value).decode()}"
        case e.CallReturned(output=value, failed=failed):
            return ("failed: " if failed else "") + bytes(value).decode()
        case e.FactLearned(text=text):
            return text
        case e.DecisionMade(choice=choice, why=why):
            return f"{choice}{f' ({why})' if why else ''}"
        case e.Removed(how=how):
            return f"[body {how}]"
        case e.Opaque(raw=raw):
            return raw
        case _:
            return msgspec.json.encode(body).decode()


def changed(found: Changed) -> None:
    click.echo(f"{found.id} is {found.state}")


def forked(child: SessionInfo) -> None:
    click.echo(child.id)
    click.echo(f"forked from {child.parent} at {child.upto}", err=True)


def diff(found: Difference) -> None:
    click.echo(f"the two share events 1 to {found.shared}" if found.shared else "the two share nothing")
    for side in (found.left, found.right):
        _side(side)


def _side(side: Side) -> None:
    click.secho(f"\nonly in {side.session} ({len(side.events)} events)", bold=True)
    events(side.events)
    _section("facts", side.facts)
    _section("decisions", side.decisions)
    _section("scratch", (f"{name} = {bytes(value).decode()}" for name, value in side.scratch.items()))
    _section("files", side.files)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def verified(found: list[Verified]) -> None:
    problems = [problem for one in found for problem in one.problems]
    if problems:
        table(("session", "seq", "problem"), ((p.session, str(p.seq), p.what) for p in problems))
    total, removed = sum(one.events for one in found), sum(one.removed for one in found)
    click.echo(
        f"{count(len(found), 'log')} (control logs included), {count(total, 'event')}"
        + (
            f" ({count(removed, 'body')[:-1] + 'ies' if removed > 1 else '1 body'} removed on record)"
            if removed
            else ""
        )
        + (f": {count(len(problems), 'problem')}" if problems else ": every chain holds")
    )


def leased(found: Lease) -> None:
    click.echo(f"epoch {found.epoch} for {found.holder} until {moment(found.until)}")


def policies(found: list[Policy]) -> None:
    if not found:
        click.echo("no policies: everything is kept; set one with: clew retention set PROJECT --keep-days 90", err=True)
        return
    table(
        ("project", "agent", "keep conversations", "hold"),
        (
            (
                one.project,
                one.agent or "(all)",
                "for ever" if one.keep_days is None else f"{one.keep_days} days",
                "yes" if one.hold else "",
            )
            for one in found
        ),
    )


def pruned(found: list[Pruned]) -> None:
    if not found:
        click.echo("nothing to prune")
        return
    table(
        ("session", "bodies removed", "kept for forks", "policy"),
        ((one.session, str(one.events), str(one.kept_for_forks), one.policy) for one in found),
    )


def erased(found: list[Erased]) -> None:
    for one in found:
        click.echo(f"{one.session} erased: {one.events} events, {one.blobs} blobs")
    for place in found[0].beyond_reach if found else ():
        click.secho(f"beyond the reach of clew: {place}", fg="yellow", err=True)


def collected(found: Collected) -> None:
    click.echo(f"{found.blobs} blobs deleted, {found.bytes:,} bytes")


def findings(found: list[Finding]) -> None:
    for one in found:
        mark, color = ("ok", "green") if one.ok else ("!!", "red")
        click.secho(f" {mark} ", fg=color, bold=True, nl=False)
        click.echo(f"{one.what:<10} {plain(one.found)}")
        if one.advice and not one.ok:
            click.echo(f"    {'':<10} -> {one.advice}")


def runtimes(found: list[Known]) -> None:
    words = {None: "-", True: "yes", False: "no"}
    table(
        ("runtime", "program", "installed", "sessions", "connected", "read", "resume in", "tested with"),
        (
            (
                one.name, one.title, "yes" if one.installed else "no", str(one.sessions), words[one.connected],
                words[one.reads], words[one.writes], one.tested_with or "-",
            )
            for one in found
        ),
    )  # fmt: skip


RENDER: dict[str, Callable[[Any], None]] = {
    "runtimes": runtimes,
    "brief": lambda one: click.echo(plain(one.text)),
    "open": opened,
    "sessions": sessions,
    "show": show,
    "events": events,
    "pause": changed,
    "resume": changed,
    "close": changed,
    "archive": changed,
    "budget": lambda one: show_budget(one),
    "fork": forked,
    "diff": diff,
    "verify": verified,
    "lease_acquire": leased,
    "lease_renew": leased,
    "lease_release": lambda _: click.echo("released"),
    "retention_set": lambda one: click.echo(str(one)),
    "retention_remove": lambda _: click.echo("removed"),
    "retention_list": policies,
    "retention_apply": pruned,
    "erase": erased,
    "collect": collected,
}


def show_budget(one: SessionInfo) -> None:
    click.echo(f"{one.id} used {one.spent_tokens:,} tokens, ${one.spent_cost_micros / 1e6:.2f}{_limit(one.budget)}")


def _limit(budget: e.Budget | None) -> str:
    if budget is None:
        return " (no limit)"
    parts = [f"{budget.tokens:,} tokens"] if budget.tokens is not None else []
    parts += [f"${budget.cost_micros / 1e6:.2f}"] if budget.cost_micros is not None else []
    return f" of {' and '.join(parts)}"


def _pair(label: str, value: str) -> None:
    if value:
        click.secho(f"{label:<12} ", dim=True, nl=False)
        click.echo(one_line(value, 400))


def _section(title: str, lines: Any) -> None:
    lines = list(lines)
    if lines:
        click.secho(f"\n{title}", bold=True)
        for line in lines:
            click.echo(f"  {one_line(line, 160)}")
