"""Append batches to the log at PATH, from THREADS at a time, COUNT drafts each: PATH SYNCHRONOUS THREADS COUNT REOPEN.

The log is closed and opened again after REOPEN drafts. A batch begins at every multiple of 7, so COUNT and
REOPEN are such. What fails is said, and tried again a few times.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from clew.model.errors import ClewError
from clew.model.session import Session
from clew.store import Store, open_store
from clew.store.log.opening import Opening
from support.drafts import batch

TRIES = 5
T = TypeVar("T")


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def attempt(what: str, act: Callable[[], T]) -> T | None:
    for _ in range(TRIES):
        try:
            return act()
        except ClewError as error:
            say("failed", error.code, what)
    return None


def append(store: Store, session: Session, numbers: range, writer: str) -> None:
    number = numbers.start
    while number in numbers:
        drafts = batch(writer, number)
        if attempt(f"{writer} {number}", partial(store.append, session, drafts, actor=f"agent:{writer}")):
            say("acknowledged", writer, number)
        number += len(drafts)


def main(path: str, synchronous: str, threads: int, count: int, reopen: int) -> None:
    opening = partial(open_store, f"sqlite:///{path}", synchronous=synchronous)
    session = None
    for first in range(0, count, reopen):
        store = attempt("open", opening)
        if store is None:
            continue
        with store:
            if session is None:
                opening_session = partial(store.open, Opening(project="p", title="t"), actor="person:test")
                session = attempt("session", opening_session)
                if session is None:
                    continue
                say("session", session.id)
            numbers = range(first, min(count, first + reopen))
            if threads == 1:  # No second thread, because strace counts the calls of each on its own.
                append(store, session, numbers, "w0")
                continue
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(partial(append, store, session, numbers), [f"w{each}" for each in range(threads)]))


main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
