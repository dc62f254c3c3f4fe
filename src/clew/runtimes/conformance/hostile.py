"""Hostile input: records and files of any shape."""

import json
from collections.abc import Iterator
from typing import Any

from clew.runtimes.conformance.declaration import format_of
from clew.runtimes.conformance.junk import JUNK, ODD
from clew.runtimes.conformance.reading import check_bytes, check_records, cuts, sessions_of, translate
from clew.runtimes.contract import Runtime


def check_hostile(runtime: Runtime, samples: dict[str, bytes]) -> None:
    """A reader raises only the errors of the contract, for any bytes in a record."""
    seen: set[str] = set()
    for path, data in samples.items():
        format = format_of(runtime, path, data)
        if format.split is None and format.rows is None:
            lines = [*(odd for line in data.split(b"\n") for odd in _odd(line, seen)), *JUNK]
            for odd in lines:
                translate(runtime, format, path, odd + b"\n")
            translate(runtime, format, path, b"\n".join([*lines, b""]))
            continue
        for whole in (*JUNK, *_odd(data, seen, deep=2), *(data[:cut] for cut in cuts(data)[:20])):
            if format.split is not None:
                check_bytes(runtime, format, path, whole)
        for key, record in (record for session in sessions_of(format, path, data) for record in session):
            check_records(runtime, format, path, [(key, odd) for odd in (*_odd(record, seen), *JUNK)])


def _odd(record: bytes, seen: set[str], deep: int = 99) -> Iterator[bytes]:
    """A record with one value at a time replaced or removed; each location in each kind of record once."""
    try:
        value = json.loads(record)
    except ValueError:
        return
    kind = str(value.get("type")) + str(value.get("role")) if isinstance(value, dict) else ""
    for holder, name, location in list(_locations(value, kind)):
        if location in seen or location.count("/") > deep:
            continue
        seen.add(location)
        was = holder[name]
        for odd in ODD:
            holder[name] = odd
            yield json.dumps(value).encode()
        if isinstance(holder, dict):
            del holder[name]
            yield json.dumps(value).encode()
        holder[name] = was


def _locations(value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Every location in a value; all elements of a list are one location."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        location = (
            f"{path}/{name if isinstance(value, dict) else ''}:{inner.get('type') if isinstance(inner, dict) else ''}"
        )
        yield value, name, location
        yield from _locations(inner, location)
