"""Checks of an adapter's readers: a sample read whole, in pieces, and from each offset where it can be cut."""

import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import msgspec
from msgspec import Raw

from clew.model import codec
from clew.model.errors import InvalidInput
from clew.model.events import KINDS, Draft, Opaque
from clew.model.object_names import objects_of
from clew.runtimes.conformance.claims import claim, escaped, guarded, same, shown, shown_drafts
from clew.runtimes.conformance.declaration import check_state, identify
from clew.runtimes.contract import Format, Identity, Reading, Record, Runtime
from clew.runtimes.records import DAMAGE, SHAPE_ERRORS, Translated, read_lines, read_records

LARGEST_INTEGER = 2**63 - 1
# What a document's `split` may raise; the engine then stores the document as one damaged piece.
NO_DOCUMENT = (*SHAPE_ERRORS, *DAMAGE)


def check_reading(runtime: Runtime, format: Format, path: str, data: bytes) -> list[Draft]:
    """Every record of a sample is counted, and reading it in pieces gives the same drafts."""
    drafts: list[Draft] = []
    if format.split is None and format.rows is None:
        drafts = check_bytes(runtime, format, path, data, cuts=cuts(data))
        expected = sum(bool(line.strip()) for line in data.split(b"\n"))
        translated = translate(runtime, format, path, data)
        claim(translated.quarantined == 0, f"{path}: {translated.quarantined} records of the sample are read as damage")
        claim(
            translated.records == expected and not translated.torn,
            f"{path}: {expected} records were written, {translated.records} are accounted for",
        )
    for records in sessions_of(format, path, data):
        claim(records, f"{path}: a session without a record")
        keys = [key for key, _ in records]
        claim(len({*keys}) == len(keys), f"{path}: two records have one key")
        drafts += check_records(runtime, format, path, records)
    bodies: dict[str, Draft] = {}
    for draft in drafts:
        same = bodies.setdefault(draft.source or "", draft)
        claim(
            codec.encode(same.body) == codec.encode(draft.body),
            f"{path}: two drafts that differ have the source {draft.source!r}",
        )
    return drafts


def check_bytes(runtime: Runtime, format: Format, path: str, data: bytes, *, cuts: Iterable[int] = ()) -> list[Draft]:
    """Read any bytes as a file of lines or a document: no error escapes, and the pieces give the same drafts."""
    if format.split is not None:
        try:
            records = list(format.split(data))
        except NO_DOCUMENT:
            return []
        except Exception as error:  # noqa: BLE001  # The engine expects no exception here.
            escaped(f"{path}: split({shown(data)})", error)
        return check_records(runtime, format, path, records)
    whole = translate(runtime, format, path, data)
    claim(0 <= whole.end <= len(data), f"{path}: reading ended at {whole.end} of {len(data)} bytes")
    _check_pieces(runtime, format, path, data, [cut for cut in sorted(cuts) if _is_fair(data, cut)], whole)
    return whole.drafts


def check_records(runtime: Runtime, format: Format, path: str, records: list[Record]) -> list[Draft]:
    """Read the records of a document or a database: no error escapes, each record counts, twice is the same."""
    native = identify(format, path, b"").native or "native"
    first, again = (
        read_records(_watched(format, set()), Reading(runtime.name, native, format.state()), records) for _ in range(2)
    )
    claim(first.records == len(records), f"{path}: {len(records)} records gave {first.records}")
    claim(same(first.drafts, again.drafts), f"{path}: reading the records twice gives other drafts")
    return first.drafts


def translate(runtime: Runtime, format: Format, path: str, data: bytes) -> Translated:
    """Read a whole file of lines and check every draft."""
    native = identify(format, path, data).native or "native"
    return read_lines(_watched(format, set()), Reading(runtime.name, native, format.state()), data)


def _check_pieces(runtime: Runtime, format: Format, path: str, data: bytes, cuts: list[int], whole: Translated) -> None:
    native = identify(format, path, data).native or "native"
    state = msgspec.json.encode(format.state())
    drafts: list[Draft] = []
    records = end = 0
    watched = _watched(format, set())
    for cut in [*cuts, len(data)]:
        reading = Reading(runtime.name, native, msgspec.json.decode(state, type=format.state))
        translated = read_lines(watched, reading, data[end:cut], end)
        drafts += translated.drafts
        records, end = records + translated.records, translated.end
        state = msgspec.json.encode(reading.state)
    at = next((i for i, pair in enumerate(zip(drafts, whole.drafts, strict=False)) if not same(*pair)), len(drafts))
    claim(
        same(drafts, whole.drafts) and records == whole.records,
        f"{path}: reading it in {len(cuts) + 1} pieces gives other drafts than reading it whole: {len(drafts)} and "
        f"{len(whole.drafts)}, different from draft {at} on. Keep what a reader remembers in reading.state only. "
        f"{shown_drafts(drafts, at)} is not {shown_drafts(whole.drafts, at)}",
    )


def _watched(format: Format, blobs: set[str]) -> Format:
    """The format with a check of every draft it gives; `blobs` are the known blobs."""

    # Where the program may write a record again, a repeated source is a newer revision.
    revised = format.mutable or format.split is not None or format.rows is not None

    def read(record: bytes, key: str, reading: Reading[Any]) -> list[Draft]:
        try:
            drafts = format.read(record, key, reading)
        except (*SHAPE_ERRORS, *DAMAGE):
            raise
        except Exception as error:  # noqa: BLE001  # The engine expects no exception here.
            escaped(f"format {format.name!r}: read({shown(record)})", error)
        where = f"format {format.name!r}: the record {shown(record)}"
        claim(drafts, f"{where} gives {drafts!r}: each gives at least one draft")
        blobs.update(reading.blobs)
        sources = [draft.source for draft in drafts]
        claim(revised or len({*sources}) == len(sources), f"{where} gives two drafts one source: {sources}")
        for draft in drafts:
            _check_draft(draft, where, blobs)
        check_state(reading.state, format, where)
        return drafts

    return msgspec.structs.replace(format, read=read)


def _check_draft(draft: Draft, where: str, blobs: set[str]) -> None:
    claim(isinstance(draft, Draft), f"{where} gives a {type(draft).__name__}, not a Draft")
    claim(draft.source, f"{where} gives a {draft.body.kind} without a source")
    at = draft.said_at
    claim(
        at is None or abs(at) <= LARGEST_INTEGER,
        f"{where}: said_at {at!r} is not a time in microseconds that fits 64 bits",
    )
    body = draft.body
    if isinstance(body, Opaque):
        claim("." in body.kind, f"{where}: the kind {body.kind!r} of an Opaque needs a dot; use `opaque`")
    else:
        claim(body.kind in KINDS and not body.reserved, f"{where}: {body.kind} is written by clew alone")
    try:
        text = codec.encode(body).decode()
        back = codec.decode(body.kind, body.version, text)
    except (InvalidInput, msgspec.DecodeError) as error:
        raise AssertionError(f"{where} gives a {body.kind} that cannot be kept: {error}") from error
    except Exception as error:  # noqa: BLE001  # The engine expects no exception here.
        escaped(f"{where}: encoding its {body.kind}", error)
    claim(codec.encode(back).decode() == text, f"{where} gives a {body.kind} that comes back as another")
    missing = [blob for blob in objects_of(body) if blob not in blobs]
    claim(not missing, f"{where} names blobs that reading.blob never got: {missing}")


def sessions_of(format: Format, path: str, data: bytes) -> list[list[Record]]:
    """The records of each session in a database, or of the one in a document; none for a file of lines."""
    if format.rows is not None:
        return [records for _, records in database_of(format, data)]
    if format.split is None:
        return []
    with guarded(f"split({path!r})"):
        return [list(format.split(data))]


def database_of(format: Format, data: bytes) -> list[tuple[Identity, list[Record]]]:
    """The sessions of a database and their records; `assemble` is checked on each."""
    if format.rows is None:
        raise AssertionError(f"format {format.name!r} is not a database")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data)
        connection.execute("PRAGMA query_only = 1")
        sessions = list(format.rows.sessions(connection))
        claim(sessions, f"format {format.name!r} finds no session in its sample")
        claim(
            sessions == list(format.rows.sessions(connection)), f"format {format.name!r}: stamps change by themselves"
        )
        sessions_read = [(identity, list(format.rows.records(connection, identity.native))) for identity, _ in sessions]
    for identity, records in sessions_read:
        assembled = format.rows.assemble(identity.native, records)
        claim(isinstance(assembled, bytes), f"format {format.name!r}: assemble gives no bytes")
    return sessions_read


def cuts(data: bytes) -> list[int]:
    """Offsets to cut at: the same on every run, also inside lines and characters."""
    draw = random.Random(len(data))  # noqa: S311  # no secret
    return [draw.randrange(len(data) + 1) for _ in range(min(200, len(data)))]


def _is_fair(data: bytes, cut: int) -> bool:
    """Whether the text before the cut cannot pass for a complete record: a line is one JSON object."""
    start = data.rfind(b"\n", 0, cut) + 1
    if not data[start:cut].strip():
        return start == cut
    try:
        msgspec.json.decode(data[start:cut], type=Raw)
    except DAMAGE:
        return True
    return data[cut : cut + 1] in (b"\n", b"")
