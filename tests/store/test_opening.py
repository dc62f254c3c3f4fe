"""Opening a log: made on first use, and refused in clear words, without secrets, when it cannot be opened."""

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from clew.model.errors import ClewError, Damaged, InvalidInput, StoreError, Unavailable
from clew.store import Store, open_store
from clew.store.log.verify import verify_all
from store.crowd import at_once
from store.words import big, messages, opened, say
from support.postgres import Server, free_port

SECRET = "hunter2"


# On first use ---------------------------------------------------------------------------------------------------------


def test_a_store_is_made_on_first_use(store_url: str) -> None:
    with open_store(store_url) as store:
        assert store.sessions() == []
        assert store.last_position() == 0


def test_many_who_come_first_at_once_all_get_a_working_store(store_url: str) -> None:
    def work() -> str:
        with open_store(store_url) as store:
            session = opened(store)
            store.append(session, [say("here")])
            return session.id

    ids = at_once([work] * 6)
    assert not [outcome for outcome in ids if isinstance(outcome, Exception)]
    with open_store(store_url) as store:
        assert {listed.session.id for listed in store.sessions()} == set(ids)
        assert all(verified.ok for verified in verify_all(store))


def test_two_stores_on_one_database_see_each_others_events(store: Store, store_url: str) -> None:
    with open_store(store_url) as other:
        session = opened(store)
        other.append(other.session(session.id), [say("theirs")])
        store.append(session, [say("ours")])
        assert messages(list(store.read(session))) == messages(list(other.read(session))) == ["theirs", "ours"]


def test_a_new_sqlite_log_is_private_to_its_owner(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    with open_store(f"sqlite:///{home / 'clew.db'}") as store:
        store.append(opened(store), [say(big())])
        places = [path for path in home.rglob("*") if path.suffix != ".db-shm"]
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [home, *places]}
    assert len(modes) >= 5
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=ro#c%20d é" / "my log.db"
    with open_store(f"sqlite:///{path}") as store:
        opened(store)
    assert path.exists()


def test_memory_is_no_place_for_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection would have a database of its own, and what was acknowledged would be nowhere."""
    monkeypatch.chdir(tmp_path)
    try:
        with open_store("sqlite:///:memory:") as store:
            session = opened(store)
            store.append(session, [say("kept")])
            assert messages(list(store.read(session))) == ["kept"]
    except InvalidInput:
        return
    assert (tmp_path / ":memory:").stat().st_size > 0


# SQLite files that are none -------------------------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    path.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(Damaged, match="not a clew database"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == b"Dear diary, " * 1000


@pytest.mark.parametrize("where", [0, 20, 100, 5000])
def test_a_damaged_file_is_reported_and_nothing_else_goes_wrong(tmp_path: Path, where: int) -> None:
    path = tmp_path / "clew.db"
    url = f"sqlite:///{path}"
    with open_store(url) as store:
        store.append(opened(store), [say(str(number)) for number in range(500)])
    content = bytearray(path.read_bytes())
    content[where : where + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    with pytest.raises(StoreError):
        check(url)


def test_a_truncated_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    url = f"sqlite:///{path}"
    with open_store(url) as store:
        store.append(opened(store), [say(str(number)) for number in range(500)])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(StoreError):
        check(url)


def check(url: str) -> None:
    """Look at everything in a log; whatever is wrong is an error."""
    with open_store(url) as store:
        list(verify_all(store))
        if problems := store.database.check():
            raise Damaged("; ".join(problems))


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        open_store(f"sqlite:///{tmp_path}")


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable):
        open_store(f"sqlite:///{tmp_path / 'file' / 'clew.db'}")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE photo (name TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(ClewError):
        open_store(f"sqlite:///{path}").close()
    assert path.read_bytes() == before


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are closed to all but the one who runs it."""
    folder = Path(tempfile.mkdtemp(prefix="clew-test-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def somebody_else() -> Iterator[None]:
    """Act as an ordinary user, because nothing is read-only to root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_written_is_reported(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    with somebody_else(), pytest.raises(Unavailable, match="permissions"):
        open_store(f"sqlite:///{public_folder / 'clew.db'}")


def test_a_log_that_cannot_be_written_is_reported(public_folder: Path) -> None:
    url = f"sqlite:///{public_folder / 'clew.db'}"
    with open_store(url) as store:
        session = opened(store)
    (public_folder / "clew.db").chmod(0o444)
    public_folder.chmod(0o555)
    with somebody_else(), pytest.raises(Unavailable, match="permissions"), open_store(url) as store:
        store.append(session, [say()])


# PostgreSQL servers that are not there --------------------------------------------------------------------------------


def test_an_unreachable_port_is_reported_without_the_password() -> None:
    port = free_port()
    with pytest.raises(Unavailable) as refusal:
        open_store(f"postgresql://ada:{SECRET}@127.0.0.1:{port}/clew")
    assert f"127.0.0.1:{port}" in str(refusal.value)
    assert SECRET not in str(refusal.value.to_dict())


def test_an_unreachable_socket_is_reported_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as refusal:
        open_store(f"postgresql://ada:{SECRET}@/clew?host={tmp_path}")
    assert SECRET not in str(refusal.value.to_dict())


def test_an_unknown_database_is_reported_by_name(postgres: Server) -> None:
    with pytest.raises(Unavailable, match="no_such_database"):
        open_store(postgres.url("no_such_database"))


def test_a_wrong_password_is_not_repeated() -> None:
    with Server(loopback=True) as server:
        good = server.loopback_url("postgres")
        name, _, rest = good.removeprefix("postgresql://").partition(":")
        _, _, place = rest.partition("@")
        with pytest.raises(Unavailable) as refusal:
            open_store(f"postgresql://{name}:{SECRET}@{place}")
    assert SECRET not in str(refusal.value.to_dict())


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://ada:{SECRET}@host/clew",
        f"ada:{SECRET}@host",
        f"mysql://host/clew?password={SECRET}",
        f"postgresql:/ada:{SECRET}@host/clew",
        f"postgresql://ada:{SECRET}%zz@127.0.0.1:1/clew",
        f"postgresql://ada:{SECRET}/more@127.0.0.1:1/clew",
        f"postgresql://ada:{SECRET}#more@127.0.0.1:1/clew",
        f"postgresql://ada:{SECRET}?more@127.0.0.1:1/clew",
        f"postgresql://ada:{SECRET}[more@127.0.0.1:1/clew",
        f"postgresql://ada:{SECRET}@127.0.0.1:{SECRET}/clew",
        f"postgresql://127.0.0.1:1/clew?password={SECRET}",
        f"postgresql://127.0.0.1:1/clew?password={SECRET}%zz",
        f"postgresql://127.0.0.1:1/clew?passwort={SECRET}",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/clew?nonsense=1",
        f"sqlite://ada:{SECRET}@host",
    ],
)
def test_a_bad_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises((InvalidInput, Unavailable, StoreError)) as refusal:
        open_store(url).close()
    assert SECRET not in str(refusal.value.to_dict())


@pytest.mark.parametrize("url", ["", "clew.db", "/tmp/clew.db", "sqlite:", "sqlite://clew.db", "http://host", "\ud800"])
def test_what_names_no_store_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///"):
        open_store(url)


def test_whoever_reads_while_a_store_is_closed_leaves_no_connection_behind(postgres: Server) -> None:
    store = open_store(postgres.new_database())
    session = opened(store)
    with store.database.read() as tx:
        reading = tx.connection  # type: ignore[attr-defined]
        store.close()
    assert reading.closed
    with pytest.raises(StoreError, match="closed by this program"):
        opened(store)
    with pytest.raises(StoreError, match="closed by this program") as refused:
        store.append(session, [say("late")])
    assert type(refused.value) is StoreError, "whoever appends would wait for that to pass"
