"""Leases: one writer at a time, by the database's clock, with epochs that only grow."""

from collections.abc import Callable
from functools import partial

import pytest

from clew.model.errors import InvalidInput, LeaseHeld, LeaseLost, WrongState
from clew.model.events import Draft, LeaseTaken, SessionArchived, SessionClosed
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log.leases import LONGEST_US, Lease, acquire, release, renew
from clew.store.log.opening import Forking
from store.crowd import at_once
from store.rows import expire_lease, unchanged
from store.words import ADA, kinds, messages, opened, say

HOUR_US = 3_600_000_000


def take(store: Store, session: Session, *, holder: str = "ada", ttl_us: int = HOUR_US) -> Lease:
    return acquire(store, session, holder=holder, ttl_us=ttl_us, actor=ADA)


# Held -----------------------------------------------------------------------------------------------------------------


def test_the_holder_appends(store: Store, session: Session) -> None:
    lease = take(store, session)
    store.append(session, [say("mine")], lease=lease.epoch)
    assert messages(list(store.read(session))) == ["mine"]


def test_nobody_appends_without_the_lease_that_another_holds(store: Store, session: Session) -> None:
    lease = take(store, session)
    with unchanged(store), pytest.raises(LeaseHeld) as refusal:
        store.append(session, [say()])
    assert (refusal.value.details["holder"], refusal.value.details["until"]) == ("ada", lease.until)


@pytest.mark.parametrize("epoch", [0, 2, 2**70, -1])
def test_nobody_appends_with_an_epoch_that_is_not_the_sessions(store: Store, session: Session, epoch: int) -> None:
    take(store, session)
    with unchanged(store), pytest.raises(LeaseLost) as refusal:
        store.append(session, [say()], lease=epoch)
    assert refusal.value.details["epoch"] == 1


def test_nobody_appends_with_a_lease_that_was_never_taken(store: Store, session: Session) -> None:
    with unchanged(store), pytest.raises(LeaseLost):
        store.append(session, [say()], lease=store.head(session).epoch)


def test_a_held_lease_is_not_given_to_another(store: Store, session: Session) -> None:
    lease = take(store, session)
    with unchanged(store), pytest.raises(LeaseHeld) as refusal:
        take(store, session, holder="bob")
    assert (refusal.value.details["holder"], refusal.value.details["until"]) == ("ada", lease.until)


def test_a_lease_is_held_after_reopening(store_url: str) -> None:
    with open_store(store_url) as store:
        session = opened(store)
        lease = take(store, session)
    with open_store(store_url) as store:
        with pytest.raises(LeaseHeld):
            store.append(session, [say()])
        store.append(session, [say("mine")], lease=lease.epoch)


def test_a_lease_is_the_sessions_own(store: Store, session: Session) -> None:
    take(store, session)
    child, other = store.open(Forking(parent=session), actor=ADA), opened(store)
    store.append(child, [say("free")])
    store.append(other, [say("free")])


def test_of_many_who_ask_at_once_one_gets_the_lease(store: Store, session: Session, store_url: str) -> None:
    with open_store(store_url) as elsewhere:
        stores = [store, elsewhere] * 4
        outcomes = at_once(
            [partial(take, log, session, holder=f"writer {number}") for number, log in enumerate(stores)]
        )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Lease"] + ["LeaseHeld"] * 7
    assert kinds(list(store.read(session))) == ["session_opened", "lease_taken"]


# Expired --------------------------------------------------------------------------------------------------------------


def test_an_expired_lease_does_not_append(store: Store, session: Session) -> None:
    lease = take(store, session)
    expire_lease(store, session)
    with unchanged(store), pytest.raises(LeaseLost):
        store.append(session, [say()], lease=lease.epoch)


def test_an_expired_lease_keeps_nobody_out(store: Store, session: Session) -> None:
    take(store, session)
    expire_lease(store, session)
    store.append(session, [say("free again")])


def test_an_expired_lease_is_taken_over_and_the_log_says_so(store: Store, session: Session) -> None:
    first = take(store, session)
    expire_lease(store, session)
    second = take(store, session, holder="bob")
    assert second.epoch > first.epoch
    lost, taken = [event.body for event in list(store.read(session))[-2:]]
    assert (lost.kind, lost.holder, lost.epoch) == ("lease_lost", "ada", first.epoch)  # type: ignore[union-attr]
    assert taken == LeaseTaken(holder="bob", epoch=second.epoch)


def test_a_taken_over_lease_cannot_append(store: Store, session: Session) -> None:
    lease = take(store, session)
    expire_lease(store, session)
    take(store, session, holder="bob")
    with unchanged(store), pytest.raises(LeaseLost):
        store.append(session, [say("from a zombie")], lease=lease.epoch)


@pytest.mark.parametrize(
    "use",
    [
        lambda store, session, epoch: renew(store, session, epoch=epoch, ttl_us=HOUR_US),
        lambda store, session, epoch: release(store, session, epoch=epoch, actor=ADA),
    ],
    ids=["renewed", "released"],
)
@pytest.mark.parametrize("lost", ["expired", "taken over", "released"])
def test_a_lost_lease_is_not(
    store: Store, session: Session, use: Callable[[Store, Session, int], object], lost: str
) -> None:
    lease = take(store, session)
    if lost == "released":
        release(store, session, epoch=lease.epoch, actor=ADA)
    else:
        expire_lease(store, session)
    if lost == "taken over":
        take(store, session, holder="bob")
    with unchanged(store), pytest.raises(LeaseLost):
        use(store, session, lease.epoch)


def test_a_former_holder_learns_that_its_append_had_succeeded(store: Store, session: Session) -> None:
    lease = take(store, session)
    store.append(session, [say("a", source="a")], lease=lease.epoch)
    expire_lease(store, session)
    take(store, session, holder="bob")
    assert store.append(session, [say("a", source="a")], lease=lease.epoch).deduplicated == [3]


# Renewed, released, taken again ---------------------------------------------------------------------------------------


def test_a_renewed_lease_lasts_longer_under_its_epoch(store: Store, session: Session) -> None:
    lease = take(store, session, ttl_us=HOUR_US)
    longer = renew(store, session, epoch=lease.epoch, ttl_us=2 * HOUR_US)
    assert (longer.holder, longer.epoch) == ("ada", lease.epoch)
    assert longer.until > lease.until
    assert store.head(session).lease_until == longer.until
    store.append(session, [say("still mine")], lease=lease.epoch)


def test_a_renewal_is_no_event(store: Store, session: Session) -> None:
    lease = take(store, session)
    renew(store, session, epoch=lease.epoch, ttl_us=HOUR_US)
    assert store.head(session).head == 2


def test_a_released_lease_lets_everybody_append(store: Store, session: Session) -> None:
    lease = take(store, session)
    release(store, session, epoch=lease.epoch, actor=ADA)
    assert kinds(list(store.read(session))) == ["session_opened", "lease_taken", "lease_released"]
    store.append(session, [say("free")])


def test_a_released_lease_cannot_append(store: Store, session: Session) -> None:
    lease = take(store, session)
    release(store, session, epoch=lease.epoch, actor=ADA)
    with unchanged(store), pytest.raises(LeaseLost):
        store.append(session, [say()], lease=lease.epoch)


def test_a_holder_that_asks_again_gets_a_new_epoch_and_loses_the_old(store: Store, session: Session) -> None:
    first, second = take(store, session), take(store, session)
    assert second.epoch > first.epoch
    with pytest.raises(LeaseLost):
        store.append(session, [say()], lease=first.epoch)
    store.append(session, [say("mine")], lease=second.epoch)


def test_epochs_only_grow(store: Store, session: Session) -> None:
    epochs = [store.head(session).epoch]
    for holder in ("ada", "ada", "bob", "carol"):
        lease = take(store, session, holder=holder)
        epochs.append(lease.epoch)
        if holder == "bob":
            release(store, session, epoch=lease.epoch, actor=ADA)
        else:
            expire_lease(store, session)
    assert epochs == sorted(set(epochs))


# Refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ttl_us", [0, -1, LONGEST_US + 1])
def test_a_lease_lasts_a_sensible_time(store: Store, session: Session, ttl_us: int) -> None:
    with unchanged(store), pytest.raises(InvalidInput):
        take(store, session, ttl_us=ttl_us)
    lease = take(store, session)
    with unchanged(store), pytest.raises(InvalidInput):
        renew(store, session, epoch=lease.epoch, ttl_us=ttl_us)


def test_a_lease_needs_a_holder(store: Store, session: Session) -> None:
    with unchanged(store), pytest.raises(InvalidInput):
        take(store, session, holder="")


def test_an_archived_session_gives_no_lease(store: Store, session: Session) -> None:
    store.append(session, [Draft(body=SessionClosed()), Draft(body=SessionArchived())])
    with unchanged(store), pytest.raises(WrongState):
        take(store, session)
