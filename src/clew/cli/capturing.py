"""A capture with a progress bar and a table, once or whenever a file changes."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import click

from clew.cli import CAPTURED, upkeep
from clew.cli.follower import following, is_worth_it
from clew.cli.output import print_json, table
from clew.cli.progress import OnProgress, progress
from clew.cli.pushing import pushes_if_wanted
from clew.cli.results.counts import count
from clew.model.errors import ClewError, InvalidInput
from clew.model.plain import plain
from clew.service.capture.report import COPY_OF, UNKNOWN

FIELDS = ("runtime", "path", "session", "records", "events", "opaque", "quarantined", "error", "status", "note")


def capture(plane: Any, paths: list[str], runtime: str, home: str, *, as_json: bool, quiet: bool = False) -> None:
    # Before the store is opened, because opening changes its files.
    store = _fingerprints_of_store(plane.settings)
    finds = plane.call("capture_find", runtime=runtime, home=home, paths=paths or None)
    reports = _reports(plane, finds, as_json=as_json, quiet=quiet)
    has_failed = any(report.error for report in reports)
    if not (paths or home or has_failed):
        from clew.service.capture import in_background

        in_background.save_failures(plane.settings.home, runtime, [])
    _print_totals(reports, as_json=as_json, quiet=quiet)
    if finds.foreign_json and not as_json and not quiet:
        documents = count(finds.foreign_json, "file of JSON is", "files of JSON are")
        click.echo(f"{documents} of no program that clew reads, and left alone", err=True)
    if store is not None and reports and not (paths or home or runtime or finds.changed):
        _cache_report(plane.settings, {**finds.fingerprints, **store}, reports)


def _reports(plane: Any, finds: Any, *, as_json: bool, quiet: bool) -> list[Any]:
    """Capture, and return the report of each file; as JSON each is printed as it comes."""
    reports: list[Any] = []
    try:
        for report in _captured(plane, finds, shown=not as_json and not quiet):
            reports.append(report)
            if as_json:
                _print_report(report, quiet=quiet)
    except ClewError:
        # The log takes nothing more, for example because the disk is full.
        if reports:
            _print_totals(reports, as_json=as_json, quiet=quiet)
        raise
    return reports


def _print_report(report: Any, *, quiet: bool) -> None:
    """Print the report of one file as JSON; a quiet capture leaves out files that did not change."""
    if not quiet or report.status != "same":
        print_json({name: getattr(report, name) for name in FIELDS})


def _print_totals(reports: list[Any], *, as_json: bool, quiet: bool) -> None:
    if not as_json:
        print_summary(reports, quiet=quiet)
    elif not quiet:
        print_json(totals(reports))


def _cache_report(settings: Any, fingerprints: dict[str, str | None], reports: list[Any]) -> None:
    """Cache the table of this capture; it is valid while every fingerprint is unchanged."""
    from clew.capture_cache import save_report
    from clew.runtimes import variables

    save_report(str(settings.home), fingerprints, variables(), _rows(reports))


def _fingerprints_of_store(settings: Any) -> dict[str, str | None] | None:
    """The fingerprints of the store's files and of the list of failures; None if no later capture could check them."""
    from clew import app
    from clew.capture_cache import fingerprint
    from clew.service.capture import in_background

    path = os.path.expanduser(settings.store.removeprefix("sqlite:///"))
    # A plain `clew capture`, here or in another folder, would open another store.
    if settings != app.settings() or not settings.store.startswith("sqlite:///") or not os.path.isabs(path):
        return None
    paths = (path, f"{path}-wal")
    return {**{name: fingerprint(name) for name in paths}, str(in_background.failures_path(settings.home)): None}


def _captured(plane: Any, finds: Any, *, shown: bool) -> Iterator[Any]:
    """The report of each file, with a progress bar on a terminal."""
    yield from finds.unchanged
    yield from finds.damaged
    total = sum(file.size for file in finds.changed)
    if is_worth_it(total):
        with following(plane):
            yield from _with_bar(plane, finds.changed, total, shown=shown)
    elif finds.changed:
        yield from _with_bar(plane, finds.changed, total, shown=shown)
        upkeep.catch_up(plane)


def _with_bar(plane: Any, files: list[Any], total: int, *, shown: bool) -> Iterator[Any]:
    from clew.service.capture.changed_files import split_into_portions

    with progress("capturing", shown=shown) as on_progress:
        done = 0
        for portion in split_into_portions(files):
            # What this portion reports comes after all that was captured before it.
            report_from = partial(_report_from, on_progress, done, total) if on_progress else None
            yield from plane.call_reporting(report_from, "capture", files=portion)
            done += sum(file.size for file in portion)


def _report_from(on_progress: OnProgress, before: int, total: int, done: int, _: int) -> None:
    on_progress(before + done, total)


def totals(reports: list[Any]) -> dict[str, Any]:
    """The sums of all reports, and how many files are new, grown, unchanged or failed."""
    states = Counter(report.status for report in reports)
    sums = {
        name: sum(getattr(report, name) for report in reports)
        for name in ("records", "events", "opaque", "quarantined")
    }
    return {
        "total": True, "files": len(reports), "found": len(reports), "new": states["new"],
        "grown": states["grown"] + states["rewritten"], "same": states["same"], "failed": states["failed"],
        "damaged": sum(report.quarantined > 0 for report in reports), **sums,
        "errors": sum(bool(report.error) for report in reports),
    }  # fmt: skip


def print_summary(reports: list[Any], *, quiet: bool) -> None:
    if not reports and not quiet:
        click.echo("no sessions of any known agent program found; `clew runtimes` shows where clew looks", err=True)
        return
    changed = [report for report in reports if report.status != "same"]
    if not quiet:
        table(CAPTURED, _rows(reports))  # The files that failed are named below.
    else:
        for report in changed:
            click.echo(f"{report.status}: {plain(report.session[:10])} {plain(report.path)}")
    copies = sum(report.note.startswith(COPY_OF) for report in reports)
    if copies and not quiet:
        click.echo(f"{count(copies, 'file is a copy', 'files are copies')} of what was captured before", err=True)
    _print_problems(reports)


def _print_problems(reports: list[Any]) -> None:
    """Print each error and each warning once, with the first file that has it."""
    paths: dict[str, list[str]] = {}
    for report in reports:
        problem = report.error or (f"warning: {report.note}" if report.note.startswith(UNKNOWN) else "")
        if problem:
            paths.setdefault(problem, []).append(report.path)
    for problem, (first, *others) in paths.items():
        more = f" and {len(others):,} more" if others else ""
        click.echo(f"{plain(first)}{more}: {plain(problem)}", err=True)


def _rows(reports: list[Any]) -> list[list[str]]:
    """A row for each program, and a row for all programs."""
    by_runtime: dict[str, list[Any]] = {}
    for report in reports:
        by_runtime.setdefault(report.runtime, []).append(report)
    rows = [(name, totals(group)) for name, group in sorted(by_runtime.items())]
    rows += [("all", totals(reports))] if len(rows) > 1 else []
    return [[name, *(f"{row[column]:,}" for column in CAPTURED[1:])] for name, row in rows]


def watch(plane: Any, paths: list[str], runtime: str, home: str, *, as_json: bool) -> None:
    """Capture again whenever something below the programs' folders changes, until interrupted."""
    from clew.runtimes import resolve, runtimes
    from clew.runtimes import runtime as named
    from clew.service.capture.discovery import home_of

    wanted = [named(resolve(runtime))] if runtime else list(runtimes())
    roots = paths or [str(home_of(program, home)) for program in wanted if program.home]
    folders = [root for root in roots if os.path.exists(root)]
    if not folders:
        raise InvalidInput("none of the programs' folders exists; `clew runtimes` shows where clew looks")
    from clew.consumers.capture import Captures
    from clew.consumers.runner import Runner

    if not as_json:
        click.echo(f"watching {len(folders)} folders; stop with Ctrl-C", err=True)
    captures = Captures(folders, lambda: capture(plane, paths, runtime, home, as_json=as_json, quiet=True))
    runner = Runner(
        plane.client.context.store, [captures, *pushes_if_wanted(plane)], lambda text: click.echo(plain(text), err=True)
    )  # fmt: skip
    with suppress(KeyboardInterrupt):
        runner.run()
