"""Append drafts, each only where nothing was appended since the last look: URL SESSION WRITER COUNT."""

import os
import sys

from clew.model.errors import StaleHead
from clew.store import open_store
from support.drafts import message, name, without_source


def main(url: str, session: str, writer: str, count: int) -> None:
    with open_store(url) as store:
        place = store.session(session)
        os.write(1, b"ready\n")
        input()
        for number in range(count):
            draft = message(name(writer, number), 100)
            refused = 0
            while True:
                head = store.head(place).head
                try:
                    appended = store.append(
                        place, [draft if number % 2 else without_source(draft)], actor=f"agent:{writer}", expect=head
                    )
                except StaleHead:
                    refused += 1
                else:
                    break
            os.write(1, f"won {head} {appended.seqs[0]} {refused}\n".encode())


main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
