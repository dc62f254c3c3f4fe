"""Facts, decisions and progress for people."""

from typing import TYPE_CHECKING

import click

from clew.cli.output import one_line, table
from clew.cli.times import ago
from clew.model.plain import plain

if TYPE_CHECKING:
    import msgspec

    from clew.service.knowledge.recall import Recall, Recalled
    from clew.service.knowledge.remember import Decided, Noted, Remembered


def print_scratch(values: "dict[str, msgspec.Raw]") -> None:
    for name, value in values.items():
        click.echo(f"{plain(name)} = {plain(bytes(value).decode())}")


def print_remember(fact: "Remembered") -> None:
    click.echo(fact.fact)
    click.echo(f"kept in {fact.session} as event {fact.seq}; find it with: clew recall", err=True)


def print_decide(decision: "Decided") -> None:
    click.echo(decision.decision)
    click.echo(f"kept in {decision.session} as event {decision.seq}; find it with: clew recall", err=True)


def print_progress(noted: "Noted") -> None:
    click.echo(f"{noted.session} event {noted.seq}")


print_retire = print_reverse = print_progress


def print_recall(result: "Recall") -> None:
    if not result.found:
        more = f"; to search older entries: --after {result.next}" if result.next else ""
        click.echo(f"nothing recorded fits{more}", err=True)
        return
    if result.found[0].score:
        answers = (
            (one.session[:10], str(one.seq), ago(one.at), one.kind, one.trust, one_line(one.text), one.why)
            for one in result.found
        )
        table(("session", "seq", "when", "kind", "from", "what it says", "why"), answers, wrapped="what it says")
        return
    rows = (
        (entry.session[:10], str(entry.seq), ago(entry.at), entry.kind, entry.id, _in_one_line(entry))
        for entry in result.found
    )
    table(("session", "seq", "when", "kind", "id", "what is known"), rows, wrapped="what is known")
    if result.next:
        click.echo(f"the next page: --after {result.next}", err=True)


def _in_one_line(entry: "Recalled") -> str:
    """The fact, the choice with its reason, or the progress: done, next and open."""
    parts = [entry.text] if entry.kind != "progress" else [f"done: {entry.text}"] if entry.text else []
    parts += [f"because {entry.why}"] if entry.why else []
    parts += [f"not {', '.join(entry.rejected)}"] if entry.rejected else []
    parts += [f"next: {entry.next}"] if entry.next else []
    parts += [f"open: {'; '.join(entry.open)}"] if entry.open else []
    return one_line("; ".join(parts), 400)
