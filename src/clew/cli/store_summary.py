"""A summary of the store in a few lines: the programs, since when, the cost, and what its program will delete soon."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from clew.cli.results.counts import count
from clew.cli.times import ago, moment
from clew.model.plain import plain

if TYPE_CHECKING:
    from clew.service.sessions.line import SessionLine

MOST = 10_000
DAY_SECONDS = 86_400
# What Claude Code does unless its settings say otherwise.
CLAUDE_DAYS = 30
SOON_DAYS = 7


class ClaudeSettings(msgspec.Struct):
    """How long Claude Code keeps a transcript, as its settings say."""

    cleanupPeriodDays: int = CLAUDE_DAYS


def print_summary(plane: Any) -> None:
    """Print the summary on standard error."""
    for line in lines(plane.call("sessions", limit=MOST)):
        click.echo(plain(line), err=True)


def lines(sessions: "list[SessionLine]") -> Iterator[str]:
    if not sessions:
        yield "no sessions of any known agent program yet; `clew runtimes` shows where clew looks"
        return
    programs = Counter(session.runtime or "without a program" for session in sessions)
    more = "+" if len(sessions) == MOST else ""
    by_program = ", ".join(f"{name} {number:,}" for name, number in programs.most_common())
    yield f"{len(sessions):,}{more} {'session' if len(sessions) == 1 else 'sessions'}: {by_program}"
    began = min((at for session in sessions if (at := session.began_at or session.opened_at)), default=0)
    cost = sum(session.cost_micros or 0 for session in sessions)
    turns = sum(session.turns for session in sessions)
    yield f"since {moment(began)[:10]} ({ago(began)}), {count(turns, 'turn')}, ${cost / 1e6:,.2f}"
    yield from _at_risk()


def _at_risk() -> Iterator[str]:
    """The transcripts that Claude Code will delete; clew has captured them."""
    from clew.runtimes import runtime
    from clew.service.capture.discovery import discover, home_of

    files = discover(runtime_name="claude-code").session_files
    days = _claude_days(home_of(runtime("claude-code")))
    now = time.time()
    ends = sorted(end for file in files if (end := _changed_at(file.path) + days * DAY_SECONDS))
    soon = [end for end in ends if end < now + SOON_DAYS * DAY_SECONDS]
    if soon:
        first = "now" if soon[0] <= now else f"from {moment(int(soon[0] * 1e6))[:10]} on"
        yield (
            f"Claude Code deletes transcripts after {days} days (cleanupPeriodDays): {len(soon):,} of {len(ends):,} go "
            f"within {SOON_DAYS} days, {first}; clew keeps them"
        )
    elif ends:
        yield (
            f"Claude Code deletes transcripts after {days} days (cleanupPeriodDays), the oldest on "
            f"{moment(int(ends[0] * 1e6))[:10]}; clew keeps them"
        )


def _claude_days(home: Path) -> int:
    try:
        return msgspec.json.decode((home / "settings.json").read_bytes(), type=ClaudeSettings).cleanupPeriodDays
    except (OSError, msgspec.DecodeError):
        return CLAUDE_DAYS


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
