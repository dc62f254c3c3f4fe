"""`clew doctor`: what clew depends on, looked at one by one: the home, the disk, the store, its chains and views."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew import app
from clew.model.errors import ClewError, Damaged, Unavailable
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.store import Store
    from clew.store.maintenance import RowSecurity

# A job is late after so many of its periods.
LATE_PERIODS = 3
# Events that no checkpoint covers for so long are not signed by anything that runs.
LATE_CHECKPOINT_DAYS = 3
# Clocks of machines that share a store may differ by so much.
WRONG_CLOCK_DAYS = 1 / 24
DAY_US = 86_400_000_000
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "sshfs"}
# How the kernel writes a blank in the path of a mount.
_OCTAL = re.compile(r"\\([0-7]{3})")
KEEP_RUNNING = "keep `clew up`, `clew serve` or `clew worker` running, or run `clew worker --once` from cron"
# A witness may be away for so long.
LATE_WITNESS_US = 10 * 60 * 1_000_000


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `clew doctor`: what was looked at, whether it is well, and what to do if not."""

    what: str
    ok: bool
    found: str
    advice: str = ""


def diagnose(chosen: app.Settings) -> list[Finding]:
    """Look at everything clew depends on; what is wrong with it is a finding, never an error."""
    import platform

    import clew

    findings = [Finding(what="clew", ok=True, found=f"{clew.__version__} on Python {platform.python_version()}")]
    findings += _connections(chosen.home) + _programs(chosen.home)
    if app.is_remote(chosen.store):
        return [*findings, _server(chosen)]
    if chosen.store.startswith("sqlite:///"):
        home = Path(chosen.store.removeprefix("sqlite:///")).expanduser().absolute().parent
        findings += [_home(home), *_network_disk(home), _free_disk(home)]
    return findings + _store(chosen)


def _connections(home: Path) -> list[Finding]:
    """Whether agent programs still run what `clew connect` wrote into their settings."""
    from clew.service.capture.connect import changed_settings
    from clew.service.capture.connected import check_private, connected_commands

    findings = [
        Finding(
            what="connection",
            ok=False,
            found=f"{change.path} is not as `clew connect` left it: {_first_change(change.diff)}",
            advice="look at what changed it; `clew connect` writes clew's entries again",
        )
        for change in changed_settings(home)
    ]
    known = connected_commands(home)
    for name, commands in known.items():
        try:
            check_private([word for word in commands.hook if word.startswith("/")][:2])
        except ClewError as error:
            findings.append(Finding(what="connection", ok=False, found=f"{name}: {error}"))
    if known and not findings:
        findings.append(Finding(what="connection", ok=True, found=f"{', '.join(sorted(known))}: as clew wrote it"))
    return findings


def _programs(home: Path) -> list[Finding]:
    """Agent programs that are newer than what was proven, and connected ones whose hooks never run."""
    from clew.service.capture.connect import known_programs

    return [
        Finding(what="program", ok=not program.hooks_silent, found=advice, advice="")
        for program in known_programs(home)
        for advice in program.advice
    ]


def _first_change(diff: str) -> str:
    """The first line that is not what clew wrote."""
    lines = [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return plain(lines[0].strip())[:200] if lines else plain(diff)[:200]


def _server(chosen: app.Settings) -> Finding:
    try:
        remote = app.remote(chosen)
        return Finding(what="server", ok=True, found=f"{remote.url} lets you in as {remote.principal}")
    except ClewError as error:
        return Finding(what="server", ok=False, found=str(error), advice=f"error code {error.code}")


def _home(home: Path) -> Finding:
    if not home.exists():
        parent = next(folder for folder in home.parents if folder.exists())
        ok = os.access(parent, os.W_OK | os.X_OK)
        return Finding(
            what="home", ok=ok,
            found=f"{home} (made on first use)" if ok else f"{home} cannot be made: {parent} cannot be written",
            advice="" if ok else "set CLEW_HOME to a folder of yours",
        )  # fmt: skip
    mode = home.stat().st_mode & 0o777
    if not os.access(home, os.W_OK | os.X_OK):
        return Finding(
            what="home", ok=False, found=f"{home} cannot be written", advice="set CLEW_HOME to a folder of yours"
        )
    if mode & 0o077:
        return Finding(
            what="home", ok=False, found=f"{home} is open to others (mode {mode:o})", advice=f"chmod 700 {home}"
        )
    return Finding(what="home", ok=True, found=f"{home} (private)")


def _network_disk(home: Path) -> list[Finding]:
    """Whether the store is on a disk of another machine, where SQLite's locks and shared memory do not hold."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace")
    except OSError:
        return []  # Only Linux tells it in a file.
    kind = file_system(os.path.realpath(home), mounts)
    if kind.removeprefix("fuse.") not in NETWORK_FILE_SYSTEMS:
        return []
    return [
        Finding(
            what="disk", ok=False, found=f"{home} is on a network disk ({kind}); SQLite can damage a store there",
            advice="set CLEW_HOME to a folder on a disk of this machine, or use PostgreSQL for several machines",
        )
    ]  # fmt: skip


def file_system(path: str, mounts: str) -> str:
    """The kind of the file system that holds a path, from the lines of /proc/self/mountinfo; the last mount wins."""
    deepest, found = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]).rstrip("/")
        if (path == point or path.startswith(f"{point}/")) and len(point) >= deepest:
            deepest, found = len(point), after.split()[0]
    return found


def _free_disk(home: Path) -> Finding:
    import shutil

    folder = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(folder).free
    enough = free > 200 * 1024 * 1024
    return Finding(
        what="free disk", ok=enough, found=f"{free / 1e9:.1f} GB", advice="" if enough else "free at least 200 MB"
    )


def _store(chosen: app.Settings) -> list[Finding]:
    from clew.store import maintenance, open_store

    try:
        store = open_store(chosen.store, objects=chosen.objects)
    except ClewError as error:
        return [Finding(what="store", ok=False, found=str(error), advice=_advice(error))]
    with store:
        about = maintenance.describe(store)
        findings = [
            Finding(
                what="store",
                ok=True,
                found=f"{about['database']} {about['version']} ({about['driver']}), {about['place']}",
            ),
            Finding(what="schema", ok=True, found=f"version {maintenance.schema_version()}"),
        ]
        findings += _row_level_security(store)
        try:
            findings += [_integrity(store), _chains(store)]
        except ClewError as error:
            findings.append(Finding(what="integrity", ok=False, found=str(error), advice=_advice(error)))
        findings += _quick(store, chosen.home)
    return findings


def examine(store: "Store", home: Path) -> list[Finding]:
    """What can be said of an open store at once: everything but the checks that read all of it."""
    return [*_connections(home), *_row_level_security(store), *_quick(store, home)]


def _quick(store: "Store", home: Path) -> list[Finding]:
    return [
        _objects(store),
        _views(store),
        *_clock(store),
        *_disk_limit(store),
        *_workspaces(store, home),
        *_budgets(store, home),
        *_jobs(store),
        *_checkpoints(store),
        *_witnesses(store, home),
    ]


def _integrity(store: "Store") -> Finding:
    from clew.store import maintenance
    from clew.store.log.verify import WHAT_HELPS

    problems = maintenance.check(store)
    return Finding(
        what="integrity", ok=not problems, found="; ".join(problems[:5]) or "ok", advice=WHAT_HELPS * bool(problems)
    )


def _chains(store: "Store") -> Finding:
    from clew.store.log.verify import verify_all

    sessions = events = 0
    problems = []
    for verified in verify_all(store):
        sessions, events = sessions + bool(verified.session), events + verified.events
        problems += verified.problems
    first = f"; first: {problems[0].place}: {problems[0].what}" if problems else ""
    return Finding(
        what="chains",
        ok=not problems,
        found=f"{sessions} sessions, {events} events, {len(problems)} problems{first}",
        advice="run `clew verify` for all of them" if problems else "",
    )


def _objects(store: "Store") -> Finding:
    """Whether the pack stores answer and have every pack."""
    from clew.store.objects.health import check_pack_stores

    try:
        health = check_pack_stores(store)
    except ClewError as error:
        return Finding(what="objects", ok=False, found=str(error), advice=_advice(error))
    size = f"{health.objects:,} ({health.bytes / 1e6:,.1f} MB)"
    found = f"{size} in rows and {health.packs:,} pack{'s' * (health.packs != 1)}; new ones: {health.current_store}"
    return Finding(
        what="objects",
        ok=not health.problems,
        found="; ".join(health.problems) or found,
        advice="set CLEW_OBJECTS and AWS_... as they were, or restore the packs from a backup" * bool(health.problems),
    )


def _advice(error: ClewError) -> str:
    """What to do about an error; a database of another program is none that is damaged."""
    from clew.store.log.verify import WHAT_HELPS

    if isinstance(error, Damaged) and "place" in error.details:
        return WHAT_HELPS
    # What is unavailable says itself what to check.
    return "" if isinstance(error, Unavailable) else f"error code {error.code}"


def _row_level_security(store: "Store") -> list[Finding]:
    """Whether PostgreSQL hides the rows of other projects from the role that connects, in the log and in the views."""
    from clew.store import maintenance
    from clew.views.upkeep import Views

    views = Views(store)
    try:
        states = [maintenance.row_security(store), views.database.row_security()]
    except ClewError as error:
        return [Finding(what="wall", ok=False, found=str(error), advice=_advice(error))]
    finally:
        views.close()
    known = [state for state in states if state is not None]
    return [_wall(known)] if known else []


def _wall(states: "list[RowSecurity]") -> Finding:
    role, owner = states[0].role, states[0].owner
    if problems := [state for state in states if state.problem]:
        remedies = "; ".join(dict.fromkeys(state.remedy for state in problems if state.remedy))
        return Finding(
            what="wall", ok=False, found="; ".join(dict.fromkeys(state.problem for state in problems)),
            advice=f"as {owner} or an administrator: {remedies}" if remedies
            else "run `clew migrate --runtime-role NAME`, which makes a role that does not, and connect as it",
        )  # fmt: skip
    if lacking := [table for state in states for table in state.lacks_rights_on]:
        return Finding(
            what="wall", ok=False, found=f"the role {role} cannot read and write {', '.join(lacking)}",
            advice=f"run `clew migrate --runtime-role {role}` as the role {owner}",
        )  # fmt: skip
    who = (
        "owns the tables and could switch it off; `clew migrate --runtime-role NAME` makes a role that cannot"
        if role == owner
        else f"cannot switch it off: {owner} owns the tables"
    )
    return Finding(what="wall", ok=True, found=f"row-level security stands between projects; the role {role} {who}")


def _clock(store: "Store") -> list[Finding]:
    """Whether the newest event is in the past: times, periods and retention take that for granted."""
    from clew.store.log.feed import entries

    newest = next(entries(store, after=store.last_position() - 1, limit=1), None)
    days = (newest.event.at - store.now()) / DAY_US if newest else 0.0
    if days < WRONG_CLOCK_DAYS:
        return []
    found = f"it is {days:,.1f} days behind the time of the newest event"
    return [Finding(what="clock", ok=False, found=found, advice="set the clock; lists, periods and retention go by it")]


def _disk_limit(store: "Store") -> list[Finding]:
    """Whether the store is within the limit that was set for it, if one was."""
    from clew.service.access.settings import DISK_LIMIT, disk_limit
    from clew.store import maintenance
    from clew.store.access.settings import list_settings

    limit = disk_limit(list_settings(store).get(("", DISK_LIMIT), ""))
    if limit is None:
        return []
    size = maintenance.size(store)
    return [
        Finding(
            what="disk limit", ok=size <= limit, found=f"the store takes {size / 1e9:.3f} GB of {limit / 1e9:.3f} GB",
            advice="shorten the retention, or make room; clew deletes nothing because of the limit",
        )
    ]  # fmt: skip


def _workspaces(store: "Store", home: Path) -> list[Finding]:
    """Whether snapshots can be read and are within their quotas; nothing where there are none."""
    from clew.model.access import owner_of_everything
    from clew.service import Context
    from clew.service.access.authenticator import CLEW
    from clew.service.workspaces.health import check_workspaces

    context = Context(
        store=store, unrestricted=store, principal=CLEW, grants=(owner_of_everything(CLEW),), home=str(home)
    )
    try:
        health = check_workspaces(context)
    except ClewError as error:
        return [Finding(what="workspaces", ok=False, found=str(error), advice=_advice(error))]
    if not (health.on or health.newest_at or health.quotas):
        return []
    projects = ", ".join(project or "all projects" for project in health.on)
    days = (store.now() - health.newest_at) / DAY_US
    found = [f"kept after each turn in {projects}" if projects else "kept when somebody asks"]
    found.append(f"newest snapshot {days:,.1f} days ago" if health.newest_at else "no snapshot yet")
    found += [f"quota of {quota}" for quota in health.quotas]
    found += [f"{health.damaged} of the newest are damaged"] * bool(health.damaged)
    advice = "`clew verify --objects` repairs what has another copy" if health.damaged else ""
    if health.over and not advice:
        advice = "no automatic snapshot is taken; raise the quota, or erase sessions"
    return [Finding(what="workspaces", ok=not (health.damaged or health.over), found="; ".join(found), advice=advice)]


def _budgets(store: "Store", home: Path) -> list[Finding]:
    """Whether the budgets of this day, week and month last, if any are set."""
    from clew.model.access import owner_of_everything
    from clew.service import Context
    from clew.service.access.authenticator import CLEW
    from clew.service.find.period_budgets import period_budgets

    context = Context(
        store=store, unrestricted=store, principal=CLEW, grants=(owner_of_everything(CLEW),), home=str(home)
    )
    try:
        budgets = period_budgets(context)
    except ClewError as error:
        return [Finding(what="budget", ok=False, found=str(error), advice=f"error code {error.code}")]
    finally:
        context.views.close()  # The store is open for the findings after this one.
    return [
        Finding(
            what="budget", ok=budget.budget_used <= 1,
            found=f"{budget.budget_used:.0%} of the budget {f'of {budget.project} ' if budget.project else ''}for this "
            f"{budget.period} is used",
            advice="clew stops nothing because of it; `clew usage --top 10` says what used it"
            * (budget.budget_used > 1),
        )
        for budget in budgets
    ]  # fmt: skip


def _jobs(store: "Store") -> list[Finding]:
    """Whether the jobs run that have something to do, and whether any of them waits for a person."""
    from clew.model.access import owner_of_everything
    from clew.service import Context
    from clew.service.access.authenticator import CLEW
    from clew.service.jobs.kinds import load_kinds
    from clew.store.jobs import last_done, list_jobs

    context = Context(store=store, unrestricted=store, principal=CLEW, grants=(owner_of_everything(CLEW),))
    done, now = last_done(store), store.now()
    findings = [
        Finding(
            what="jobs", ok=False, found=f"the {job.kind} job {job.id} failed too often and is parked: {job.error}",
            advice=f"run `clew jobs retry {job.id}` when the cause is gone",
        )
        for job in list_jobs(store, state="parked", limit=1000)
        if job.made_at > done.get((job.kind, job.project), 0)
    ]  # fmt: skip
    for _, kind in sorted(load_kinds().items()):
        for project, since in kind.wanted(context).items():
            last = done.get((kind.name, project))
            waits_us = now - max(last or 0, since)
            if waits_us > LATE_PERIODS * kind.every_seconds * 1_000_000:
                about = f"{kind.name} of {project}" if project else kind.name
                found = f"{about} has not run for {waits_us / DAY_US:.1f} days" if last else f"{about} has never run"
                findings.append(Finding(what="jobs", ok=False, found=found, advice=KEEP_RUNNING))
    return findings or [Finding(what="jobs", ok=True, found=f"none is late ({len(done)} ran so far)")]


def _checkpoints(store: "Store") -> list[Finding]:
    """Whether what happened since the newest checkpoint is signed soon; nothing for a log without checkpoints."""
    from clew.store.audit_tree import checkpoints
    from clew.store.log.feed import entries
    from clew.store.log.rows import EVERYTHING

    try:
        newest = checkpoints(store, before=EVERYTHING, limit=1)
    except ClewError as error:
        return [Finding(what="checkpoints", ok=False, found=str(error), advice="run `clew audit verify`")]
    if not newest:
        return []
    uncovered = next(entries(store, after=newest[0][1].position, limit=1), None)
    days = (store.now() - uncovered.event.at) / DAY_US if uncovered else 0.0
    ok = days < LATE_CHECKPOINT_DAYS
    return [
        Finding(
            what="checkpoints", ok=ok,
            found="the newest one covers the log" if uncovered is None
            else f"the newest one does not cover the last {days:.1f} days",
            advice="" if ok else "keep `clew serve` or `clew worker` running, or run `clew audit checkpoint`",
        )
    ]  # fmt: skip


def _witnesses(store: "Store", home: Path) -> list[Finding]:
    """Whether each witness of this log has countersigned its checkpoints. Nobody is asked: the checkpoints say it."""
    from clew.service.audit.witnesses import all_witnesses, witness_states

    try:
        states = witness_states(store, all_witnesses(str(home)))
    except ClewError as error:
        return [Finding(what="witness", ok=False, found=str(error), advice=f"error code {error.code}")]
    now = store.now()
    return [
        Finding(
            what="witness",
            ok=not state.behind or now - state.behind_since < LATE_WITNESS_US,
            found=f"{plain(state.address)} has not countersigned the last {state.behind:,} checkpoints"
            if state.behind
            else f"{plain(state.address)} has countersigned the newest checkpoint",
            advice="run `clew audit witness`: it says why" * bool(state.behind),
        )
        for state in states
    ]


def _views(store: "Store") -> Finding:
    from clew.views.upkeep import Views

    views = Views(store)
    try:
        problems, behind = views.database.check(), views.lag()
    except ClewError as error:
        return Finding(what="views", ok=False, found=str(error), advice=f"error code {error.code}")
    finally:
        views.close()
    lag = "up to date" if not behind else f"{behind:,} events behind; the next read takes them in"
    return Finding(
        what="views",
        ok=not problems,
        found="; ".join(problems[:5]) or lag,
        advice="run `clew rebuild`" * bool(problems),
    )
