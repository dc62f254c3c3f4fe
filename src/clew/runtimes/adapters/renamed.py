"""A program that writes the files of another: its sessions get its own name, and are read by the other's reader."""

from collections.abc import Callable
from typing import Any

import msgspec

from clew.model.events import Draft, Opaque, RuntimeAttached
from clew.runtimes.contract import Reading

Read = Callable[[bytes, str, Any], list[Draft]]


def renamed(read: Read, like: str) -> Read:
    """The reader of the program `like`, with the name of the runtime that it reads for."""

    def read_renamed(record: bytes, key: str, reading: Reading[Any]) -> list[Draft]:
        return [_renamed(draft, like, reading.runtime) for draft in read(record, key, reading)]

    return read_renamed


def _renamed(draft: Draft, like: str, name: str) -> Draft:
    body = draft.body
    if isinstance(body, RuntimeAttached) and body.runtime == like:
        return msgspec.structs.replace(draft, body=msgspec.structs.replace(body, runtime=name))
    if type(body) is Opaque and body.kind.startswith(f"{like}."):
        kind = f"{name}.{body.kind.removeprefix(f'{like}.')}"[:80]
        return msgspec.structs.replace(draft, body=Opaque(kind=kind, raw=body.raw))
    return draft
