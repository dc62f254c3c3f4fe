"""Fuzz one reader: `target.py NAME [options of libFuzzer] [corpus]`. `run.py` runs them all.

For any bytes: no exception escapes a reader, every record is accounted for, every draft can be kept, reading in
pieces gives what reading at once gives, and what was read has a conversation that some writer can put down.
"""

import random
import sys
from collections.abc import Callable

import atheris
import msgspec

with atheris.instrument_imports(include=["clew.runtimes", "clew.model"]):
    from mutate import Mutator
    from seeds import files, reader, seeds

    from clew.runtimes import MODULES, runtime
    from clew.runtimes.conformance.declaration import check_glance
    from clew.runtimes.conformance.reading import check_bytes, check_records
    from clew.runtimes.conformance.writing import check_talk
    from clew.runtimes.contract import Record


def test(target: str) -> Callable[[bytes], None]:
    """What is done with an input of one reader."""
    one, format = reader(target)
    path = next(path for path, _ in files(target))
    writable = [found for name in MODULES if (found := runtime(name)).writer is not None]

    def run(data: bytes) -> None:
        # Drawn from the input, so that a crash is repeated by its file alone.
        draw = random.Random(data)  # noqa: S311  # no secret
        check_glance(format, path, data)
        if format.rows is not None:
            drafts = check_records(one, format, path, [_record(line, i) for i, line in enumerate(data.split(b"\n"))])
        else:
            cuts = [draw.randrange(len(data) + 1) for _ in range(draw.choice((0, 1, 3, 10)))]
            drafts = check_bytes(one, format, path, data, cuts=cuts)
        check_talk(one, drafts, one if one.writer and draw.random() < 0.5 else draw.choice(writable))

    return run


def _record(line: bytes, number: int) -> Record:
    try:
        key, record = msgspec.json.decode(line, type=tuple[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return f"row{number}", line
    return key or f"row{number}", bytes(record)


def mutator(target: str) -> Callable[[bytes, int, int], bytes]:
    """How the inputs of one reader are changed: mostly within its own grammar, sometimes byte by byte."""
    _, format = reader(target)
    known = Mutator(seeds(target), lines=format.split is None)

    def change(data: bytes, longest: int, seed: int) -> bytes:
        draw = random.Random(seed)  # noqa: S311  # no secret
        if draw.random() < 0.2:
            return bytes(atheris.Mutate(data, longest))
        return known.change(bytes(data), draw)[:longest]

    return change


def main() -> None:
    target = sys.argv.pop(1)
    atheris.Setup(sys.argv, test(target), custom_mutator=mutator(target))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
