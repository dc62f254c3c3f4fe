"""Tell the story of objects some times on one store, for a trace: `traced_objects.py URL TIMES`."""

import os
import sys

from clew.store import open_store
from crash.object_story import tell


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


with open_store(sys.argv[1]) as store:
    for number in range(int(sys.argv[2])):
        tell(store, f"traced-{number}", say)
