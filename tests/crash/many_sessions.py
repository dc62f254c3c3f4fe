"""Append to several sessions in turn: URL WRITER SESSIONS; then for each line `count` so many batches, and `done`."""

import os
import sys

from clew.store import open_store
from clew.store.log.opening import Opening
from support.drafts import message, name, without_source


def main(url: str, writer: str, count: int) -> None:
    with open_store(url) as store:
        sessions = [store.open(Opening(project="p", title="t"), actor=writer) for _ in range(count)]
        os.write(1, b"ready\n")
        number = 0
        for line in sys.stdin:
            for _ in range(int(line)):
                drafts = [message(name(writer, number + each), 100) for each in range(1 + number % 3)]
                store.append(
                    sessions[number % count],
                    drafts if number % 2 else [without_source(draft) for draft in drafts],
                    actor=f"agent:{writer}",
                )
                number += len(drafts)
            os.write(1, f"done {number}\n".encode())


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
