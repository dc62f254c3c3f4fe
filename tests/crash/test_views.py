"""Views whose builder is killed, whose file is damaged or whose disk is full: the log has it all, and nobody minds."""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from msgspec import Raw

from clew.model.access import owner_of_everything
from clew.model.errors import Damaged, Unavailable
from clew.model.events import CallMade, Draft, MessageAdded, Usage
from clew.service import Context, call
from clew.store import Store, open_store
from clew.store.log.opening import Opening
from clew.views.upkeep import REBUILT, VERSION_TABLE, Views
from crash.test_disk_full import small_disk
from store.crowd import at_once
from store.words import ADA, opened, say
from support.children import Child
from support.postgres import Server
from views.logs import Log, check_against_log, contents

KILLS = 25
DAMAGES = 24
PAGE = 8192


def fill(store: Store, chance: random.Random, *, sessions: int = 12, events: int = 40) -> None:
    """Sessions with a bit of everything; some forked, erased and pruned."""
    log = Log(store)
    for number in range(sessions):
        session = store.open(
            Opening(project="p", agent="fred" if number % 2 else "", title=f"title {number}"), actor=ADA
        )
        log.sessions.append(session)
        drafts = []
        for event in range(events // 2):
            words = " ".join(f"w{chance.randrange(400)}" for _ in range(40)) + (" lock" if event % 10 == 0 else "")
            usage = Usage(input=number + event)
            drafts.append(Draft(body=MessageAdded(role="user", text=words, usage=usage, model="m")))
            drafts.append(Draft(body=CallMade(call=str(event), tool="Read", input=Raw(b'{"path":"/app/a.py"}'))))
        store.append(session, drafts, actor=ADA)
    log.fork(3, 20)
    log.append(len(log.sessions) - 1, [say("lock in a fork")])
    log.erase(5, False)
    log.prune({7, 8})
    log.close()


# Killed ---------------------------------------------------------------------------------------------------------------


def kill_again_and_again(url: str, rounds: int, chance: random.Random) -> None:
    with open_store(url) as store:
        fill(store, chance)
        views = Views(store)
        views.catch_up()
        right, answers = contents(views), asked_of(store)
        last = store.last_position()
        unfinished = 0
        for number in range(rounds):
            with Child("viewer.py", "rebuild", url, chance.choice([7, 40, 300])) as child:
                child.hear("ready")
                child.tell("for ever")
                child.hear("begun")
                time.sleep(chance.uniform(0, 0.1))  # Not waiting for anything: this is how long it may live.
                child.kill()
            unfinished += views.lag() > 0
            if number % 2:
                assert asked_of(store) == answers
                assert contents(views) == right
        views.catch_up()
        assert contents(views) == right
        assert asked_of(store) == answers
        assert views.database.check() == []
        assert (views.pop_notice(), store.last_position()) == ("", last)
        check_against_log(store, views)
        views.close()
        print(f"{unfinished} of {rounds} were killed half-way")
        assert unfinished > rounds // 4


def asked_of(store: Store) -> list[Any]:
    """What the operations that read the views say."""
    context = Context(store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),))
    try:
        return asked(context)
    finally:
        context.views.close()


def asked(context: Context) -> list[Any]:
    return [
        call(context, "sessions", {"limit": 100}),
        sorted((hit.session, hit.seq) for hit in call(context, "search", {"query": "lock", "flat": True}).hits),
        call(context, "search", {"query": "w7*", "limit": 50}).total,
        call(context, "usage", {"by": ["session"]}).rows,
        sorted((one.session, one.read) for one in call(context, "files", {"path": "a.py"})),
        sorted(session.session for session in call(context, "search", {"agent": "fred", "limit": 50}).sessions),
    ]


def test_a_rebuild_that_is_killed_goes_on_where_it_was(tmp_path: Path, chance: random.Random) -> None:
    kill_again_and_again(f"sqlite:///{tmp_path}/clew.db", KILLS, chance)


def test_a_rebuild_of_a_server_s_views_that_is_killed_goes_on_where_it_was(
    postgres: Server, chance: random.Random
) -> None:
    kill_again_and_again(postgres.new_database(), 5, chance)


def test_whoever_asks_while_another_builds_gets_the_whole_answer(store_url: str, chance: random.Random) -> None:
    with open_store(store_url) as store, Child("viewer.py", "rebuild", store_url, 5) as child:
        fill(store, chance, sessions=4)
        answers = asked_of(store)
        child.hear("ready")
        for _ in range(3):
            child.tell("again")
            child.hear("begun")
            assert asked_of(store) == answers
            assert asked_of(store) == answers
            child.hear("built")
        child.tell("end")
        child.finish()


def test_processes_that_catch_up_at_once_take_each_event_in_once(store_url: str) -> None:
    """While somebody else appends."""
    with (
        open_store(store_url) as store,
        Child("viewer.py", "rebuild", store_url, 3) as one,
        Child("viewer.py", "rebuild", store_url, 50) as other,
    ):
        session = opened(store)
        for child in (one, other):
            child.hear("ready")
        for number in range(60):
            store.append(session, [say(f"number{number}")], actor=ADA)
            if number % 6 == 0:
                for child in (one, other):
                    child.tell("go on")
        for child in (one, other):
            child.tell("end")
            child.finish()
        views = Views(store)
        views.catch_up()
        check_against_log(store, views)
        views.close()


# Damaged --------------------------------------------------------------------------------------------------------------


class Intact(NamedTuple):
    """A log with its views, and what they answer."""

    folder: Path
    answers: list[Any]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Intact:
    folder = tmp_path_factory.mktemp("log")
    with open_store(f"sqlite:///{folder}/clew.db") as store:
        fill(store, random.Random(1), sessions=25)
        answers = asked_of(store)
    assert (folder / "clew-views.db").stat().st_size > 30 * PAGE
    return Intact(folder, answers)


@contextmanager
def opened_copy(intact: Intact, folder: Path, change: Callable[[Path], object]) -> Iterator[Context]:
    """A copy of the log with its views' file changed, as the next process finds it. The log stays as it is."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(intact.folder, copy)
    change(copy / "clew-views.db")
    store = open_store(f"sqlite:///{copy}/clew.db", synchronous="OFF")
    context = Context(store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),))
    try:
        yield context
    finally:
        context.close()
    assert (copy / "clew.db").read_bytes() == (intact.folder / "clew.db").read_bytes(), "the log was touched"


def overwrite(chance: random.Random) -> Callable[[Path], object]:
    """Overwrite some pages with zeros or with noise."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for page in chance.sample(range(len(data) // PAGE), chance.choice([1, 2, 10])):
            data[page * PAGE : (page + 1) * PAGE] = chance.choice([bytes(PAGE), chance.randbytes(PAGE)])
        path.write_bytes(data)

    return change


def test_overwritten_pages_do_no_harm(intact: Intact, scratch: Path, chance: random.Random) -> None:
    """What was built again says so once, whoever found it out; what nobody needed to look at may stay as it is."""
    rebuilt = 0
    for _ in range(DAMAGES):
        with opened_copy(intact, scratch, overwrite(chance)) as context:
            assert asked(context) == intact.answers
            assert asked(context) == intact.answers
            rebuilt += context.views.database.check() == []
    print(f"{rebuilt} of {DAMAGES} were built again")
    assert rebuilt > DAMAGES // 2


def test_threads_that_find_the_damage_at_once_all_get_the_whole_answer(
    intact: Intact, scratch: Path, chance: random.Random
) -> None:
    for _ in range(8):
        with opened_copy(intact, scratch, overwrite(chance)) as context:
            assert at_once([lambda context=context: asked(context)] * 3) == [intact.answers] * 3


def test_a_truncated_file_does_no_harm(intact: Intact, scratch: Path, chance: random.Random) -> None:
    size = (intact.folder / "clew-views.db").stat().st_size
    for keep in (1, 99, 100, 512, PAGE - 1, PAGE, 3 * PAGE, size // 2, size - PAGE, size - 1, chance.randrange(size)):
        with opened_copy(intact, scratch, lambda path, keep=keep: os.truncate(path, keep)) as context:
            assert asked(context) == intact.answers


def older(path: Path) -> None:
    """The file of a program whose schema was another."""
    connection = apsw.Connection(str(path))
    connection.execute(f"DROP TABLE listing; CREATE TABLE listing (a, b); UPDATE {VERSION_TABLE} SET version = 0")
    connection.close()


def without_a_table(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE touched")
    connection.close()


WHOLE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_bytes(b"no database, but a text\n" * 1000),
    "zeros": lambda path: path.write_bytes(bytes(20 * PAGE)),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(20 * PAGE)),
    "one letter": lambda path: path.write_bytes(b"x"),
    "a database without tables": lambda path: (path.unlink(), apsw.Connection(str(path)).pragma("user_version", 7)),
    "an older schema": older,
    "a table is missing": without_a_table,
    "noise in the -wal": lambda path: Path(f"{path}-wal").write_bytes(random.Random(1).randbytes(5 * PAGE)),
    "noise in the -shm": lambda path: Path(f"{path}-shm").write_bytes(random.Random(1).randbytes(4 * PAGE)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_is_no_good_is_built_again(intact: Intact, scratch: Path, name: str) -> None:
    with opened_copy(intact, scratch, WHOLE[name]) as context:
        assert asked(context) == intact.answers
        assert context.views.database.check() == []
    with opened_copy(intact, scratch, WHOLE[name]) as context:
        # Whoever looks first, and however.
        context.views.rebuild("usage")
        assert asked(context) == intact.answers


def test_that_damaged_views_were_built_again_is_said_once(intact: Intact, scratch: Path) -> None:
    with opened_copy(intact, scratch, WHOLE["noise"]) as context:
        notices = [call(context, "search", {"query": "lock"}).notice for _ in range(2)]
        assert notices == [REBUILT, ""]
    with opened_copy(intact, scratch, WHOLE["noise"]) as context:
        call(context, "sessions", {})
        notices = [call(context, "usage", {}).notice for _ in range(2)]
        assert notices == [REBUILT, ""]
    with opened_copy(intact, scratch, WHOLE["missing"]) as context:
        assert call(context, "search", {"query": "lock"}).notice == ""


@pytest.mark.parametrize("name", ["missing", "zeros", "noise", "empty", "a table is missing"])
def test_what_happens_to_a_file_in_use_does_no_harm(intact: Intact, scratch: Path, name: str) -> None:
    with opened_copy(intact, scratch, lambda _: None) as context:
        assert asked(context) == intact.answers
        WHOLE[name](scratch / "copy" / "clew-views.db")
        assert asked(context) == intact.answers
        copied = open_store(f"sqlite:///{scratch}/copy/clew.db")
        second = Context(store=copied, unrestricted=copied, principal=ADA, grants=context.grants)
        assert asked(second) == intact.answers
        assert asked(context) == intact.answers
        second.close()


def test_a_database_of_another_program_is_left_alone(intact: Intact, scratch: Path) -> None:
    def put(path: Path) -> None:
        path.unlink()
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE price (value); INSERT INTO price VALUES (9.99)")
        connection.close()

    with opened_copy(intact, scratch, put) as context:
        before = (scratch / "copy" / "clew-views.db").read_bytes()
        for _ in range(2):
            with pytest.raises(Damaged, match=r"clew-views.db is a database of another program .*'price'.*move"):
                call(context, "search", {"query": "lock"})
        assert (scratch / "copy" / "clew-views.db").read_bytes() == before


@pytest.mark.parametrize("put", [Path.mkdir, lambda path: path.symlink_to("nowhere/at/all")], ids=["folder", "link"])
def test_a_file_that_cannot_be_opened_is_named(intact: Intact, scratch: Path, put: Callable[[Path], object]) -> None:
    with opened_copy(intact, scratch, lambda path: (path.unlink(), put(path))) as context:
        with pytest.raises(Unavailable, match=r"cannot open .*clew-views.db.*check the path and its permissions"):
            call(context, "search", {"query": "lock"})
        assert len(context.store.sessions()) > 20


def test_damage_of_the_log_is_not_taken_for_damage_of_the_views(intact: Intact, scratch: Path) -> None:
    """A body that cannot be read is the log's to tell of; the views stay as they are."""
    with opened_copy(intact, scratch, lambda _: None) as context:
        context.views.catch_up()
        before = os.stat(scratch / "copy" / "clew-views.db").st_ino
        with pytest.raises(Damaged), context.views.read():
            raise Damaged("event 7 of a session cannot be read", session="x", seq=7)
        with pytest.raises(Damaged) as error, context.views.read():
            raise Damaged("the log's file", place=str(scratch / "copy" / "clew.db"))
        assert type(error.value) is Damaged
        assert context.views.pop_notice() == ""
        assert os.stat(scratch / "copy" / "clew-views.db").st_ino == before


# No room --------------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    with Child("viewer.py", "fill", tmp_path, under=small_disk(tmp_path, "6m")) as child:
        child.finish()
        failed = child.heard("failed")
        assert [code for code, *_ in failed] == ["disk_full"] * 2
        assert all({"no", "room", "free"} <= set(message) for _, *message in failed)
        assert child.heard("readable") == [["61"]]
        assert child.heard("taken") == [["61"]]
