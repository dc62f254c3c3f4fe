"""Measures clew against the raw log and its peers, and prints which of its bars it meets.

Every figure that is compared with another comes from the same run, operation by operation in turn: on a shared machine
the times of two runs say little, while their ratio within one run holds. Only ratios have bars.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE.parent / "tests"))  # for the private PostgreSQL server

from contests import FULL, QUICK, Contests  # noqa: E402
from peer_process import PeerFailed, PeerProcess, install  # noqa: E402
from places import Place, PostgresPlace, SqlitePlace  # noqa: E402
from startup import startup  # noqa: E402
from verdicts import Verdict, print_table, write_json  # noqa: E402

_WORK = _HERE / ".work"


def main() -> int:
    """Run the benchmark; return the exit status."""
    options = _options()
    verdicts: list[Verdict] = []
    machine = {"python": f"Python {platform.python_version()}", "cores": f"{os.cpu_count()} cores"}
    try:
        with ExitStack() as opened:
            places = _places(options, opened)
            peers = None if options.no_peers else opened.enter_context(PeerProcess(_installed()))
            for place in places:
                machine[place.kind] = place.version()
                effort = QUICK if options.quick else FULL
                verdicts += Contests(place=place, peers=peers, effort=effort, note=partial(_note, place)).run()
    except PeerFailed as failure:
        sys.exit(str(failure))
    verdicts += startup(rounds=10 if options.quick else 40)
    print_table(verdicts, machine=machine)
    if options.json:
        write_json(options.json, verdicts, machine=machine)
    missed = any(verdict.passed is False for verdict in verdicts)
    return 1 if missed and options.strict else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure clew against the raw log and its peers.")
    parser.add_argument("--quick", action="store_true", help="measure less often: a first look, not a result")
    parser.add_argument("--only", choices=("sqlite", "postgres"), help="measure on one database")
    parser.add_argument("--no-peers", action="store_true", help="leave out the peers, and with them their environment")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts to a file as well")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--work", type=Path, default=_WORK, metavar="DIR", help="where the SQLite files go")
    return parser.parse_args()


def _places(options: argparse.Namespace, opened: ExitStack) -> list[Place]:
    """Make the places to measure in; they are gone when `opened` is closed."""
    places: list[Place] = []
    if options.only != "postgres":
        # On the disk of the checkout: a temporary directory may be in memory, where durability costs nothing.
        options.work.mkdir(parents=True, exist_ok=True)
        places.append(SqlitePlace(Path(opened.enter_context(tempfile.TemporaryDirectory(dir=options.work)))))
    if options.only != "sqlite":
        from support.postgres import Server

        places.append(PostgresPlace(opened.enter_context(Server())))
    return places


def _installed() -> Path:
    print("installing the peers, if they are not yet there", file=sys.stderr)
    return install()


def _note(place: Place, what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {place.kind}: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
