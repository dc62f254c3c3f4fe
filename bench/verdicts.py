"""A measured ratio against its bar, and how a run of them is shown."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from measure import Figures
from rich.console import Console
from rich.table import Table

Unit = Literal["ms", "events/s", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One line of the table. `low` and `high` are the ratio in the calmest and the wildest part of the run."""

    database: str
    claim: str
    limit: Literal["at most", "at least"]
    bar: float | None  # None for a figure that is shown without a promise.
    ratio: float
    low: float
    high: float
    clew: str
    other: str

    @property
    def passed(self) -> bool | None:
        if self.bar is None:
            return None
        return self.ratio <= self.bar if self.limit == "at most" else self.ratio >= self.bar


def at_most(database: str, claim: str, bar: float, *, clew: Figures, other: Figures, unit: Unit = "ms") -> Verdict:
    """Judge how many times what the other takes clew may take."""
    return _verdict(database, claim, "at most", bar, clew, other, unit, _ratios(clew, other))


def at_least(
    database: str, claim: str, bar: float | None, *, clew: Figures, other: Figures, unit: Unit = "ms"
) -> Verdict:
    """Judge how many times what clew takes the other has to take."""
    return _verdict(database, claim, "at least", bar, clew, other, unit, _ratios(other, clew))


def _ratios(over: Figures, under: Figures) -> list[float]:
    """The ratio of the whole run, then the ratio of each of its parts."""
    parts = [high / low for high, low in zip(over.parts(), under.parts(), strict=False)]
    return [over.median / under.median, *parts]


def _verdict(
    database: str,
    claim: str,
    limit: Literal["at most", "at least"],
    bar: float | None,
    clew: Figures,
    other: Figures,
    unit: Unit,
    ratios: list[float],
) -> Verdict:
    return Verdict(
        database=database,
        claim=claim,
        limit=limit,
        bar=bar,
        ratio=ratios[0],
        low=min(ratios[1:]),
        high=max(ratios[1:]),
        clew=_shown(clew.median, unit),
        other=_shown(other.median, unit),
    )


def _shown(value: float, unit: Unit) -> str:
    match unit:
        case "ms":
            return f"{value * 1e3:.3g} ms"
        case "events/s":
            return f"{1 / value:,.0f}/s"
        case "bytes":
            return f"{value:,.0f} B"


def print_table(verdicts: Sequence[Verdict], *, machine: dict[str, str]) -> None:
    """Print the verdicts to standard output."""
    table = Table(title="clew against the raw log and its peers", caption=", ".join(machine.values()))
    for heading in ("database", "what", "clew", "other", "bar", "measured", "range", ""):
        table.add_column(heading, justify="left" if heading in ("database", "what", "") else "right", no_wrap=True)
    for verdict in verdicts:
        sign = "<=" if verdict.limit == "at most" else ">="
        table.add_row(
            verdict.database,
            verdict.claim,
            verdict.clew,
            verdict.other,
            "" if verdict.bar is None else f"{sign} {verdict.bar:g}x",
            f"{verdict.ratio:.3g}x",
            f"{verdict.low:.3g}-{verdict.high:.3g}",
            {True: "[green]pass[/]", False: "[bold red]MISS[/]", None: ""}[verdict.passed],
            end_section=verdict is verdicts[-1] or verdict.database != verdicts[verdicts.index(verdict) + 1].database,
        )
    console = Console()
    # A pipe has no width of its own, and a cut-off figure is worth nothing.
    console.width = max(console.width, 130)
    console.print(table)


def write_json(file: Path, verdicts: Sequence[Verdict], *, machine: dict[str, str]) -> None:
    """Write the verdicts for other programs to read."""
    rows = [asdict(verdict) | {"passed": verdict.passed} for verdict in verdicts]
    file.write_text(json.dumps({"machine": machine, "verdicts": rows}, indent=2) + "\n")
