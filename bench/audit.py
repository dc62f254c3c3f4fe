"""What checkpoints and verification cost: `python bench/audit.py [--sessions N] [--events N] [--postgres]`.

A checkpoint is measured on a log of many sessions of which one in a hundred got an event since the last; verification
in events per second, against a bare pass that reads the same rows and hashes each body once.
"""

import argparse
import hashlib
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.append(str(_HERE.parent / "tests"))  # for the private PostgreSQL server; last, it must hide nothing

from clew.model.events import Draft, MessageAdded  # noqa: E402
from clew.model.session import Session  # noqa: E402
from clew.service.audit.signing import new_key  # noqa: E402
from clew.service.audit.verify_log import examine  # noqa: E402
from clew.store import Store, audit_tree, open_store  # noqa: E402
from clew.store.log.opening import Opening, open_in, plan_in  # noqa: E402
from clew.store.log.writing import write  # noqa: E402

KEY = new_key("bench")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=100_000, help="events of the log that is verified")
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", metavar="DIR")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        if options.postgres:
            from support.postgres import Server

            server = opened.enter_context(Server())
            urls = [server.new_database(), server.new_database()]
        else:
            folder = opened.enter_context(tempfile.TemporaryDirectory(dir=options.work))
            urls = [f"sqlite:///{folder}/{name}/clew.db" for name in ("sessions", "events")]
        with open_store(urls[0]) as store:
            _checkpoints(store, options.sessions)
        with open_store(urls[1]) as store:
            _verification(store, options.events)
    return 0


def _checkpoints(store: Store, count: int) -> None:
    sessions = _opened(store, count)
    _timed(f"first checkpoint of {count:,} sessions", lambda: _mark(store))
    changed = sessions[::100]
    _append(store, changed)
    _timed(f"checkpoint after {len(changed):,} of them got an event", lambda: _mark(store))
    _timed("checkpoint with nothing new", lambda: _mark(store))
    newest = audit_tree.newest(store)
    assert newest is not None
    _timed("proof of a session", lambda: audit_tree.inclusion(store, sessions[count // 2].id, newest.size))
    _timed("proof of consistency", lambda: audit_tree.consistency(store, count + 1, newest.size))


def _verification(store: Store, count: int) -> None:
    sessions = _opened(store, max(1, count // 1000))
    for session in sessions:
        for _ in range(10):
            store.append(session, [Draft(body=MessageAdded(role="user", text="x" * 500)) for _ in range(100)])
    note = _mark(store)
    events = len(sessions) * 1001
    taken = _timed(f"verification of {events:,} events", lambda: examine(store, [KEY.public], [note]))
    bare = _timed("a bare SHA-256 pass over the same rows", lambda: _bare(store, sessions))
    print(f"  {events / taken:,.0f} events/s against {events / bare:,.0f}: {taken / bare:.1f} times as long")


def _bare(store: Store, sessions: list[Session]) -> None:
    for session in sessions:
        with store.database.read() as tx:
            rows = tx.run("events", project=session.project_key, session=session.key, first=0, last=2**62, limit=2**62)
            for row in rows:
                hashlib.sha256(row[9].encode()).digest()


def _opened(store: Store, count: int) -> list[Session]:
    """Many sessions in few commits."""
    made = []
    for start in range(0, count, 2000):
        with store.database.write() as tx:
            for _ in range(start, min(start + 2000, count)):
                plan = open_in(tx, Opening(project="bench"), "bench")
                write(tx, [plan], store.pack_stores)
                made.append(plan.session)
    return made


def _append(store: Store, sessions: list[Session]) -> None:
    for session in sessions:
        with store.database.write() as tx:
            plan = plan_in(tx, session)
            plan.note(MessageAdded(role="user", text="new"), "bench")
            write(tx, [plan], store.pack_stores)


def _mark(store: Store) -> str:
    made = audit_tree.make(store, lambda _: KEY)
    return made.note if made else ""


def _timed(what: str, run: object) -> float:
    assert callable(run)
    began = time.perf_counter()
    run()
    taken = time.perf_counter() - began
    print(f"{what:<55} {taken * 1000:>10,.1f} ms", flush=True)
    return taken


if __name__ == "__main__":
    sys.exit(main())
