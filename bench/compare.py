"""Measures two trees of clew in one run, and reports what is slower or larger in the new one.

    python bench/compare.py BASE [--quick] [--only NAME] [--json FILE]

BASE is a checkout of the old tree; the new one is this checkout. Both run in this environment, the old one a second
time as the control. In each round every tree gets fresh processes; their steps take turns, so that a disturbance
of the machine disturbs all of them, and only ratios of neighbours count. What is unclear then is measured again.
"""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path.append(str(_HERE.parent / "tests"))  # for the private PostgreSQL server; last, it must hide nothing

from commands import CommandFailed, Commands  # noqa: E402
from pairing import AFTER, BEFORE, CONTROL, LIMIT, NAMES, ORDERS, Comparison, compare  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from trees import Tree, WorkerFailed, empty  # noqa: E402
from workloads import (  # noqa: E402
    FULL,
    QUICK,
    Ask,
    Capture,
    Effort,
    Find,
    HandOver,
    Http,
    Log,
    Start,
    Workload,
    unit_of,
)

Taken = dict[str, list[list[float]]]
"""The samples of one figure, by tree and round."""
Samples = dict[str, dict[str, Taken]]
"""Those of every figure, by step."""


def main() -> int:
    """Run the comparison; return the exit status."""
    options = _options()
    effort = QUICK if options.quick else FULL
    options.work.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # What was measured until then is shown.
    comparisons: list[Comparison] = []
    failures: list[str] = []
    began = time.monotonic()
    # On the disk of the checkout: a temporary directory may be in memory, where durability costs nothing.
    with tempfile.TemporaryDirectory(dir=options.work) as scratch, ExitStack() as opened:
        trees = _trees(options.base, options.after, Path(scratch))
        for workload, steps in _chosen(_workloads(effort, opened), options.only):
            _note(f"{workload.name}: {', '.join(steps)}")
            samples: Samples = {}
            interrupted = False
            try:
                measure(workload, steps, trees, effort, began + effort.minutes * 60, samples)
            except KeyboardInterrupt:
                interrupted = True
                failures.append(f"the rest of {workload.name}, and what comes after it: interrupted")
            except (WorkerFailed, CommandFailed) as failure:
                failures.append(f"the rest of {workload.name}: {failure}")
            for figures in samples.values():
                for figure, taken in figures.items():
                    if finished := _finished(taken):
                        comparisons.append(compare(f"{workload.name}: {figure}", unit_of(figure), finished))
            if interrupted:
                break
            for name in NAMES:
                empty(trees[name].folder)
    _print(comparisons, failures, seconds=time.monotonic() - began)
    if options.json:
        _write_json(options.json, comparisons, failures, base=options.base, quick=options.quick)
    worse = any(comparison.verdict == "WORSE" for comparison in comparisons)
    return 1 if failures or not comparisons or (worse and options.strict) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=_checkout, metavar="BASE", help="a checkout of the old tree")
    parser.add_argument(
        "--after",
        type=_checkout,
        default=_HERE.parent,
        metavar="DIR",
        help="a checkout of the new tree [default: this]",
    )
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds: a first look, not a result")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="only figures with this in their name; repeatable"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file as well")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a figure is worse")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR", help="where the data goes")
    return parser.parse_args()


def _checkout(text: str) -> Path:
    path = Path(text).resolve()
    if not (path / "src" / "clew" / "__init__.py").is_file():
        raise argparse.ArgumentTypeError(f"{text} is not a checkout of clew: it has no src/clew")
    return path


def _trees(base: Path, after: Path, work: Path) -> dict[str, Tree]:
    sources = {BEFORE: base / "src", AFTER: after / "src", CONTROL: base / "src"}
    return {
        name: Tree(name=name, source=source, folder=empty(work / name), pycache=work / "pycache")
        for name, source in sources.items()
    }


def _workloads(effort: Effort, opened: ExitStack) -> Iterator[Workload]:
    """The workloads, one after the other; a PostgreSQL server is started for the first that needs it."""
    commands = opened.enter_context(Commands())
    servers: list[Any] = []

    def postgres(_: Tree) -> str:
        from support.postgres import Server

        if not servers:
            servers.append(opened.enter_context(Server()))
        return str(servers[0].new_database())

    def sqlite(tree: Tree) -> str:
        return tree.store

    yield Start(effort, commands)
    yield Log("sqlite", effort, sqlite, effort.slices)
    yield Log("postgres", effort, postgres, effort.remote_slices)
    yield Http(effort)
    yield Find("find, sqlite", effort, commands, sqlite, effort.slices)
    yield Find("find, postgres", effort, commands, postgres, effort.remote_slices)
    yield Capture(effort, commands)
    yield HandOver(effort, commands)


def _chosen(workloads: Iterator[Workload], only: Sequence[str]) -> Iterator[tuple[Workload, list[str]]]:
    """The workloads with those of their steps that have one of the names in their own."""
    for workload in workloads:
        steps = [
            step
            for step, title in workload.steps.items()
            if not only or any(name.lower() in f"{workload.name}: {title}".lower() for name in only)
        ]
        if steps:
            yield workload, steps


# Measuring ------------------------------------------------------------------------------------------------------------


def measure(
    workload: Workload, steps: Sequence[str], trees: dict[str, Tree], effort: Effort, until: float, samples: Samples
) -> None:
    """Run the steps in all trees, in turn, and those with an unclear figure again; fills in the samples."""
    for name in NAMES:
        workload.prepare(trees[name])
    for number in range(effort.rounds + effort.more_rounds):
        if number >= effort.rounds:
            steps = _unclear(steps, samples) if time.monotonic() < until else ()
        if not steps:
            break
        _round(workload, steps, trees, number, samples)
        _note(f"{workload.name}: round {number + 1}, {', '.join(steps)}")


def _round(workload: Workload, steps: Sequence[str], trees: dict[str, Tree], number: int, samples: Samples) -> None:
    with _opened(workload, trees, number) as asks:
        os.sync()  # Dirty pages of the preparation must not slow a measurement.
        for name in NAMES if workload.warms_up else ():
            for step in steps:
                asks[name](step)
        for turn in range(workload.slices):
            for step in steps:
                for name in ORDERS[(number * workload.slices + turn) % len(ORDERS)]:
                    for figure, value in asks[name](step).items():
                        taken = samples.setdefault(step, {}).setdefault(figure, {each: [] for each in NAMES})[name]
                        if len(taken) == number:
                            taken.append([])
                        taken[number].append(value)


def _finished(taken: Taken) -> Taken:
    """The samples of rounds that no failure cut short; empty when there are none."""
    rounds = [
        number
        for number in range(min(map(len, taken.values())))
        if len({len(taken[name][number]) for name in NAMES}) == 1
    ]
    return {name: [taken[name][number] for number in rounds] for name in NAMES} if rounds else {}


def _unclear(steps: Sequence[str], samples: Samples) -> list[str]:
    return [
        step
        for step in steps
        if any(compare(figure, "", taken).verdict == "unclear" for figure, taken in samples[step].items())
    ]


@contextmanager
def _opened(workload: Workload, trees: dict[str, Tree], number: int) -> Iterator[dict[str, Ask]]:
    """Fresh processes of all trees, started in turn."""
    with ExitStack() as opened:
        asks: dict[str, Callable[[str], dict[str, float]]] = {}
        for name in ORDERS[number % len(ORDERS)]:
            asks[name] = opened.enter_context(workload.open(replace(trees[name], seed=number + 1)))
        yield asks


def _note(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


# Showing --------------------------------------------------------------------------------------------------------------


def _print(comparisons: Sequence[Comparison], failures: Sequence[str], *, seconds: float) -> None:
    if comparisons:
        console = Console()
        # A pipe has no width of its own, and a cut-off figure is worth nothing.
        console.width = max(console.width, 130)
        console.print(_table(comparisons, seconds))
        worse = sum(comparison.verdict == "WORSE" for comparison in comparisons)
        print(f"{worse} of {len(comparisons)} figures are worse by more than {LIMIT:.0%} and the noise")
    for failure in failures:
        print(f"not measured: {failure}")


def _table(comparisons: Sequence[Comparison], seconds: float) -> Table:
    table = Table(
        title=f"before and after, in {seconds / 60:.1f} minutes",
        caption="ratio: after to before, median of pairs; control: before to before",
    )
    for heading in ("figure", "before", "after", "ratio", "95 %", "control", "noise", "verdict"):
        table.add_column(heading, justify="left" if heading in ("figure", "verdict") else "right", no_wrap=True)
    styles = {"WORSE": "bold red", "unclear": "yellow", "better": "green", "same": ""}
    for comparison in comparisons:
        style = styles[comparison.verdict]
        table.add_row(
            comparison.figure,
            shown(comparison.before, comparison.unit),
            shown(comparison.after, comparison.unit),
            f"{comparison.ratio:.3f}",
            f"{comparison.low:.2f} to {comparison.high:.2f}",
            f"{comparison.control:.3f}",
            f"{comparison.noise:.1%}",
            f"[{style}]{comparison.verdict}[/]" if style else comparison.verdict,
        )
    return table


def shown(value: float, unit: str) -> str:
    """A figure with its unit."""
    match unit:
        case "s":
            return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.2f} s"
        case "bytes":
            return f"{value / 1e6:.1f} MB"
        case _:
            return f"{value:.2f}x"


def _write_json(
    file: Path, comparisons: Sequence[Comparison], failures: Sequence[str], *, base: Path, quick: bool
) -> None:
    about = {"python": platform.python_version(), "cores": os.cpu_count(), "base": str(base), "quick": quick}
    figures = [asdict(comparison) for comparison in comparisons]
    file.write_text(json.dumps({"run": about, "figures": figures, "failures": list(failures)}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
