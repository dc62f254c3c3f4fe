"""Append batches one after another, and say so after each: URL SESSION WRITER; then a line `first [end]`."""

import importlib
import os
import sys

from clew.store import open_store
from clew.store.database import migrate
from support.drafts import batch


def main(url: str, session: str, writer: str) -> None:
    # All that is slow comes before the word.
    importlib.import_module(
        "clew.store.database.sqlite" if url.startswith("sqlite") else "clew.store.database.postgres"
    )
    migrate.current()
    os.write(1, b"ready\n")
    number, *ends = map(int, input().split())
    with open_store(url) as store:
        place = store.session(session)
        while not ends or number < ends[0]:
            drafts = batch(writer, number)
            store.append(place, drafts, actor=f"agent:{writer}")
            # One write, so that a line is there whole or not at all.
            os.write(1, f"acknowledged {number}\n".encode())
            number += len(drafts)


main(*sys.argv[1:])
