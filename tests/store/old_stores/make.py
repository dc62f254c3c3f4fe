"""Make old stores for `tests/store/test_old_stores.py`. Run it with the code that a change is about to replace:

    PYTHONPATH=OLD/src .venv/bin/python tests/store/old_stores/make.py

It makes one store on SQLite and one on PostgreSQL with rows in every table that this code has, and packs each of them
together with a snapshot of what this code answers about it:

    schema-N.sqlite.tar.zst     clew/ (clew.db, blobs/, clew-views.db, audit.key), snapshot.json
    schema-N.postgres.tar.zst   clew/ (audit.key), dump.sql, snapshot.json

A change that adds a migration also adds such a pair, made by the code before it: check out that commit (`git worktree
add --detach /tmp/old COMMIT`), run the command above, commit the two archives. The tests find them by their names. The
commits of the present ones are 9bf8a8f (schema 2), 970011b (schema 3), f3a5be2 (schema 5), 4697b21 (schema 6), 82d48f8
(schema 9), 1862221 (schema 10), 512867e (schema 11) and a3e24a7 (schema 12), those of schemas 6 to 10 with --blob-file,
which adds 66 KB.
There is none of schema 4, because clew worked at no commit that had it.

The script runs under all of these commits: an operation that old code does not have is skipped. It needs PostgreSQL and
pg_dump. It writes below /tmp/ada, which must not exist, because a store keeps the paths of captured files.
"""

import base64
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import zstandard

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path.insert(0, str(TESTS))

import clew  # noqa: E402
from clew.client import Plane  # noqa: E402
from clew.model.errors import ClewError  # noqa: E402
from store.old_stores.snapshot import take_snapshot  # noqa: E402
from support import claude  # noqa: E402
from support.postgres import Server, find_programs, free_port, server_user  # noqa: E402

ADA, BOB, FRED = "person:ada", "person:bob", "agent:fred"
PERSON = Path("/tmp/ada")
FIXTURES = TESTS / "runtimes" / "fixtures"
# The path of each fixture below a home directory.
NATIVE = {
    "claude_code/subagent.jsonl":
        ".claude/projects/-home-me-app/27399200-c235-4466-853c-ce946346ddd1/subagents/agent-a1.jsonl",
    "gemini_cli/resumed.jsonl": ".gemini/tmp/app/chats/session-2026-11-16-resumed.jsonl",
    "qwen_code/session.jsonl": ".qwen/projects/app/chats/0eef8c22-d78a-446f-9125-92bc26e9d20f.jsonl",
}  # fmt: skip
# The smaller of the two sessions in OpenCode's database.
OPENCODE = "ses_e1c276a7fffeFLPq7hh0HUuXPX"


def main() -> None:
    if PERSON.exists():
        raise SystemExit(f"{PERSON} is there already; move it away")
    for name in [name for name in os.environ if name.startswith("CLEW_")]:
        del os.environ[name]
    os.environ |= {"HOME": str(PERSON), "CLEW_MACHINE": "laptop", "TZ": "UTC"}
    try:
        make("sqlite", f"sqlite:///{PERSON / 'clew' / 'clew.db'}")
        shutil.rmtree(PERSON)
        with Server() as server:
            make("postgres", server.new_database())
    finally:
        shutil.rmtree(PERSON, ignore_errors=True)


def make(database: str, url: str) -> None:
    home = PERSON / "clew"
    home.mkdir(parents=True, mode=0o700)
    with clew.connect(url, home=home, principal=ADA) as plane:
        write(plane, url, home)
    with clew.connect(url, home=home, principal=ADA) as plane:
        # Packed before the snapshot is taken: its views are behind the log, as they are when a process stops.
        rows = counts(url)
        files = {"dump.sql": dump(url)} if database == "postgres" else {}
        plane.close()
        files |= {str(path.relative_to(PERSON)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    with clew.connect(url, home=home, principal=ADA) as plane:
        snapshot = take_snapshot(plane)
    version = rows.pop("clew_schema")
    if empty := [table for table, count in rows.items() if not count]:
        print(f"nothing is in {', '.join(empty)}", file=sys.stderr)
    if problems := [problem for checked in snapshot["verified"] for problem in checked["problems"]]:
        raise AssertionError(problems)
    snapshot["rows"] = rows
    files["snapshot.json"] = json.dumps(snapshot, ensure_ascii=False, indent=1).encode()
    target = HERE / f"schema-{version}.{database}.tar.zst"
    target.write_bytes(packed(files))
    print(f"{target.name}: {target.stat().st_size:,} bytes, {len(snapshot['sessions'])} sessions, {rows}")


def packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return zstandard.ZstdCompressor(level=22).compress(buffer.getvalue())


def counts(url: str) -> dict[str, int]:
    """How many rows each table has, and of the schema its version."""
    version = "SELECT max(version) FROM clew_schema"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            found = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
            return {**found, "clew_schema": connection.execute(version).fetchone()[0]}
    with psycopg.connect(url) as connection:
        listed = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        found = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for (name,) in listed}
        return {**found, "clew_schema": connection.execute(version).fetchall()[0][0]}


def dump(url: str) -> bytes:
    """The database as statements that any client can execute: no COPY, no commands of psql."""
    program = shutil.which("pg_dump") or find_programs(server_user()) / "pg_dump"
    options = ["--rows-per-insert=500", "--no-owner", "--no-privileges", "--no-comments"]
    done = subprocess.run([program, *options, url], check=True, capture_output=True)
    return b"".join(line for line in done.stdout.splitlines(keepends=True) if not line.startswith(b"\\"))


# What is in the stores ------------------------------------------------------------------------------------------------


def write(plane: Plane, url: str, home: Path) -> None:
    sessions = write_sessions(plane)
    if "--blob-file" in sys.argv and url.startswith("sqlite"):
        hold_in_a_file(plane)
    capture(plane)
    grant_access(plane, sessions)
    ask(plane, "audit_checkpoint")
    remove_content(plane)
    ask(plane, "search", query="lock")  # The views catch up to here.
    if not serve(plane, url, home, sessions["plain"]):
        # Before clew had servers, nothing in clew itself moved a cursor.
        context = getattr(plane.client, "context", None) or plane.client._context
        context.store.move_cursor("reader", 5)
    ask(plane, "audit_checkpoint")
    append(plane, sessions["grandchild"], message("after the last checkpoint"))


def ask(plane: Plane, operation: str, **arguments: Any) -> Any:
    """What an operation answers; None when this code has none of that name, or it lacks an argument."""
    try:
        return plane.client.call(operation, **arguments)
    except ClewError as error:
        if str(error).startswith("no operation") or "contains unknown field" in str(error):
            return None
        raise


def open_session(plane: Plane, title: str, project: str = "shop", **more: Any) -> str:
    return str(plane.client.call("open", title=title, project=project, **{"agent": "reviewer", **more}).id)


def append(plane: Plane, session: str, *drafts: dict[str, Any], **more: Any) -> Any:
    return plane.client.call("append", session=session, drafts=list(drafts), **more)


def message(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"kind": "message_added", "role": role, "text": text, **more}


def big(word: str) -> str:
    """A text that is too long for a row."""
    return " ".join(f"{word} {number % 40}" for number in range(6000))


def hold_in_a_file(plane: Plane) -> None:
    """Write a body that cannot be compressed, so that SQLite keeps its blob in a file and not in a row."""
    session = open_session(plane, "Large and random")
    append(plane, session, {"kind": "my.noise", "noise": base64.b85encode(os.urandom(66_000)).decode()})


def write_sessions(plane: Plane) -> dict[str, str]:
    """Write sessions without a program: forks of forks, knowledge, large bodies, Unicode, each state."""
    plain = open_session(plane, "Fix the lock error", metadata={"ticket": 7, "Ünïcode": ["☃", None]})
    touched = [{"what": "src/db.py", "how": "write"}]
    append(plane, plain,
           message("why does the test lock?", source="ours:1", said_at=1_700_000_000_000_000),
           {"kind": "turn_started", "turn": "t1", "model": "claude-opus-5-5"},
           {"kind": "call_made", "call": "c1", "tool": "edit", "input": {"path": "src/db.py", "n": 1.5e300}},
    )  # fmt: skip
    append(plane, plain,
           {"kind": "call_returned", "call": "c1", "output": {"a": [1, 2.50, "naïve café 東京 🧵"]}},
           {"kind": "call_made", "call": "c2", "tool": "shell", "input": {"command": "pytest"}, "touched": touched},
           {"kind": "call_returned", "call": "c2", "output": "1 failed: lock", "failed": True},
           message("readers block; the checksum is wrong", "assistant"),
           {"kind": "turn_ended", "turn": "t1", "usage": {"input": 1200, "output": 90}, "model": "claude-opus-5-5"},
    )  # fmt: skip
    append(plane, plain, {"kind": "my.kind", "anything": {"deep": [[[1]]]}})
    append(plane, plain, message("again", "assistant", source="ours:2"))
    append(plane, plain,
           {"kind": "fact_learned", "fact": "f1", "text": "the tests share one database", "evidence": [3]},
           {"kind": "fact_learned", "fact": "f2", "text": "a lock file helps", "scope": "project"},
           {"kind": "fact_retired", "fact": "f2", "reason": "it does not"},
           {"kind": "decision_made", "decision": "d1", "choice": "use WAL", "why": "never block", "rejected": ["lock"]},
           {"kind": "decision_made", "decision": "d2", "choice": "sleep"},
           {"kind": "decision_reversed", "decision": "d2", "reason": "no"},
           {"kind": "progress_noted", "done": "found it", "next": "mend it", "open": ["why now?"]},
           {"kind": "scratch_set", "name": "next", "value": {"line": 12}},
           {"kind": "scratch_set", "name": "gone", "value": 1},
           {"kind": "scratch_cleared", "name": "gone"},
           {"kind": "compacted", "summary": "they looked for a lock", "first": 2, "last": 6},
           {"kind": "approval_asked", "approval": "a1", "question": "push?"},
           {"kind": "approval_given", "approval": "a1", "allowed": False},
           {"kind": "handoff_offered", "handoff": "h1", "to": "agent:fred"},
           {"kind": "workspace_snapshotted", "snapshot": "s1"},
    )  # fmt: skip
    large = open_session(plane, "Large bodies")
    append(plane, large, message(big("lock")), message(big("checksum"), "assistant"))
    append(plane, large, message("a small one"), message(big("lock")))
    child = str(plane.client.call("fork", session=plain, at=4, title="Try a lock file").id)
    append(plane, child, message("try a lock file"), {"kind": "fact_learned", "fact": "f3", "text": "slow"})
    grandchild = str(plane.client.call("fork", session=child, title="Try harder").id)
    append(plane, grandchild, message("harder"))
    early = str(plane.client.call("fork", session=grandchild, at=2, title="From the beginning").id)
    of_large = str(plane.client.call("fork", session=large, at=3).id)
    append(plane, of_large, message("after large ones"))
    return {"plain": plain, "child": child, "grandchild": grandchild, "early": early, **states(plane)}


def states(plane: Plane) -> dict[str, str]:
    """Write a session in each state, one with a lease, one over its budget."""
    call = plane.client.call
    paused, closed, archived = (open_session(plane, title) for title in ("Paused", "Closed", "Archived"))
    for session in (paused, closed, archived):
        append(plane, session, message("hello"))
    call("pause", session=paused, reason="lunch")
    call("close", session=closed, outcome="failed", summary="no luck")
    call("close", session=archived)
    call("archive", session=archived, reason="old")
    held, released = open_session(plane, "Held", project="ops"), open_session(plane, "Released", project="ops")
    call("lease_acquire", session=held, holder="first", seconds=0.01)
    time.sleep(0.05)
    lease = call("lease_acquire", session=held, holder="second", seconds=5)
    append(plane, held, message("mine alone"), lease=lease.epoch)
    lease = call("lease_acquire", session=released, holder="first", seconds=60)
    call("lease_release", session=released, lease=lease.epoch)
    limited = open_session(plane, "Limited", project="ops", budget_tokens=1000, budget_usd=1.5)
    append(plane, limited, {"kind": "turn_ended", "usage": {"input": 10, "output": 5, "cost_micros": 1200}})
    spent = open_session(plane, "Spent", project="ops", budget_tokens=100)
    try:
        append(plane, spent, {"kind": "turn_ended", "usage": {"input": 300, "output": 5}})
    except ClewError as error:
        print(f"as it should be: {error.code}", file=sys.stderr)
    call("budget", session=limited, tokens=10_000)
    return {"paused": paused, "closed": closed, "archived": archived, "held": held, "released": released,
            "limited": limited, "spent": spent}  # fmt: skip


def capture(plane: Plane) -> None:
    """Capture native files: complete, grown, rewritten and forked ones, and one that clew itself wrote."""
    if ask(plane, "capture_find", home=str(PERSON)) is None:
        return
    for fixture, path in NATIVE.items():
        put_file(path, (FIXTURES / fixture).read_bytes())
    opencode(PERSON / ".local/share/opencode/opencode.db")
    records = claude.story()
    transcript("1", records[:8])
    transcript("2", records[:6])
    report(plane)
    transcript("1", records)
    transcript("2", [*records[:4], claude.says("u9", "a2", big("files")), *records[4:]])
    report(plane)
    transcript("3", [*records[:9], claude.says("u8", "a4", "another way, please")])
    report(plane)
    source = next(line for line in plane.sessions(limit=500) if line.title == "Files")
    written = plane.resume_in(source.id, "codex", cwd="/home/me/app")
    with open(written.files[0], "ab") as file:
        record = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on, please"}]}
        line = {"timestamp": "2026-11-16T12:00:00.000Z", "type": "response_item", "payload": record}
        file.write(json.dumps(line).encode() + b"\n")
    report(plane)


def transcript(digit: str, records: list[dict[str, Any]]) -> None:
    """A transcript of Claude Code whose session id is made of this digit."""
    session = claude.SESSION.replace("1", digit)
    claude.transcript(PERSON, session=session).write_bytes(
        claude.lines(records).replace(claude.SESSION.encode(), session.encode())
    )


def report(plane: Plane) -> None:
    for done in plane.capture(home=str(PERSON)):
        if done.error or not done.records:
            raise AssertionError(done)


def put_file(path: str, data: bytes) -> None:
    (PERSON / path).parent.mkdir(parents=True, exist_ok=True)
    (PERSON / path).write_bytes(data)


def opencode(path: Path) -> None:
    """OpenCode's database, from the rows of the fixture."""
    path.parent.mkdir(parents=True)
    tables = json.loads((FIXTURES / "opencode" / "rows.json").read_text())
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, rows in tables.items():
            columns = list(dict.fromkeys(name for row in rows for name in row))
            connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            for row in rows:
                if OPENCODE not in (row.get("id"), row.get("session_id")):
                    continue
                values = [json.dumps(value) if isinstance(value, dict | list) else value for value in row.values()]
                connection.execute(
                    f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", values
                )


def grant_access(plane: Plane, sessions: dict[str, str]) -> None:
    """Add principals, teams, grants, keys, agents, settings and a private session."""
    if ask(plane, "principal_add", principal=ADA, title="Ada") is None:
        return
    call = plane.client.call
    call("principal_add", principal=BOB, title="Bob", issuer="https://login.example", subject="bob-1")
    call("principal_add", principal=FRED)
    call("principal_add", principal="person:eve")
    call("principal_disable", principal="person:eve")
    call("team_add", name="core", principal=BOB)
    call("team_add", name="core", principal=FRED)
    call("access_grant", who=ADA, role="admin")
    call("access_grant", who="team:core", role="viewer", project="shop")
    call("access_grant", who=BOB, rights=["see", "read"], agent="reviewer", project="ops", days=30)
    call("share", session=sessions["plain"], who=FRED)
    call("link", session=sessions["closed"], days=30)
    call("key_create", principal=BOB, label="laptop", scopes=["see", "read"], project="shop", days=3650)
    rotated = call("key_create", label="rotated", days=3650)
    call("key_rotate", key=rotated.id)
    call("agent_register", name="coder", project="shop", runtime="codex", model="gpt-6", instructions="mend it",
         tools=["shell"], match_runtime="codex", match_path="/srv/*")  # fmt: skip
    call("setting_set", name="audit_reads", value="on", project="quiet")
    call("setting_set", name="secrets", value="mask", project="masked")
    private = open_session(plane, "Private")
    append(plane, private, message("nobody else's business"))
    call("privacy", session=private, private=True)
    masked = open_session(plane, "Masked", project="masked")
    append(plane, masked, message("the password is hunter2, the key is AKIA" + "Q3EGRXYZABCDEFGH"))


def remove_content(plane: Plane) -> None:
    """Prune by retention, hold a project, erase sessions."""
    call = plane.client.call
    old, kept = open_session(plane, "Old", project="short"), open_session(plane, "Old, with a fork", project="short")
    for session in (old, kept):
        append(
            plane,
            session,
            message("soon gone"),
            message(big("soon")),
            {"kind": "fact_learned", "fact": "f", "text": "stays"},
        )
    call("fork", session=kept, at=2)
    on_hold = open_session(plane, "On hold", project="legal")
    call("retention_set", project="short", keep_days=0)
    call("retention_set", project="legal", hold=True)
    call("retention_set", project="shop", agent="reviewer", keep_days=36500)
    time.sleep(0.01)
    if (captured := ask(plane, "sessions", runtime="gemini-cli")) is not None:
        call("retention_set", project=captured[0].project, agent=captured[0].agent, keep_days=0)
        time.sleep(0.01)
    call("retention_apply")
    append(plane, on_hold, message("kept as evidence"))
    doomed = open_session(plane, "To be erased")
    append(plane, doomed, message("a secret"), message(big("secret")))
    fork = str(call("fork", session=doomed).id)
    append(plane, fork, message("the same secret"))
    call("erase", session=doomed, with_forks=True, reason="on request")
    if (captured := ask(plane, "sessions", runtime="qwen-code")) is not None:
        for line in captured:
            call("erase", session=line.id)


# Servers --------------------------------------------------------------------------------------------------------------


def serve(plane: Plane, url: str, home: Path, session: str) -> bool:
    """Send requests over HTTP, push into the store and out of it; False when this code has no server."""
    if ask(plane, "key_list") is None or ask(plane, "originals", session=session) is None:
        return False
    key = plane.client.call("key_create", label="over HTTP").key
    bobs = plane.client.call("key_create", principal=BOB, label="over HTTP").key
    with served(url, home) as address:
        body = {"title": "Asked for twice", "project": "shop"}
        answers = {request(address, "POST", "/v1/sessions", key, body, "once") for _ in range(2)}
        if len(answers) != 1:
            raise AssertionError(answers)
        request(address, "POST", f"/v1/sessions/{session}/pause", bobs, {}, "refused")
        push(PERSON / "other", "shop", address, key)
    with clew.connect(home=PERSON / "server", principal=ADA) as server:
        server.client.call("principal_add", principal=ADA)
        server.client.call("access_grant", who=ADA, role="admin")
        theirs = server.client.call("key_create").key
    with served(f"sqlite:///{PERSON / 'server' / 'clew.db'}", PERSON / "server") as address:
        push(home, "shop", address, theirs, url)
    return True


@contextmanager
def served(url: str, home: Path) -> Iterator[str]:
    port = free_port()
    arguments = ["--store", url, "--home", str(home), "serve", "--port", str(port)]
    process = subprocess.Popen([sys.executable, "-m", "clew", *arguments], stdout=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                request(address, "GET", "/v1/me", "", None, "")
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def request(address: str, method: str, path: str, key: str, body: dict[str, Any] | None, once: str) -> bytes:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}", "Idempotency-Key": once}
    data = None if body is None else json.dumps(body).encode()
    given = {name: value for name, value in headers.items() if value}
    try:
        # The address is always that of the server which this script started.
        asked = urllib.request.Request(address + path, data, given, method=method)  # noqa: S310
        with urllib.request.urlopen(asked) as answer:  # noqa: S310
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return bytes(error.read())


def push(home: Path, project: str, address: str, key: str, url: str = "") -> None:
    """Push a project from the store of a home to a server; without a URL, from a new store."""
    if not url:
        with clew.connect(home=home, principal=BOB) as other:
            append(
                other, open_session(other, "From elsewhere", project=project), message("pushed"), message(big("pushed"))
            )
    store = ["--store", url] if url else []
    for words in (["remote", "add", address], ["remote", "share", project], ["push"]):
        subprocess.run(
            [sys.executable, "-m", "clew", "--home", home, *store, *words],
            env={**os.environ, "CLEW_KEY": key, "CLEW_PRINCIPAL": BOB if not url else ADA},
            input="", text=True, check=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
