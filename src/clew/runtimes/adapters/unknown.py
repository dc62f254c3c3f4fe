"""Files of JSON lines that no adapter recognises: every record is stored verbatim."""

from pathlib import PurePath

import msgspec

from clew.model.events import Draft
from clew.runtimes.contract import Format, Identity, Reading, Runtime, opaque


def _recognises(path: PurePath, head: bytes) -> bool:
    return path.suffix in (".jsonl", ".ndjson") and head.lstrip().startswith(b"{")


def _identify(path: PurePath, first: bytes) -> Identity:
    """The file's name with the folders it is in: programs give many files one name."""
    return Identity(native="-".join([*path.parts[-3:-1], path.stem]).replace("/", ""))


def _read(record: bytes, key: str, reading: Reading[msgspec.Struct]) -> list[Draft]:
    msgspec.json.decode(record)
    return [opaque("unknown.record", record, key)]


RUNTIME = Runtime(
    name="unknown",
    title="Unknown",
    home="",
    formats=(Format(name="lines", patterns=(), recognises=_recognises, identify=_identify, read=_read),),
)
