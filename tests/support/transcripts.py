"""Transcripts read without a store: what an adapter makes of bytes, and events as a log would hold them."""

from pathlib import PurePath

import msgspec

from clew.model.events import Draft, Event
from clew.runtimes import runtime
from clew.runtimes.contract import Format, Reading
from clew.runtimes.records import Translated, read_lines, read_records


def formats(name: str) -> dict[str, Format]:
    return {one.name: one for one in runtime(name).formats}


def read(name: str, data: bytes, *, path: str = "session.jsonl", format: str = "") -> Translated:
    """Read a whole file of lines, or a whole document."""
    chosen = formats(name)[format] if format else runtime(name).formats[0]
    first = data.split(b"\n", 1)[0]
    reading = Reading(name, chosen.identify(PurePath(path), first).native, chosen.state())
    return read_records(chosen, reading, chosen.split(data)) if chosen.split else read_lines(chosen, reading, data)


def read_in_pieces(
    name: str, data: bytes, cuts: list[int], *, path: str = "session.jsonl", format: str = ""
) -> list[Draft]:
    """Read a file of lines as it grows, its reader's state stored and restored at every cut."""
    chosen = formats(name)[format] if format else runtime(name).formats[0]
    native = chosen.identify(PurePath(path), data.split(b"\n", 1)[0]).native
    state = msgspec.json.encode(chosen.state())
    drafts: list[Draft] = []
    end = 0
    for cut in [*sorted(cuts), len(data)]:
        reading = Reading(name, native, msgspec.json.decode(state, type=chosen.state))
        done = read_lines(chosen, reading, data[end:cut], end)
        drafts += done.drafts
        end = done.end
        state = msgspec.json.encode(reading.state)
    return drafts


def events(drafts: list[Draft]) -> list[Event]:
    """The drafts as events; the same source twice is one event."""
    seen: set[str] = set()
    found: list[Event] = []
    for draft in drafts:
        if draft.source in seen:
            continue
        if draft.source:
            seen.add(draft.source)
        seq = len(found) + 1
        found.append(Event("s", seq, seq, 1_000_000 + seq, draft.said_at, "person:test", draft.source, b"", draft.body))
    return found
