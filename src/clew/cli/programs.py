"""Commands about agent programs: capture their sessions, go on with one in another, export, import, connect."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from clew.cli import CAPTURED, upkeep
from clew.cli.follower import following, is_worth_it
from clew.cli.options import complete_id, json_option
from clew.cli.output import print_json, table
from clew.model.errors import Conflict, InvalidInput, NotFound
from clew.model.plain import plain

FORMS = ["native", "jsonl", "markdown", "html", "atif", "copilot"]
FIELDS = ("runtime", "path", "session", "records", "events", "opaque", "quarantined", "error", "status", "note")


def commands() -> list[click.Command]:
    """All of them."""
    session = click.argument("session", metavar="ID", shell_complete=complete_id)
    runtime = click.argument("runtime", shell_complete=_complete_runtime)

    @click.command()
    @click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
    @click.option(
        "--runtime", default="", metavar="RUNTIME", help="Only this program.", shell_complete=_complete_runtime
    )
    @click.option("--home", default="", metavar="DIR", help="A home directory other than yours.")
    @click.option("--watch", is_flag=True, help="Go on capturing what comes.")
    @click.option("--spool", is_flag=True, help="Capture what hooks have reported.", hidden=True)
    @json_option
    @click.pass_obj
    def capture(
        plane: Any, paths: tuple[str, ...], runtime: str, home: str, watch: bool, spool: bool, as_json: bool
    ) -> None:
        """Capture the sessions of every agent program on this machine, and only what is new.

        With PATHs, only these files and folders; the program is told by what is in them.
        """
        if spool:
            from clew.cli.spool import drain

            drain(plane)
            return
        _capture(plane, list(paths), runtime, home, as_json=as_json)
        if watch:
            from clew.cli.remotes import flowing

            with flowing(plane):
                _watch(plane, list(paths), runtime, home, as_json=as_json)

    @click.command(name="import")
    @click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path())
    @click.option("--runtime", default="", help="The program that wrote it.", shell_complete=_complete_runtime)
    @json_option
    @click.pass_obj
    def import_(plane: Any, paths: tuple[str, ...], runtime: str, as_json: bool) -> None:
        """Import session files: of any agent program, ATIF, Copilot's interchange, or clew's own JSON lines."""
        _capture(plane, list(paths), runtime, "", as_json=as_json)

    @click.command()
    @session
    @click.option("--in", "runtime", metavar="RUNTIME", default="", help="Go on in this program.",
                  shell_complete=_complete_runtime)  # fmt: skip
    @click.option("--cwd", default="", metavar="DIR", help="The directory to work in. [default: the session's own]")
    @click.option("--at", type=int, metavar="SEQ", help="Go on from this event instead of the last.")
    @click.option("--print", "print_only", is_flag=True, help="Print the command instead of running it.")
    @click.option("--strict", is_flag=True, help="Refuse if anything would be dropped.")
    @click.option("--flatten", is_flag=True, help="Tell calls and results as text.")
    @click.option("--reason", default="", help="Why; kept in the log.")
    @click.option("--lease", type=int, metavar="EPOCH", help="The epoch of the lease you hold.")
    @json_option
    @click.pass_obj
    def resume(
        plane: Any, session: str, runtime: str, cwd: str, at: int | None, print_only: bool, strict: bool,
        flatten: bool, reason: str, lease: int | None, as_json: bool,
    ) -> None:  # fmt: skip
        """Go on with a session: in another agent program (--in), or here after a pause.

        With --in, the session is written in that program's own form and the program's own resume command is run.
        """
        if not runtime:
            if cwd or at or print_only or strict or flatten:
                raise InvalidInput("--cwd, --at, --print, --strict and --flatten belong to --in RUNTIME")
            result = plane.call("resume", session=session, reason=reason, lease=lease)
            _print(result, "resume", as_json=as_json)
            return
        wanted = {"runtime": runtime, "cwd": cwd, "at": at, "strict": strict, "flatten": flatten}
        try:
            made = plane.call("materialise", session=session, **wanted)
        except NotFound as error:
            from clew.cli.remotes import bring

            bring(plane, session, error)
            made = plane.call("materialise", session=session, **wanted)
        if as_json:
            print_json(made)
        else:
            _materialised(made)
        if not print_only:
            _run(plane, made)

    @click.command()
    @session
    @click.option("--as", "form", type=click.Choice(FORMS), default="markdown", show_default=True, help="The form.")
    @click.option("--out", "-o", default="", metavar="PATH", help="A file, or a folder for it. [default: stdout]")
    @click.option("--upto", type=int, metavar="SEQ", help="Only up to this event.")
    @click.option("--with-secrets", "secrets", is_flag=True, help="The exact bytes, with the secrets in them.")
    @click.option("--strict", is_flag=True, help="Refuse if anything would be dropped.")
    @json_option
    @click.pass_obj
    def export(
        plane: Any, session: str, form: str, out: str, upto: int | None, secrets: bool, strict: bool, as_json: bool
    ) -> None:  # fmt: skip
        """Export a session: its native files, or its conversation in a form others read. Secrets are masked."""
        files = plane.call("export", session=session, form=form, upto=upto, secrets=secrets, strict=strict)
        if not out and len(files) > 1:
            raise InvalidInput(f"the session has {len(files)} native files; name a folder with --out")
        written = [_save(out, file.name, file.data, several=len(files) > 1) if out else None for file in files]
        if as_json:
            print_json([_exported(path, file) for path, file in zip(written, files, strict=True)])
            return
        for path, file in zip(written, files, strict=True):
            if path:
                click.echo(path)
            else:
                sys.stdout.buffer.write(file.data)
                sys.stdout.buffer.flush()
            if form != "native":
                _told(file.fidelity)
        _masked(files)

    @click.command()
    @click.argument("session", metavar="[ID]", required=False, shell_complete=complete_id)
    @click.option("--project", default="", metavar="NAME", help="Only this project.")
    @json_option
    @click.pass_obj
    def scan(plane: Any, session: str | None, project: str, as_json: bool) -> None:
        """Look for secrets in a session, in a project or in everything. Shows where, never the secret."""
        _scan(plane, session, project, as_json=as_json)

    @click.command()
    @json_option
    @click.pass_obj
    def runtimes(plane: Any, as_json: bool) -> None:
        """List the agent programs clew knows: installed, connected, and what can be done with each."""
        _print(plane.call("runtimes"), "runtimes", as_json=as_json)

    def edit(name: str, help: str) -> click.Command:
        @click.command(name=name, help=help)
        @runtime
        @click.option("--dry-run", is_flag=True, help="Show the changes and make none.")
        @click.option("-y", "--yes", is_flag=True, help="Do not ask.")
        @json_option
        @click.pass_obj
        def run(plane: Any, runtime: str, dry_run: bool, yes: bool, as_json: bool) -> None:
            _edit(plane, name, runtime, dry_run=dry_run, yes=yes, as_json=as_json)

        return run

    return [
        capture,
        import_,
        resume,
        export,
        scan,
        runtimes,
        edit("connect", "Connect an agent program: show the change to its settings, then make it."),
        edit("disconnect", "Disconnect an agent program: take out exactly what connecting put in."),
    ]


def _print(result: Any, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    from clew.cli.render import RENDER

    RENDER[name](result)


def _complete_runtime(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from clew.runtimes import names

    return [CompletionItem(name) for name in names() if name.startswith(incomplete)]


# Capture --------------------------------------------------------------------------------------------------------------


def _capture(plane: Any, paths: list[str], runtime: str, home: str, *, as_json: bool, quiet: bool = False) -> None:
    # Before it is opened, and so before anything is asked of it.
    store = _fingerprints_of_store(plane.settings)
    finds = plane.call("capture_find", runtime=runtime, home=home, paths=paths or None)
    reports = []
    for report in _captured(plane, finds, progress=not as_json and not quiet):
        reports.append(report)
        if as_json and not (quiet and report.status == "same"):
            print_json({name: getattr(report, name) for name in FIELDS})
    if not paths and not home and not any(one.error for one in reports):
        from clew.cli import background

        background.save_failures(plane.settings.home, runtime, [])
    if as_json and not quiet:
        print_json(totals(reports))
    elif not as_json:
        _summary(reports, quiet=quiet)
    if store is not None and reports and not (paths or home or runtime or finds.changed):
        from clew.capture_cache import save_report
        from clew.runtimes import variables

        fingerprints = {**finds.fingerprints, **store}
        save_report(str(plane.settings.home), fingerprints, variables(), _rows(reports))


def _fingerprints_of_store(settings: Any) -> dict[str, str | None] | None:
    """The fingerprints of the store's files and of the list of failures; None if no later capture could check them."""
    from clew import app
    from clew.capture_cache import fingerprint
    from clew.cli import background

    path = os.path.expanduser(settings.store.removeprefix("sqlite:///"))
    # Another store than a plain `clew capture` would ask, here or in another folder.
    if settings != app.settings() or not settings.store.startswith("sqlite:///") or not os.path.isabs(path):
        return None
    paths = (path, f"{path}-wal")
    return {**{name: fingerprint(name) for name in paths}, str(background.failures_path(settings.home)): None}


def _captured(plane: Any, finds: Any, *, progress: bool) -> Iterator[Any]:
    """The report of each file, with a bar on a terminal."""
    yield from finds.unchanged
    total = sum(one.size for one in finds.changed)
    if is_worth_it(total):
        with following(plane):
            yield from _with_bar(plane, finds.changed, total, progress=progress)
    elif finds.changed:
        yield from _with_bar(plane, finds.changed, total, progress=progress)
        upkeep.catch_up(plane)


def _with_bar(plane: Any, files: list[Any], total: int, *, progress: bool) -> Iterator[Any]:
    from clew.service.capture.capture import split_into_portions

    if not progress or not sys.stderr.isatty():
        for portion in split_into_portions(files):
            yield from plane.call("capture", files=portion)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("capturing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("capture", total=total)
        for portion in split_into_portions(files, most_bytes=4 * 1024 * 1024):
            yield from plane.call("capture", files=portion)
            bar.advance(task, sum(one.size for one in portion))


def totals(reports: list[Any]) -> dict[str, Any]:
    """All reports in one: the counts added up, and how many files went which way."""
    states = Counter(report.status for report in reports)
    counted = {
        name: sum(getattr(one, name) for one in reports) for name in ("records", "events", "opaque", "quarantined")
    }
    return {
        "total": True, "files": len(reports), "found": len(reports), "new": states["new"],
        "grown": states["grown"] + states["rewritten"], "same": states["same"], "failed": states["failed"],
        "damaged": sum(one.quarantined > 0 for one in reports), **counted,
        "errors": sum(bool(one.error) for one in reports),
    }  # fmt: skip


def _summary(reports: list[Any], *, quiet: bool) -> None:
    if not reports and not quiet:
        click.echo("no sessions of any known agent program found; `clew runtimes` shows where clew looks", err=True)
        return
    changed = [one for one in reports if one.status != "same"]
    if not quiet:
        table(CAPTURED, _rows(reports))  # A file that failed is named below.
    else:
        for one in changed:
            click.echo(f"{one.status}: {plain(one.session[:10])} {plain(one.path)}")
    for one in reports:
        if one.error:
            click.echo(f"{plain(one.path)}: {plain(one.error)}", err=True)


def _rows(reports: list[Any]) -> list[list[str]]:
    """A row for each program, and one for all of them together."""
    by: dict[str, list[Any]] = {}
    for report in reports:
        by.setdefault(report.runtime, []).append(report)
    rows = [(name, totals(of)) for name, of in sorted(by.items())]
    rows += [("all", totals(reports))] if len(rows) > 1 else []
    return [[name, *(f"{row[column]:,}" for column in CAPTURED[1:])] for name, row in rows]


def _watch(plane: Any, paths: list[str], runtime: str, home: str, *, as_json: bool) -> None:
    """Capture again whenever something below the programs' folders changes, until interrupted."""
    from watchfiles import watch

    from clew.runtimes import runtime as named
    from clew.runtimes import runtimes
    from clew.service.capture.discovery import home_of

    wanted = [named(runtime)] if runtime else list(runtimes())
    roots = paths or [str(home_of(one, home)) for one in wanted if one.home]
    there = [root for root in roots if os.path.exists(root)]
    if not there:
        raise InvalidInput("none of the programs' folders is there to watch; `clew runtimes` shows where clew looks")
    if not as_json:
        click.echo(f"watching {len(there)} folders; stop with Ctrl-C", err=True)
    try:
        for _ in watch(*there, debounce=400, step=100):
            _capture(plane, paths, runtime, home, as_json=as_json, quiet=True)
    except KeyboardInterrupt:
        return


# Resume ---------------------------------------------------------------------------------------------------------------


def _materialised(made: Any) -> None:
    """What became of the conversation, to a person; the command itself to stdout."""
    click.echo(f"session: {made.session}", err=True)
    _told(made.fidelity)
    for path in made.files:
        click.echo(f"file: {plain(path)}", err=True)
    for note in made.notes:
        click.echo(f"note: {plain(note)}", err=True)
    settings = "".join(f"{name}={_quoted(value)} " for name, value in made.env.items())
    click.echo(f"cd {_quoted(made.cwd)} && {settings}{' '.join(map(_quoted, made.command))}")


def _quoted(word: str) -> str:
    """A word for the shell; what a terminal would obey is spelled out."""
    import shlex

    if plain(word) == word:
        return shlex.quote(word)
    spelled = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in os.fsencode(word))
    return f"$'{''.join(spelled)}'"


def _told(fidelity: Any) -> None:
    """What was carried, adapted and dropped, to a person."""
    carried = ", ".join(_counted(count, name) for name, count in fidelity.carried.items())
    click.echo(f"carried: {carried or 'nothing'}", err=True)
    for word, changes in (("adapted", fidelity.adapted), ("dropped", fidelity.dropped)):
        for one in changes:
            click.echo(f"{word}: {plain(_counted(one.count, one.what))} ({one.why})", err=True)


def _counted(count: int, name: str) -> str:
    if count != 1:
        return f"{count:,} {name}"
    noun = name
    for word in (" of ", " before ", " without "):
        noun = noun.partition(word)[0]
    return f"1 {' or '.join(one.removesuffix('s') for one in noun.split(' and '))}{name.removeprefix(noun)}"


def _run(plane: Any, made: Any) -> None:
    """Run the program, then capture what it added."""
    import subprocess

    if not os.path.isdir(made.cwd):
        raise InvalidInput(f"{made.cwd} is not there; name the directory with --cwd")
    try:
        done = subprocess.run(made.command, cwd=made.cwd, env={**os.environ, **made.env}, check=False)
    except FileNotFoundError:
        raise InvalidInput(f"{made.command[0]} is not on the PATH; install it, or use --print") from None
    _capture(plane, [], made.runtime, "", as_json=False, quiet=True)
    raise click.exceptions.Exit(done.returncode)


# Secrets --------------------------------------------------------------------------------------------------------------


def _masked(files: list[Any]) -> None:
    """How many secrets were masked, to a person."""
    rules = Counter[str]()
    for file in files:
        rules.update(file.masked)
    if rules:
        kinds = ", ".join(f"{times:,} {rule}" for rule, times in rules.most_common())
        click.echo(f"masked: {_counted(rules.total(), 'secrets')} ({kinds}); --with-secrets keeps them", err=True)


def _scan(plane: Any, session: str | None, project: str, *, as_json: bool) -> None:
    found: list[Any] = []
    rules = Counter[str]()
    events = size = 0
    for portion in _scanned(plane, session, project, progress=not as_json and sys.stderr.isatty()):
        found += portion.found
        rules.update(portion.rules)
        events, size = events + portion.events, size + portion.bytes
        if as_json:
            print_json(portion.found)
    sessions = len({one.session for one in found})
    total = {
        "total": True, "secrets": rules.total(), "rules": dict(rules.most_common()), "sessions": sessions,
        "events": events, "bytes": size,
    }  # fmt: skip
    if as_json:
        print_json(total)
        return
    from clew.cli.render import secrets

    secrets(found, total)


def _scanned(plane: Any, session: str | None, project: str, *, progress: bool) -> Iterator[Any]:
    """The log, a portion at a time, with a bar on a terminal."""
    if not progress:
        yield from _portions(plane, session, project)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    end = plane.call("show", session=session).session.head if session else plane.client.last_position()
    columns = (TextColumn("looking for secrets"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scan", total=end)
        for portion in _portions(plane, session, project):
            bar.update(task, completed=portion.next or end)
            yield portion


def _portions(plane: Any, session: str | None, project: str) -> Iterator[Any]:
    after: int | None = 0
    while after is not None:
        portion = plane.call("scan", session=session, project=project, after=after)
        after = portion.next
        yield portion


# Export and settings --------------------------------------------------------------------------------------------------


def _exported(path: str | None, file: Any) -> dict[str, Any]:
    """An exported file as one object, with its text where it went to no file."""
    told = {"file": path, "bytes": len(file.data), "masked": file.masked, "fidelity": file.fidelity}
    if path:
        return told
    try:
        return {**told, "text": file.data.decode()}
    except UnicodeDecodeError:
        raise InvalidInput(f"{file.name} is no text, so it cannot be told as JSON; name a file with --out") from None


def _save(out: str, name: str, data: bytes, *, several: bool) -> str:
    """Write an exported file, never over another."""
    place = Path(out)
    if several or place.is_dir() or out.endswith("/"):
        place.mkdir(parents=True, exist_ok=True)
        place = place / Path(name).name
    try:
        with open(place, "xb") as file:
            file.write(data)
    except FileExistsError:
        raise Conflict(f"{place} is there already and was left alone; name another with --out") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {place}: {error.strerror}") from error
    return str(place)


def _edit(plane: Any, name: str, runtime: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    planned = plane.call(name, runtime=runtime, dry_run=True)
    if not as_json:
        for change in planned.changes:
            click.echo(plain(change.diff))
        if not planned.changes:
            click.echo(f"nothing to do: {runtime} is {name}ed already")
    if planned.changes and not dry_run:
        if not yes:
            if as_json or not sys.stdin.isatty():
                raise InvalidInput(f"{name} changes settings of another program; repeat the command with --yes")
            click.confirm("Make this change?", abort=True, err=True)
        planned = plane.call(name, runtime=runtime)
    if as_json:
        print_json(planned)
    elif planned.by_hand and not dry_run:
        click.echo(planned.by_hand)
