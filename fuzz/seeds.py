"""What fuzzing begins with: the samples of every reader, whole and in short pieces, and how an input is cut up.

An input is a file of lines or a document as it is. The records of a database are lines of their own, `[key, record]`.
`seeds.py` lists the readers; `seeds.py NAME FOLDER` writes the seeds of one into a folder.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from clew.runtimes import MODULES, runtime
from clew.runtimes.conformance.declaration import format_of
from clew.runtimes.conformance.reading import database_of
from clew.runtimes.contract import Format, Runtime
from support.samples import samples

# A few records together: enough for a reader's memory to matter, short enough to be read a thousand times a second.
TOGETHER = 6


def targets() -> list[str]:
    """Every reader: a runtime's name, a dot, and the name of its format."""
    return [f"{name}.{format.name}" for name in MODULES for format in runtime(name).formats]


def reader(target: str) -> tuple[Runtime, Format]:
    name, _, format = target.partition(".")
    found = runtime(name)
    return found, next(one for one in found.formats if one.name == format)


def files(target: str) -> Iterator[tuple[str, bytes]]:
    """The samples of one reader: where each lies, and its bytes as an input."""
    one, format = reader(target)
    for path, data in samples(one.name).items():
        if format_of(one, path, data) != format:
            continue
        if format.rows is None:
            yield path, data
            continue
        for _, records in database_of(format, data):
            lines = (json.dumps([key, json.loads(record)]).encode() for key, record in records)
            yield path, b"\n".join(lines) + b"\n"


def seeds(target: str) -> Iterator[bytes]:
    """The inputs to begin with."""
    _, format = reader(target)
    for _, data in files(target):
        yield data
        if format.split is None:
            lines = data.splitlines(keepends=True)
            yield from (b"".join(lines[at : at + TOGETHER]) for at in range(0, len(lines), TOGETHER // 2))


def main() -> None:
    if not sys.argv[1:]:
        print(*targets())
        return
    for seed in seeds(sys.argv[1]):
        Path(sys.argv[2], hashlib.sha256(seed).hexdigest()[:40]).write_bytes(seed)


if __name__ == "__main__":
    main()
