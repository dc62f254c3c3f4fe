"""Results for people: one function per operation. An operation without one is shown as JSON."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from clew.cli.output import one_line, table
from clew.cli.times import ago, moment
from clew.doctor import Finding
from clew.model import events as e
from clew.model.events import Event
from clew.model.plain import plain
from clew.model.retention import Policy
from clew.service.capture.connect import KnownProgram
from clew.service.knowledge.recall import Recall, Recalled
from clew.service.knowledge.remember import Decided, Noted, Remembered
from clew.service.privacy.collect import Collected
from clew.service.privacy.scan import Secret
from clew.service.sessions.forks import Difference, Side
from clew.service.sessions.info import SessionInfo
from clew.service.sessions.lifecycle import Changed
from clew.service.sessions.show import SessionDetail
from clew.store.log.erase import Erased
from clew.store.log.leases import Lease
from clew.store.log.problems import Verified
from clew.store.log.retention import Pruned


def opened(session: SessionInfo) -> None:
    click.echo(session.id)
    click.echo(f"append to it with: clew append {session.id[:8]}", err=True)


def standing(detail: SessionDetail) -> list[tuple[str, str]]:
    """Where a session stands: labels and values, each on one line."""
    one = detail.session
    gone = "(erased)" if one.state == "erased" else "(untitled)"
    pairs = [
        ("session", one.id),
        ("title", one.title or gone),
        ("state", one.state + (f", being written by {one.holder}" if one.holder else "")),
        ("project", one.project),
        ("agent", one.agent),
        ("opened", f"{moment(one.opened_at)} ({ago(one.opened_at)})"),
        ("last event", f"{one.head}, {ago(one.last_at)}"),
    ]
    if one.parent:
        pairs.append(("forked from", f"{one.parent} at {one.upto}"))
    pairs += [("fork", f"{id} at {upto}") for id, upto in detail.forks]
    pairs += [("subagent of", detail.subagent_of), *(("subagent", id) for id in detail.subagents)]
    if one.spent_tokens or one.spent_cost_micros or one.budget:
        used = f"{one.spent_tokens:,} tokens, ${one.spent_cost_micros / 1e6:.2f}{_limit(one.budget)}"
        pairs.append(("used", used))
    if one.metadata not in (msgspec.Raw(b"{}"), msgspec.Raw(b"")):
        pairs.append(("metadata", bytes(one.metadata).decode()))
    return [(label, one_line(value, 400)) for label, value in pairs if value]


def known(detail: SessionDetail) -> list[tuple[str, list[str]]]:
    """What a session knows and touched: titles and lines, the empty ones left out."""
    p = detail.progress
    told = (("done", p.done), ("next", p.next), ("open", ", ".join(p.open))) if p else ()
    sections = [
        ("decisions", [f"{d.choice}{f' ({d.why})' if d.why else ''}" for d in detail.decisions]),
        ("facts", [fact.text for fact in detail.facts]),
        ("progress", [f"{label}: {text}" for label, text in told if text]),
        ("scratch", [f"{name} = {bytes(value).decode()}" for name, value in detail.scratch.items()]),
        ("working set", [f"{t.what} (read {t.read}, written {t.written})" for t in detail.working_set]),
    ]
    return [(title, [one_line(line, 160) for line in lines]) for title, lines in sections if lines]


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


def remembered(one: Remembered) -> None:
    click.echo(one.fact)
    click.echo(f"kept in {one.session} as event {one.seq}; find it with: clew recall", err=True)


def decided(one: Decided) -> None:
    click.echo(one.decision)
    click.echo(f"kept in {one.session} as event {one.seq}; find it with: clew recall", err=True)


def noted(one: Noted) -> None:
    click.echo(f"{one.session} event {one.seq}")


def recalled(found: Recall) -> None:
    if not found.found:
        more = f"; go on looking with: --after {found.next}" if found.next else ""
        click.echo(f"nothing of that is known{more}", err=True)
        return
    rows = ((one.session[:10], str(one.seq), ago(one.at), one.kind, one.id, _known(one)) for one in found.found)
    table(("session", "seq", "when", "kind", "id", "what is known"), rows, wrapped="what is known")
    if found.next:
        click.echo(f"the next page: --after {found.next}", err=True)


def _known(one: Recalled) -> str:
    """What is known, in one line: the fact, the choice with its reason, or what is done, next and open."""
    said = [one.text] if one.kind != "progress" else [f"done: {one.text}"] if one.text else []
    said += [f"because {one.why}"] if one.why else []
    said += [f"not {', '.join(one.rejected)}"] if one.rejected else []
    said += [f"next: {one.next}"] if one.next else []
    said += [f"open: {'; '.join(one.open)}"] if one.open else []
    return one_line("; ".join(said), 400)


def secrets(found: list[Secret], total: dict[str, Any]) -> None:
    if found:
        rows = ((one.session[:10], str(one.seq), one.rule, str(one.times), one_line(one.context)) for one in found)
        table(("session", "seq", "rule", "times", "where"), rows)
        kinds = (f"{rule} {times:,}" for rule, times in total["rules"].items())
        click.echo(f"{count(total['secrets'], 'secret')} in {count(total['sessions'], 'session')}: {', '.join(kinds)}")
    click.echo(
        f"{'no secrets: ' * (not found)}{count(total['events'], 'event')} looked at, {total['bytes'] / 1e6:,.1f} MB",
        err=True,
    )


def verified(found: list[Verified]) -> None:
    problems = [problem for one in found for problem in one.problems]
    if problems:
        rows = ((p.session, str(p.seq), p.what) for p in problems)
        table(("session", "seq", "problem"), rows, wrapped="problem")
    total, removed = sum(one.events for one in found), sum(one.removed for one in found)
    click.echo(
        f"{count(len(found), 'log')} (control logs included), {count(total, 'event')}"
        + (f" ({removed:,} {'body' if removed == 1 else 'bodies'} removed on record)" if removed else "")
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
            click.echo(f"    {'':<10} -> {plain(one.advice)}")


def runtimes(found: list[KnownProgram]) -> None:
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
    "events": events,
    "pause": changed,
    "resume": changed,
    "close": changed,
    "archive": changed,
    "budget": lambda one: show_budget(one),
    "fork": forked,
    "diff": diff,
    "remember": remembered,
    "decide": decided,
    "progress": noted,
    "retire": noted,
    "reverse": noted,
    "recall": recalled,
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


def _section(title: str, lines: Any) -> None:
    lines = list(lines)
    if lines:
        click.secho(f"\n{title}", bold=True)
        for line in lines:
            click.echo(f"  {one_line(line, 160)}")
