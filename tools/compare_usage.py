"""Compares the tokens we count in Claude Code's files with those ccusage counts, by day and model.

    .venv/bin/python tools/compare_usage.py ~/.claude/projects --ccusage node_modules/.bin/ccusage

The folder is only read. Both work in a home of their own that is thrown away, and ccusage without a network where the
system can do that. A line is printed for each day and model; docs say which differences are meant.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from clew.app import connect
from clew.client import Plane
from clew.model.events import Event, Usage
from clew.model.session import SPENDING
from clew.views.prices import load

TOKENS = ("input", "output", "cache_read", "cache_write")
PRICED = (*TOKENS, "cache_write_hour")
FIELDS = (*TOKENS, "cost_micros")
THEIRS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")
Totals = dict[tuple[str, str], Counter[str]]


def ours(projects: Path, home: Path, zone: ZoneInfo) -> Totals:
    """What a new log holds after capturing the folder, an answer that several sessions hold counted in the first."""
    prices, totals = load(None), defaultdict[tuple[str, str], Counter[str]](Counter)
    first: dict[str, str] = {}
    with connect(f"sqlite:///{home / 'clew.db'}", home=home) as plane:
        for report in plane.capture([str(projects)], runtime="claude-code"):
            if report.error:
                print(f"not captured: {report.path}: {report.error}", file=sys.stderr)
        for event, model, usage in spent(plane):
            answer = getattr(event.body, "message", "") or f"{event.session}:{event.seq}"
            if first.setdefault(answer, event.session) == event.session:
                day = datetime.fromtimestamp((event.said_at or event.at) / 1e6, zone).date().isoformat()
                # As ccusage has it: fast answers are a model of their own.
                name = f"{model}-fast" if usage.fast else model
                totals[day, name].update({field: getattr(usage, field) for field in PRICED})
    for (_, model), row in totals.items():
        row["cost_micros"] = prices.cost(model, msgspec.convert(dict(row), Usage)) or 0
    return totals


def spent(plane: Plane) -> Iterator[tuple[Event, str, Usage]]:
    after = 0
    while found := plane.tail(after=after):
        after = found[-1].position
        for event in found:
            if isinstance(event.body, SPENDING) and event.body.usage:
                yield event, event.body.model, event.body.usage


def theirs(projects: Path, home: Path, zone: ZoneInfo, *, ccusage: str) -> Totals:
    """What ccusage reports for the folder, with the prices it brings along."""
    (home / "config").mkdir()
    (home / "config" / "projects").symlink_to(projects.resolve())
    command = [ccusage, "claude", "daily", "--json", "--offline", "--mode", "calculate", "--timezone", zone.key]
    alone = ["unshare", "-rn"]
    if shutil.which(alone[0]) and not subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL).returncode:
        command = [*alone, *command]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "config")}
    report = json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
    totals: Totals = {}
    for day in report["daily"]:
        for row in day["modelBreakdowns"]:
            counts = Counter({field: row[name] for field, name in zip(TOKENS, THEIRS, strict=True)})
            counts["cost_micros"] = round(row["cost"] * 1_000_000)
            totals[day["date"], row["modelName"]] = counts
    return totals


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    asked.add_argument("projects", type=Path, help="a folder of Claude Code projects")
    asked.add_argument("--ccusage", default="ccusage", help="the program, when it is not on the path")
    asked.add_argument("--timezone", type=ZoneInfo, default=ZoneInfo("UTC"), help="whose days, such as Europe/Berlin")
    chosen = asked.parse_args()
    if not chosen.projects.is_dir():
        asked.error(f"{chosen.projects} is no folder")
    if not shutil.which(chosen.ccusage):
        asked.error(f"no program {chosen.ccusage}; npm install ccusage@20.0.24 gives node_modules/.bin/ccusage")
    with tempfile.TemporaryDirectory() as home:
        left = ours(chosen.projects, Path(home), chosen.timezone)
        right = theirs(chosen.projects, Path(home), chosen.timezone, ccusage=chosen.ccusage)
    print(f"{'day':<11}{'model':<30}{'':<11}" + "".join(f"{field:>14}" for field in FIELDS))
    different = 0
    for day, model in sorted({*left, *right}):
        mine, other = left.get((day, model), Counter()), right.get((day, model), Counter())
        rows = {"clew": mine, "ccusage": other}
        if any(mine[field] != other[field] for field in FIELDS):
            different += 1
            rows["difference"] = Counter({field: mine[field] - other[field] for field in FIELDS})
        for name, row in rows.items():
            print(f"{day:<11}{model:<30}{name:<11}" + "".join(f"{row[field]:>14,}" for field in FIELDS))
    print(f"{different} of {len({*left, *right})} days and models differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
