"""Hold a lease, and write under it long after it is lost: URL SESSION.

`hold ttl_us` takes the lease and appends; `write` appends under it again in every way there is, and says what came of
each; `write for ever` appends and renews until somebody makes an end.
"""

import os
import sys
from collections.abc import Callable

from clew.model.errors import ClewError, LeaseLost
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log import leases
from support.drafts import message, name, without_source

TTL_US = 1_000_000


class Zombie:
    def __init__(self, store: Store, session: Session) -> None:
        self._store = store
        self._session = session
        self._epoch = 0
        self._number = 0

    def hold(self, ttl_us: int) -> None:
        lease = leases.acquire(self._store, self._session, holder="zombie", ttl_us=ttl_us, actor="agent:zombie")
        self._epoch, self._number = lease.epoch, 0
        self._append(1, sourced=True)
        self._append(1, sourced=False)
        say("holding", lease.epoch)

    def write(self) -> None:
        ways: list[Callable[[], object]] = [
            lambda: self._append(1, sourced=False),
            lambda: self._append(1, sourced=True),
            lambda: self._append(3, sourced=False),
            lambda: leases.renew(self._store, self._session, epoch=self._epoch, ttl_us=1_000_000),
            lambda: leases.release(self._store, self._session, epoch=self._epoch, actor="agent:zombie"),
        ]
        say("wrote", *map(code_of, ways))

    def write_for_ever(self) -> None:
        while True:
            try:
                self._append(1, sourced=True)
                leases.renew(self._store, self._session, epoch=self._epoch, ttl_us=TTL_US)
            except LeaseLost:  # Stopped for too long between two renewals.
                self.hold(TTL_US)

    def _append(self, count: int, *, sourced: bool) -> None:
        drafts = [message(name(f"epoch{self._epoch}", self._number + each), 100) for each in range(count)]
        self._store.append(
            self._session,
            drafts if sourced else [without_source(draft) for draft in drafts],
            actor="agent:zombie",
            lease=self._epoch,
        )
        self._number += count


def code_of(act: Callable[[], object]) -> str:
    try:
        act()
    except ClewError as error:
        return error.code
    return "accepted"


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(url: str, session: str) -> None:
    with open_store(url) as store:
        zombie = Zombie(store, store.session(session))
        for line in sys.stdin:
            match line.split():
                case ["hold", ttl_us]:
                    zombie.hold(int(ttl_us))
                case ["write"]:
                    zombie.write()
                case ["write", "for", "ever"]:
                    zombie.write_for_ever()


main(*sys.argv[1:])
