"""A store that older code made opens, migrates, verifies and exports byte for byte, also after a killed migration.

The stores are in `old_stores`, each with a snapshot of what the code that made it answered. `make.py` there describes
them and makes more. The tests use operations and commands, and SQL only to read the schema version and to count rows.
"""

import io
import json
import os
import random
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
import zstandard
from psycopg.conninfo import conninfo_to_dict

import clew
from clew.client import Plane
from clew.model.errors import BudgetExceeded, SchemaOutdated, WrongState
from store.old_stores.snapshot import (
    as_today,
    differences,
    session_snapshot,
    take_snapshot,
    views_snapshot,
    without_later,
)
from support import claude
from support.children import Child
from support.postgres import Server

HERE = Path(__file__).resolve().parent / "old_stores"
NAMES = sorted(path.name.removesuffix(".tar.zst") for path in HERE.glob("schema-*.tar.zst"))
ADA = "person:ada"
# The schema whose migration is killed: the oldest one with captured files, so it has the most steps.
KILLED = 3
# A migration on SQLite takes so little time that few kills hit it.
ROUNDS = {"sqlite": 20, "postgres": 10}
# More statements than one step of a migration executes.
STATEMENTS = 6
# Tables that a migration gave another name.
RENAMED = {"api_key": "credential"}
# The role that uses the database owns its tables, as if it had made them.
GIVE_AWAY = """
DO $$ DECLARE name TEXT; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
        EXECUTE format('ALTER TABLE public.%I OWNER TO {role}', name);
    END LOOP;
END $$
"""


class Archive:
    """An unpacked archive, of which each test makes the copies it needs."""

    def __init__(self, name: str, folder: Path, server: Callable[[], Server]) -> None:
        self.name = name
        self.schema = int(re.findall(r"\d+", name)[0])
        self.database = name.split(".")[1]
        self.is_sqlite = self.database == "sqlite"
        self.migrated: tuple[Copy, dict[str, int]] | None = None
        """A copy for the tests that only read, and how many rows its tables had right after the migration."""
        self.folder = folder
        self._server = server
        data = zstandard.ZstdDecompressor().decompressobj().decompress((HERE / f"{name}.tar.zst").read_bytes())
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            # Python 3.11.0 to 3.11.3, such as Debian's, have no filters; the archives are our own.
            archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202
        (folder / "clew").mkdir(exist_ok=True)  # On PostgreSQL old code wrote no file there.
        self.snapshot: dict[str, Any] = json.loads((folder / "snapshot.json").read_text("utf-8"))
        rows: dict[str, int] = self.snapshot.pop("rows")
        self.rows = {RENAMED.get(table, table): count for table, count in rows.items()}

    def copy(self, folder: Path) -> "Copy":
        home = shutil.copytree(self.folder / "clew", folder)
        home.chmod(0o700)
        if self.is_sqlite:
            return Copy(self, home, f"sqlite:///{home / 'clew.db'}")
        owner = self._loaded()
        return Copy(self, home, owner, self._server().stranger(owner))

    def _loaded(self) -> str:
        """The URL of a new PostgreSQL database with the dump in it, of a role that row level security applies to."""
        url = self._server().walled_database()
        place = conninfo_to_dict(url)
        with psycopg.connect(self._server().url(str(place["dbname"])), autocommit=True) as connection:
            connection.execute((self.folder / "dump.sql").read_bytes())
            connection.execute(GIVE_AWAY.format(role=place["user"]).encode())
        return url

    def titled(self, title: str) -> str:
        """The id of the first session with this title."""
        return next(id for id, session in self.sessions() if session["title"] == title)

    def sessions(self) -> list[tuple[str, dict[str, Any]]]:
        """The id of each session and what old code showed of it; it shows no control logs."""
        shown = self.snapshot["sessions"].items()
        return [(id, session["detail"]["session"]) for id, session in shown if session]


class Copy:
    """A store that older code made, at a URL."""

    def __init__(self, archive: Archive, home: Path, url: str, runtime_url: str = "") -> None:
        self.archive = archive
        self.home = home
        self.url = url
        self.runtime_url = runtime_url or url
        """The URL for the role that the migration gives the rights of a server."""

    @property
    def arguments(self) -> list[str]:
        return ["--store", self.url, "--home", str(self.home)]

    @property
    def migrating(self) -> list[str]:
        """The command that migrates and sets up both roles; on SQLite any command that opens the store migrates."""
        if self.archive.is_sqlite:
            return [*self.arguments, "whoami"]
        return [*self.arguments, "migrate", "--runtime-role", str(conninfo_to_dict(self.runtime_url)["user"])]

    def connect(self) -> Plane:
        return clew.connect(self.url, home=self.home, principal=ADA)

    def connect_as_server(self) -> Plane:
        return clew.connect(self.runtime_url, home=self.home, principal=ADA)

    def schema(self) -> int:
        return self.number("SELECT max(version) FROM clew_schema")

    def number(self, statement: str) -> int:
        """The number that a statement returns, whatever the schema of the store."""
        if self.archive.is_sqlite:
            with closing(apsw.Connection(self.url.removeprefix("sqlite:///"))) as connection:
                return int(connection.execute(statement).fetchall()[0][0])
        with psycopg.connect(self.url) as other:
            other.execute("SET clew.reach = '*'")
            return int(other.execute(statement.encode()).fetchall()[0][0])


class Migrator:
    """Runs `clew` in processes that are killed on request."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def run(self, arguments: list[str], **kill: float) -> tuple[str, float]:
        """Run a command; returns `killed` or its exit code, and the seconds it took."""
        self._child.tell(json.dumps({"arguments": arguments, **kill}))
        end, seconds = self._child.hear("ended")
        return end, float(seconds)

    def migrate(self, copy: Copy) -> Copy:
        assert self.run(copy.migrating)[0] == "0"
        return copy


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], Archive]:
    """Returns the archive of a name, unpacked once."""
    archives: dict[str, Archive] = {}

    def get(name: str) -> Archive:
        if name not in archives:
            folder = tmp_path_factory.mktemp(name)
            archives[name] = Archive(name, folder, lambda: request.getfixturevalue("postgres"))
        return archives[name]

    return get


@pytest.fixture(scope="module")
def migrators(
    archived: Callable[[str], Archive], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Archive], Migrator]]:
    """Returns the migrator that has loaded the driver of an archive's database."""
    children: dict[str, Child] = {}

    def get(archive: Archive) -> Migrator:
        if archive.database not in children:
            warm = archived(f"schema-{KILLED}.{archive.database}").copy(tmp_path_factory.mktemp("warm") / "clew")
            children[archive.database] = Child(str(HERE / "migrator.py"), *warm.migrating)
            children[archive.database].hear("ready")
        return Migrator(children[archive.database])

    yield get
    for child in children.values():
        with child:
            child.finish()


@pytest.fixture(params=NAMES)
def archive(request: pytest.FixtureRequest, archived: Callable[[str], Archive]) -> Archive:
    return archived(request.param)


@pytest.fixture(params=[name for name in NAMES if name.startswith(f"schema-{KILLED}.")])
def killed(request: pytest.FixtureRequest, archived: Callable[[str], Archive]) -> Archive:
    return archived(request.param)


@pytest.fixture
def migrator(request: pytest.FixtureRequest, migrators: Callable[[Archive], Migrator]) -> Migrator:
    name = "archive" if "archive" in request.fixturenames else "killed"
    return migrators(request.getfixturevalue(name))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder in memory if possible: a killed process loses nothing that the kernel has."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def copy(archive: Archive, migrator: Migrator, scratch: Path) -> Copy:
    """A migrated store that the test may write."""
    return migrator.migrate(archive.copy(scratch / "clew"))


@pytest.fixture
def migrated(archive: Archive, migrator: Migrator) -> Copy:
    """A migrated store that tests only read."""
    if archive.migrated is None:
        copy = migrator.migrate(archive.copy(archive.folder / "migrated"))
        if not archive.is_sqlite:
            # The owner has made the tables of the views anew; whoever reads them fills them, here as a server does.
            with copy.connect_as_server() as plane:
                plane.client.call("views_step")
        archive.migrated = copy, {table: copy.number(f"SELECT count(*) FROM {table}") for table in archive.rows}
    return archive.migrated[0]


def test_there_are_stores_of_both_databases() -> None:
    assert {name.split(".")[1] for name in NAMES} == {"sqlite", "postgres"}
    assert {f"schema-{KILLED}.sqlite", f"schema-{KILLED}.postgres"} <= {*NAMES}


# What was there is there ----------------------------------------------------------------------------------------------


def test_no_table_lost_a_row(migrated: Copy) -> None:
    archive = migrated.archive
    assert archive.migrated is not None
    assert {table: count for table, count in archive.migrated[1].items() if count < archive.rows[table]} == {}
    assert min(archive.rows[table] for table in ("session", "head", "event", "blob", "cursor", "policy")) > 0


def test_all_answers_are_those_of_the_older_code(migrated: Copy, migrator: Migrator) -> None:
    """Every event with its digest, every native file byte for byte, who may do what, searches, sums and the audit."""
    with migrated.connect() as plane:
        # Views with other tables are built again, and whoever reads them first is told so.
        plane.client.call("views_step")
        snapshot = take_snapshot(plane)
    recorded = as_today(migrated.archive.snapshot)
    assert differences(without_later(snapshot, recorded), recorded) == []
    assert [checked["problems"] for checked in snapshot["verified"]] == [[]] * len(snapshot["verified"])
    # An old store has jobs that are late by now, of kinds that came after it, too.
    migrator.run([*migrated.arguments, "worker", "--once"])
    for command in ("verify", "doctor"):
        assert migrator.run([*migrated.arguments, command])[0] == "0"


def test_whoever_opened_a_session_owns_it(migrated: Copy) -> None:
    """The migration to schema 4 reads the owner from the first event."""
    with migrated.connect() as plane:
        for id, shown in migrated.archive.sessions():
            session = plane.get(id)
            first = session.events(after=shown.get("upto", 0))[0]
            assert session.info.owner == ("" if shown["state"] == "erased" else first.actor)


def test_rebuilt_views_give_the_same_answers(migrated: Copy) -> None:
    with migrated.connect() as plane:
        before = views_snapshot(plane)
        plane.client.call("views_rebuild")
        assert views_snapshot(plane) == before
        assert before["listed"]
        assert before["found"]["lock"]


def test_collecting_blobs_keeps_every_blob_in_use(migrated: Copy) -> None:
    with migrated.connect() as plane:
        plane.client.call("collect")
        for id, session in migrated.archive.snapshot["sessions"].items():
            assert differences(session_snapshot(plane, id), as_today(session)) == []


def test_a_shared_store_is_migrated_only_on_request(archived: Callable[[str], Archive], scratch: Path) -> None:
    copy = archived(f"schema-{KILLED}.postgres").copy(scratch / "clew")
    with pytest.raises(SchemaOutdated):
        copy.connect()
    assert copy.schema() == KILLED


# The log goes on ------------------------------------------------------------------------------------------------------


def test_the_log_goes_on(copy: Copy, scratch: Path) -> None:
    archive = copy.archive
    with copy.connect() as plane:
        go_on_talking(plane, archive)
        go_on_with_states(plane, archive)
        go_on_capturing(plane, scratch)
        made = plane.client.call("audit_checkpoint")
        assert made.made
        listed = archive.snapshot["lists"]["checkpoints"] or {"checkpoints": []}
        notes = [made.note, *(checkpoint["note"] for checkpoint in listed["checkpoints"])]
        assert plane.client.call("audit_verify", checkpoints=notes).problems == []
        assert [problem for checked in plane.verify() for problem in checked.problems] == []


def go_on_talking(plane: Plane, archive: Archive) -> None:
    """A repeated source is deduplicated, seqs go on, forks read their ancestors, search finds new events."""
    session = plane.get(archive.titled("Fix the lock error"))
    head = session.head
    again = {"kind": "message_added", "role": "assistant", "text": "again", "source": "ours:2"}
    large = {"kind": "message_added", "role": "user", "text": "xylophone " * 5000, "source": "new:1"}
    answer = plane.client.call("append", session=session.id, drafts=[again, large])
    assert answer.deduplicated == answer.seqs[:1]
    assert answer.seqs[1] == session.head == head + 1
    fork = plane.get(archive.titled("Try harder")).fork(at=3)
    fork.user("xylophone")
    assert [event.session for event in fork.events()] == [session.id] * 3 + [fork.id] * 2
    found = plane.search("xylophone", flat=True)
    assert {(hit.session, hit.seq) for hit in found.hits} == {(session.id, head + 1), (fork.id, 5)}
    assert session.knowledge().decisions.keys() == {"d1"}


def go_on_with_states(plane: Plane, archive: Archive) -> None:
    """Each state allows what it allowed before, and the epoch of a lease grows."""
    paused = plane.get(archive.titled("Paused"))
    with pytest.raises(WrongState):
        paused.user("not yet")
    paused.resume()
    paused.user("now")
    with pytest.raises(WrongState):
        plane.get(archive.titled("Archived")).user("never")
    with pytest.raises((BudgetExceeded, WrongState)):
        plane.get(archive.titled("Spent")).user("too much")
    held = plane.get(archive.titled("Held"))
    taken = [event.body.epoch for event in held.events() if event.kind == "lease_taken"]
    assert held.acquire(seconds=60).epoch > max(taken)
    held.user("by the new holder")
    erased = [id for id, session in archive.sessions() if session["state"] == "erased"]
    assert len(erased) >= 2
    for id in erased:
        with pytest.raises(WrongState):
            plane.get(id).user("back again")


def go_on_capturing(plane: Plane, home: Path) -> None:
    path = claude.transcript(home, session="99999999-2222-4333-8444-555555555555")
    data = claude.lines(claude.story()).replace(claude.SESSION.encode(), path.stem.encode())
    path.write_bytes(data)
    [report] = plane.capture(home=str(home))
    assert report.error is None
    [file] = plane.client.call("export", session=report.session, form="native", secrets=True)
    assert file.data == data


# Killed half-way ------------------------------------------------------------------------------------------------------


def test_a_migration_that_is_killed_after_each_statement(killed: Archive, migrator: Migrator, scratch: Path) -> None:
    """Each run is killed one statement later than the run before, on the same store."""
    copy = killed.copy(scratch / "clew")
    calls, versions = 1, [KILLED]
    while (end := migrator.run(copy.migrating, after_calls=calls)[0]) == "killed":
        if (version := copy.schema()) == versions[-1]:
            calls += 1
        else:
            versions.append(version)
            calls -= STATEMENTS
    assert end == "0"
    assert len(versions) > 2
    assert versions == list(range(KILLED, versions[-1] + 1)), "no run was killed between two steps"
    check_after_kill(copy, migrator)


def test_a_migration_that_is_killed_at_any_moment(killed: Archive, migrator: Migrator, scratch: Path) -> None:
    whole = killed.copy(scratch / "whole")
    _, seconds = migrator.run(whole.migrating)
    chance = random.Random(f"{killed.name} 1")
    rounds = left = ROUNDS[killed.database]
    for number in range(10 * rounds):
        copy = killed.copy(scratch / f"clew-{number}")
        while left and copy.schema() < whole.schema():
            end, _ = migrator.run(copy.migrating, after_seconds=chance.uniform(0.2, 1) * seconds)
            if end == "killed":
                left -= 1
            else:
                # It ended before the kill: the machine is quicker now than when the first run was timed.
                seconds *= 0.8
        check_after_kill(copy, migrator)
        if not left:
            break
    assert not left


def check_after_kill(copy: Copy, migrator: Migrator) -> None:
    """The next attempt migrates the store; then it verifies, has its events and native files, and takes new events."""
    migrator.migrate(copy)
    recorded = copy.archive.snapshot
    with copy.connect_as_server() as plane:
        verified = json.loads(json.dumps([checked_as_recorded(checked) for checked in plane.verify()]))
        assert verified == recorded["verified"]
        for title in ("Files", "Try harder"):
            id = copy.archive.titled(title)
            assert differences(session_snapshot(plane, id), as_today(recorded["sessions"][id])) == []
        opened = plane.session("After the kill")
        opened.user("it goes on")
        assert opened.head == 2


def checked_as_recorded(checked: Any) -> dict[str, Any]:
    return {name: getattr(checked, name) for name in ("session", "events", "removed", "digest", "problems")}
