"""Scores every page with Lighthouse, in the local Chromium: accessibility and best practices, on a phone and a desk.

    python bench/lighthouse.py DIR [--least N] [--only PATH]

DIR is where tools/install_clients.sh has put Lighthouse and Node. The store is the made-up one of `clew demo`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table
from web_server import COOKIE, SECRET, Served

CATEGORIES = ("accessibility", "best-practices")
WINDOWS = {"phone": [], "desk": ["--preset=desktop"]}
LEAST = 95


def main() -> int:
    """Run it; return 1 when a page has less than it needs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--least", type=int, default=LEAST)
    parser.add_argument("--only", action="append", metavar="PATH", help="a page by its path, as /sessions")
    options = parser.parse_args()
    table = Table(title=f"Lighthouse; at least {options.least}")
    for column in ("page", "window", *CATEGORIES, "what is missing"):
        table.add_column(column)
    missed = False
    with tempfile.TemporaryDirectory() as scratch:
        session = _made_up(Path(scratch))
        with Served(Path(scratch)) as served:
            for path in options.only or _pages(served, session):
                for window, words in WINDOWS.items():
                    report = _report(options.folder, served.address + _filled_in(path, session), words)
                    scores = [round(100 * (report["categories"][name]["score"] or 0)) for name in CATEGORIES]
                    missed |= min(scores) < options.least
                    table.add_row(path, window, *map(str, scores), ", ".join(_missing(report)))
                    print(f"{path} {window} {scores}", file=sys.stderr)
    Console(width=120).print(table)
    return 1 if missed else 0


def _made_up(home: Path) -> str:
    """Fill a store; returns the session that shows the most."""
    from clew.cli.demo_store import fill
    from clew.service.access.authenticator import Authenticator
    from clew.store import open_store

    with open_store(f"sqlite:///{home / 'clew.db'}") as store:
        return str(fill(Authenticator(store, home=str(home)).owner_context()).id)


def _filled_in(path: str, session: str) -> str:
    """The address of a page; a path with another parameter needs a value for it here."""
    return path.format(session=session, seq="12", form="markdown")


def _pages(served: Served, session: str) -> list[str]:
    """Every page; what a browser would keep as a file is none."""
    from clew.server.web.navigation import PAGES

    paths = [entry.path for entry in PAGES]
    return [path for path in paths if b"<html" in served.get(_filled_in(path, session))]


def _report(folder: Path, url: str, words: list[str]) -> dict[str, Any]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no browser: install chromium")
    argv = [
        str(folder / "node" / "node_modules" / "node" / "bin" / "node"),
        str(folder / "lighthouse" / "node_modules" / "lighthouse" / "cli" / "index.js"),
        url, f"--only-categories={','.join(CATEGORIES)}", "--throttling-method=provided", "--output=json", "--quiet",
        f"--extra-headers={json.dumps({'Cookie': f'{COOKIE}={SECRET}'})}", *words,
        "--chrome-flags=--headless=new --no-sandbox --disable-gpu --disable-background-networking",
    ]  # fmt: skip
    env = {**os.environ, "CHROME_PATH": program}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"Lighthouse failed at {url}: {done.stderr[-1000:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    if problem := report.get("runtimeError"):
        sys.exit(f"Lighthouse failed at {url}: {problem['message']}")
    if urlsplit(report["finalDisplayedUrl"]).path != urlsplit(url).path:
        sys.exit(f"{url} led to {report['finalDisplayedUrl']}, which is another page")
    return report


def _missing(report: dict[str, Any]) -> list[str]:
    """The audits that cost points."""
    wanted = {
        audit["id"] for name in CATEGORIES for audit in report["categories"][name]["auditRefs"] if audit["weight"]
    }  # fmt: skip
    audits = report["audits"]
    return [id for id in sorted(wanted) if audits[id]["score"] is not None and audits[id]["score"] < 1]


if __name__ == "__main__":
    sys.exit(main())
