"""A lease is taken over from a holder who does not know it yet (T10)."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import apsw
import psycopg
import pytest

from clew.model.errors import LeaseHeld, LeaseLost
from clew.model.events import Event, LeaseTaken, MessageAdded
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log import leases
from clew.store.log.leases import Lease
from clew.store.log.opening import Opening
from support.children import Child
from support.drafts import message, name, names, without_source
from support.postgres import Server

ROUNDS = int(os.environ.get("CLEW_ZOMBIE_ROUNDS", "20"))
TTL_US = 100_000
# How long after the end of a lease another holder has it at the latest, with room for a busy machine.
RACERS = 4
TAKEOVERS = 60
RACE_TTL_US = 30_000
STOPS = 80
WAITS = 10
WAIT_TTL_US = 150_000


def new_session(store: Store) -> Session:
    return store.open(Opening(project="p", title="t"), actor="person:test")


def take_over(store: Store, session: Session, holder: str, *, ttl_us: int) -> Lease:
    """Ask for the lease until it is given; only the database knows when that is."""
    while True:
        try:
            return leases.acquire(store, session, holder=holder, ttl_us=ttl_us, actor=f"agent:{holder}")
        except LeaseHeld:
            time.sleep(0.002)


def append(store: Store, session: Session, lease: Lease, number: int) -> None:
    """Append a draft that bears the epoch; every other one has no source."""
    draft = message(name(f"epoch{lease.epoch}", number), 100)
    store.append(
        session, [draft if number % 2 else without_source(draft)], actor=f"agent:{lease.holder}", lease=lease.epoch
    )


def check_epochs(events: Iterable[Event]) -> int:
    """Check that every draft was stored while its epoch was the newest; returns how many epochs there were."""
    epoch = 0
    for event in events:
        if isinstance(event.body, LeaseTaken):
            assert event.body.epoch > epoch, f"epoch {event.body.epoch} comes after {epoch}"
            epoch = event.body.epoch
        if isinstance(event.body, MessageAdded):
            writer = names([event])[0].partition("-")[0]
            assert writer == f"epoch{epoch}", f"event {event.seq} of {writer} was stored in epoch {epoch}"
    return epoch


def test_every_write_of_a_holder_who_slept_past_its_lease_is_refused(store_url: str) -> None:
    with open_store(store_url) as store:
        session = new_session(store)
        with Child("zombie.py", store_url, session.id) as zombie:
            for _ in range(ROUNDS):
                zombie.tell("hold", TTL_US)
                zombie.hear("holding")
                zombie.stop()
                zombie.tell("write")
                lease = take_over(store, session, "heir", ttl_us=60_000_000)
                append(store, session, lease, 0)
                zombie.signal(signal.SIGCONT)
                assert zombie.hear("wrote") == ["lease_lost"] * 5
                append(store, session, lease, 1)
                leases.release(store, session, epoch=lease.epoch, actor="agent:heir")
            zombie.finish()
        events = list(store.read(session))
        check_epochs(events)
        assert len(names(events)) == 4 * ROUNDS


def test_nothing_is_stored_under_an_old_epoch_however_close_the_race(store_url: str) -> None:
    """Several holders, each of whom writes as fast as it can until it is told that its lease is lost."""
    with open_store(store_url) as store:
        session = new_session(store)
        enough = threading.Event()

        def race(holder: str) -> int:
            refused = 0
            with open_store(store_url) as own:
                while not enough.is_set():
                    lease = take_over(own, session, holder, ttl_us=RACE_TTL_US)
                    if lease.epoch >= TAKEOVERS:
                        enough.set()
                    refused += write_until_lost(partial(append, own, session, lease))
            return refused

        with ThreadPoolExecutor(RACERS) as pool:
            refused = sum(pool.map(race, [f"racer{number}" for number in range(RACERS)]))
        epochs = check_epochs(list(store.read(session)))
        assert epochs >= TAKEOVERS
        assert refused >= TAKEOVERS
        print(f"{epochs} takeovers, {len(names(list(store.read(session))))} drafts")


def test_an_append_that_waits_while_its_lease_is_taken_over_is_refused(store_url: str) -> None:
    """The check and the write are one: whoever looked first and writes later would write under an old epoch."""
    with open_store(store_url) as store, open_store(store_url) as other:
        session = new_session(store)
        for _ in range(WAITS):
            lease = take_over(store, session, "holder", ttl_us=WAIT_TTL_US)
            with ThreadPoolExecutor(2) as pool:
                with blocked(store_url, session):
                    # In this order, because PostgreSQL serves whoever waits in the order of received_event.
                    heir = pool.submit(take_over, other, session, "heir", ttl_us=60_000_000)
                    time.sleep(0.02)
                    late = pool.submit(append, store, session, lease, 0)
                    time.sleep(WAIT_TTL_US / 1e6)  # The store's clock is this machine's; nothing can be awaited.
                taken = heir.result()
                with pytest.raises(LeaseLost):
                    late.result()
            append(other, session, taken, 0)
            leases.release(other, session, epoch=taken.epoch, actor="agent:heir")
        events = list(store.read(session))
        check_epochs(events)
        assert len(names(events)) == WAITS


@contextmanager
def blocked(url: str, session: Session) -> Iterator[None]:
    """Keep everybody else from writing to the session."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.close(True)
    else:
        with psycopg.connect(url) as transaction:
            transaction.execute("UPDATE head SET at = at WHERE session = %s", [session.key])
            yield


def write_until_lost(write: Callable[[int], None]) -> int:
    number = 0
    try:
        while True:
            write(number)
            number += 1
    except LeaseLost:
        return 1


def test_a_holder_that_stops_inside_a_transaction_of_postgres_does_not_block_its_heir(
    postgres: Server, chance: random.Random
) -> None:
    url = postgres.new_database()
    with open_store(url) as store:
        session, other = new_session(store), new_session(store)
        with Child("zombie.py", url, session.id) as zombie:
            zombie.tell("write for ever")
            zombie.hear("holding")
            stop_inside_transaction(zombie, url, chance)
            with ThreadPoolExecutor(1) as pool:
                heir = pool.submit(take_over, store, session, "heir", ttl_us=60_000_000)
                try:
                    lease = heir.result(timeout=20)
                except TimeoutError:
                    pytest.fail("the stopped holder blocks its heir for as long as it likes")
                finally:
                    zombie.kill()  # Sets whoever waits for it free.
            append(store, session, lease, 0)
        check_epochs(list(store.read(session)))
        assert store.append(other, [message("w-0", 100)]).seqs == [2]


def stop_inside_transaction(child: Child, url: str, chance: random.Random) -> None:
    """Stop the child many times, the last time where the server waits for it in the middle of a transaction.

    If that never happens, because there is no such middle, the child is left where it is.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(5 * STOPS):
            child.signal(signal.SIGCONT)
            time.sleep(chance.uniform(0, 0.003))  # Not waiting for anything: it runs on to another moment.
            child.stop()
            state = state_of_transaction(connection)
            assert state in ("", "idle in transaction"), f"the server waits in state {state!r}, which has no time-out"
            if number >= STOPS and state:
                return


def state_of_transaction(connection: psycopg.Connection) -> str:
    """In which state the server waits for the client to go on with a transaction; none if it does not wait."""
    state = ""
    for _ in range(10):
        time.sleep(0.002)  # What the child had sent before it stopped is still being carried out at first.
        rows = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'clew' "
            "AND xact_start IS NOT NULL AND wait_event = 'ClientRead'"
        ).fetchall()
        if not rows:
            return ""
        state = str(rows[0][0])
    return state
