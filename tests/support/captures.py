"""Capturing in tests: what became of each file, what the log says, and what comes back."""

import json
from pathlib import Path
from typing import Any

from clew.client import Plane
from clew.model import codec
from clew.model.conversation import conversation
from clew.model.events import Event, MessageAdded
from clew.runtimes.rounds import text_of
from clew.service.capture.report import Captured


def capture(plane: Plane, home: Path, runtime: str = "") -> list[Captured]:
    """Capture what lies below a home; of every report the records are accounted for."""
    return _sound(list(plane.capture(runtime=runtime, home=str(home))))


def capture_paths(plane: Plane, *paths: Path, runtime: str = "") -> list[Captured]:
    """Capture these files and folders."""
    found = plane.capture([str(path) for path in paths], runtime=runtime)
    return _sound(list(found))


def _sound(reports: list[Captured]) -> list[Captured]:
    for one in reports:
        assert one.records == one.events + one.opaque + one.quarantined, one
        json.dumps(codec.to_json(one))
    return reports


def only(plane: Plane, home: Path, runtime: str = "") -> Captured:
    [report] = capture(plane, home, runtime)
    assert report.error is None, report
    return report


def events(plane: Plane, session: str) -> list[Event]:
    found: list[Event] = plane.client.call("events", session=session)
    return found


def log(plane: Plane, session: str) -> list[dict[str, Any]]:
    """What a log says, without what differs between two logs of the same thing."""
    fields = [codec.event_fields(event) for event in events(plane, session)]
    return [json.loads(codec.to_json({**one, "session": "", "at": 0})) for one in fields]


def native(plane: Plane, session: str) -> bytes:
    """The session's only native file."""
    [file] = plane.client.call("export", session=session, form="native", secrets=True)
    return bytes(file.data)


def said(plane: Plane, session: str) -> list[str]:
    """What the messages of the conversation say now."""
    spoken = conversation(events(plane, session))
    return [text_of(message.body.content) for message in spoken if isinstance(message.body, MessageAdded)]


def overview(plane: Plane) -> dict[str, list[list[dict[str, Any]]]]:
    """Every log by the native id its metadata tells, so that two stores can be compared."""
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for one in plane.sessions(limit=500):
        name = json.loads(one.metadata or "{}").get("native", "")
        own = [event for event in log(plane, one.id) if event["kind"] not in ("session_forked",)]
        found.setdefault(name, []).append(own)
    return {name: sorted(logs, key=json.dumps) for name, logs in found.items()}
