"""Results of `clew audit` for people: checkpoints, proofs, entries of the audit log, and what a verification found."""

from base64 import b64encode
from typing import TYPE_CHECKING

import click

from clew.cli.output import one_line, table
from clew.cli.results.counts import count
from clew.cli.times import ago, moment
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.audit.audited_session import AuditedSession
    from clew.service.audit.checkpoints import CheckpointInfo
    from clew.service.audit.entries import Entry
    from clew.service.audit.proof import SessionProof
    from clew.service.audit.verification import Audited
    from clew.service.audit.witnesses import WitnessState

# The most problems in the table; many more usually have one cause. --json prints all.
MOST_SHOWN = 50


def print_checkpoints(checkpoints: "list[CheckpointInfo]") -> None:
    if not checkpoints:
        click.echo("no checkpoints yet; make one with: clew audit checkpoint", err=True)
        return
    rows = (
        (str(checkpoint.number), moment(checkpoint.at), f"{checkpoint.size:,}", checkpoint.note.split("\n")[2])
        for checkpoint in checkpoints
    )
    table(("number", "made", "leaves", "root"), rows)


def print_proof(proof: "SessionProof") -> None:
    # The output includes the leaf, so that the file alone is enough.
    leaf = b64encode(proof.statement.encode()).decode()
    lines = ["c2sp.org/tlog-proof@v1", f"extra {leaf}", f"index {proof.index}", *proof.hashes, "", proof.checkpoint]
    click.echo("\n".join(lines), nl=False)
    click.echo(f"the leaf (extra) is: {plain(proof.statement)}", err=True)
    click.echo(f"session {proof.session} was at event {proof.seq} with digest {proof.digest}", err=True)
    if proof.since:
        click.echo("\nthe older checkpoint, and the proof that the newer begins with it:", err=True)
        click.echo(plain(proof.since) + "\n".join(proof.consistency), err=True)


def print_audit_session(found: "AuditedSession") -> None:
    proven = f"; checkpoint {found.checkpoint} proves 1 to {found.seq:,}" if found.checkpoint else ""
    click.echo(f"{found.session}: {found.events:,} events{proven}")
    for problem in found.problems:
        click.echo(problem)
    for note in found.notes:
        click.echo(note, err=True)


def print_entries(entries: "list[Entry]") -> None:
    if not entries:
        click.echo("no call matches", err=True)
        return
    rows = (
        (
            moment(entry.at), entry.principal, entry.operation, one_line(entry.target or entry.project, 40),
            "allowed" if entry.allowed else "refused", _why(entry),
        )
        for entry in entries
    )  # fmt: skip
    table(("when", "who", "what", "on what", "ruling", "why"), rows, wrapped="why")


def _why(entry: "Entry") -> str:
    arguments = bytes(entry.arguments).decode()
    return one_line(entry.because + (f" {arguments}" if arguments != "{}" else ""), 400)


def print_witnesses(states: "list[WitnessState]") -> None:
    if not states:
        click.echo("no witness yet; add one with: clew audit witness add ADDRESS", err=True)
        return
    rows = (
        (
            one_line(state.address, 60), str(state.number or ""), ago(state.at) if state.at else "never",
            f"{state.behind:,}" if state.behind else "", one_line(state.problem, 1000),
        )
        for state in states
    )  # fmt: skip
    table(("witness", "checkpoint", "countersigned", "behind", "problem"), rows, wrapped="problem")


def print_verified(result: "Audited") -> None:
    if result.problems:
        shown = result.problems[:MOST_SHOWN]
        table(("where", "problem"), ((problem.where, problem.what) for problem in shown), wrapped="problem")
        if len(result.problems) > len(shown):
            click.echo(f"... and {len(result.problems) - len(shown):,} more; --json prints all", err=True)
    click.echo(
        f"{count(result.sessions, 'log')} (control logs included), {count(result.events, 'event')}"
        + (f", {result.removed:,} without a body, on record" if result.removed else "")
        + f"; {count(result.checkpoints, 'checkpoint')}, {count(result.leaves, 'leaf', 'leaves')}"
        + (f", {result.countersigned} countersigned" if result.countersigned else "")
        + (f", {result.kept} kept elsewhere" if result.kept else "")
        + (f": {count(len(result.problems), 'problem')}" if result.problems else ": everything holds")
    )
    if result.beyond and result.checkpoints:
        click.echo(f"{count(result.beyond, 'event')} after the newest checkpoint, covered by the chains alone")
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
