"""Results of the operations that look after the store, for people: verification, leases, retention and erasure."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import table
from clew.cli.results.counts import count
from clew.cli.times import moment
from clew.model.plain import plain

# So many places that need an object are printed.
SHOWN_NEEDS = 3

if TYPE_CHECKING:
    from clew.doctor import Finding
    from clew.model.retention import Policy
    from clew.service.audit.verify_objects import ObjectsVerified
    from clew.service.capture.connect import KnownProgram
    from clew.service.capture.drift import Drift
    from clew.service.privacy.collect import Collected
    from clew.store.log.erase import Erased
    from clew.store.log.leases import Lease
    from clew.store.log.problems import Verified
    from clew.store.log.retention import Pruned


def print_verify(logs: "list[Verified]") -> None:
    problems = [problem for log in logs for problem in log.problems]
    if problems:
        rows = ((problem.session, str(problem.seq), problem.what) for problem in problems)
        table(("session", "seq", "problem"), rows, wrapped="problem")
    total, removed = sum(log.events for log in logs), sum(log.removed for log in logs)
    click.echo(
        f"{count(len(logs), 'log')} (control logs included), {count(total, 'event')}"
        + (f" ({count(removed, 'body', 'bodies')} removed on record)" if removed else "")
        + (f": {count(len(problems), 'problem')}" if problems else ": every chain holds")
    )


def print_lease_acquire(lease: "Lease") -> None:
    click.echo(f"epoch {lease.epoch} for {lease.holder} until {moment(lease.until)}")


print_lease_renew = print_lease_acquire


def print_lease_release(_: None) -> None:
    click.echo("released")


def print_retention_list(policies: "list[Policy]") -> None:
    if not policies:
        click.echo("no policies: everything is kept; set one with: clew retention set PROJECT --keep-days 90", err=True)
        return
    rows = (
        (policy.project, policy.agent or "(all)", _kept_for(policy), "yes" if policy.hold else "")
        for policy in policies
    )
    table(("project", "agent", "keep conversations", "hold"), rows)


def _kept_for(policy: "Policy") -> str:
    return "for ever" if policy.keep_days is None else f"{policy.keep_days} days"


def print_retention_set(policy: "Policy") -> None:
    click.echo(str(policy))


def print_retention_remove(_: None) -> None:
    click.echo("removed")


def print_retention_apply(sessions: "list[Pruned]") -> None:
    if not sessions:
        click.echo("nothing to prune")
        return
    table(
        ("session", "bodies", "kept for forks", "policy"),
        ((pruned.session, str(pruned.events), str(pruned.kept_for_forks), pruned.policy) for pruned in sessions),
    )


def print_erase(sessions: "list[Erased]") -> None:
    for erased in sessions:
        click.echo(f"{erased.session} erased: {erased.events} events, {erased.blobs} blobs")
    for copy in sessions[0].beyond_reach if sessions else ():
        click.secho(f"beyond the reach of clew: {copy}", fg="yellow", err=True)


def print_collect(collected: "Collected") -> None:
    click.echo(f"{collected.blobs} blobs deleted, {collected.bytes:,} bytes")


def print_findings(findings: "list[Finding]") -> None:
    """Print what `clew doctor` checked; a problem is followed by its advice."""
    for finding in findings:
        mark, color = ("ok", "green") if finding.ok else ("!!", "red")
        click.secho(f" {mark} ", fg=color, bold=True, nl=False)
        click.echo(f"{finding.what:<10} {plain(finding.found)}")
        if finding.advice and not finding.ok:
            click.echo(f"    {'':<10} -> {plain(finding.advice)}")


def print_runtimes(programs: "list[KnownProgram]") -> None:
    words = {None: "-", True: "yes", False: "no"}
    table(
        ("runtime", "program", "installed", "sessions", "connected", "read", "resume in", "tested with"),
        (
            (
                program.name,
                program.title,
                (program.version or "yes") if program.installed else "no",
                str(program.sessions),
                words[program.connected],
                words[program.reads],
                words[program.writes],
                program.tested_with or "-",
            )
            for program in programs
        ),
    )
    for program in programs:
        for line in program.advice:
            click.echo(plain(line), err=True)


def print_drift(found: "list[Drift]") -> None:
    """Print what is new in the sessions of programs, and one record of each."""
    if not found:
        click.echo("nothing new: the readers know every kind of record, field and version that was captured", err=True)
        return
    table(
        ("runtime", "new", "name", "records", "since"),
        ((one.runtime, one.what, one.name, f"{one.count:,}", moment(one.since)) for one in found),
    )
    if any(one.what == "more" for one in found):
        click.echo(
            "\nclew lists the first 500 new things; 'more' counts the records with others. Report what is listed, and "
            "remove drift.json in clew's home to begin anew.",
            err=True,
        )
    click.echo("\nOne record of each, with names and sizes only; a report of it helps to read it:", err=True)
    for one in found:
        if one.example:
            click.echo(f"{plain(one.runtime)} {one.what} {plain(one.name)}: {plain(one.example)}")


def print_verify_objects(verified: "ObjectsVerified") -> None:
    for problem in verified.problems:
        source = f" from {problem.source}" if problem.source else ""
        click.echo(f"{problem.object[:12]} {problem.what}, {problem.result}{source}")
        for need in problem.needed_by[:SHOWN_NEEDS]:
            where = f"event {need.seq}" if need.seq else "native file"
            click.echo(f"    needed by {need.session[:10]}, {where}{f', {plain(need.path)}' if need.path else ''}")
        if problem.needs > SHOWN_NEEDS:
            click.echo(f"    and {problem.needs - SHOWN_NEEDS:,} more places; --json has the first of them")
    lost = f", {verified.lost:,} lost" if verified.lost else ""
    repaired = f", {verified.repaired:,} repaired" if verified.repaired else ""
    click.echo(
        f"{verified.objects:,} objects, {verified.bytes:,} bytes: {len(verified.problems):,} damaged or missing"
        f"{repaired}{lost}"
    )
