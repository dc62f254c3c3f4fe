"""The `clew` command as these tests use it: another process, a store of its own. Nothing else here runs clew."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]
SPOKEN = {"message_added", "call_made", "call_returned", "compacted"}


class Captured(NamedTuple):
    """What `clew capture` says of one file, or of one session of a database."""

    session: str
    status: str
    records: int
    events: int
    opaque: int
    quarantined: int
    error: str | None


class Imported(NamedTuple):
    """The program that wrote an imported file, and its session."""

    runtime: str
    session: str


class Resumed(NamedTuple):
    """How a session is resumed in another runtime: what a person would run, and where."""

    session: str
    command: list[str]
    cwd: str
    env: dict[str, str]
    native: str
    files: list[str]
    fidelity: Json
    prepare: list[list[str]]


class Clew:
    """`clew` on one store."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def capture(self, home: Path) -> list[Captured]:
        """Capture every session below a home."""
        *reports, total = self.objects("capture", "--home", str(home))
        assert total["files"] == len(reports)
        return [Captured(*(report[field] for field in Captured._fields)) for report in reports]

    def import_file(self, file: Path) -> Imported:
        """Import a file with one session."""
        report, *_ = self.objects("import", str(file))
        return Imported(report["runtime"], report["session"])

    def drift(self) -> list[tuple[str, str, str]]:
        """The kinds and fields that no reader knows, among all that was captured."""
        return [
            (one["what"], one["name"], one["example"])
            for one in self.objects("runtimes", "--drift")
            if one["what"] != "version"
        ]

    def session(self, session: str) -> Json:
        """A session with its lineage."""
        (shown,) = self.objects("show", session)
        return shown

    def of_native(self, native: str) -> str:
        """The session that a program calls by this id."""
        return next(str(one["id"]) for one in self.objects("sessions") if one["metadata"]["native"] == native)

    def conversation(self, session: str) -> list[Json]:
        """The events that are part of the conversation now."""
        return conversation_of(self.objects("show", session, "--events"))

    def export(self, session: str, out: Path) -> dict[str, bytes]:
        """Write a session's native files to a folder, and read them, by name."""
        self.run("export", session, "--as", "native", "--out", f"{out}/")
        return {path.name: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}

    def resume_in(
        self, session: str, runtime: str, *, cwd: Path, env: dict[str, str], at: int | None = None
    ) -> Resumed:
        """Write a session as a native one of this runtime, in the home that the environment names."""
        more = () if at is None else ("--at", str(at))
        (told,) = self.objects("resume", session, "--in", runtime, "--cwd", str(cwd), "--print", *more, env=env)
        return Resumed(
            session=told["session"],
            command=told["command"],
            cwd=told["cwd"],
            env=told["env"],
            native=told["native_id"],
            files=told["files"],
            fidelity=told["fidelity"],
            prepare=told["prepare"],
        )

    def objects(self, *arguments: str, env: dict[str, str] | None = None) -> list[Json]:
        return [json.loads(line) for line in self.run(*arguments, "--json", env=env).splitlines()]

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        environment = env or {"PATH": os.environ["PATH"], "HOME": str(self.store.parent), "LANG": "C.UTF-8"}
        done = subprocess.run(
            [str(Path(sys.executable).with_name("clew")), *arguments],
            env={**environment, "CLEW_HOME": str(self.store), "CLEW_PRINCIPAL": "person:ada"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"clew {' '.join(arguments)} ended with {done.returncode}\n{done.stderr.decode()}"
        return done.stdout.decode()


def conversation_of(events: Iterable[Json]) -> list[Json]:
    """The fold that docs/concepts.md tells, told a second time, so that the tests do not believe the code they test."""
    kept: list[Json] = []
    before: list[int] = []
    places: dict[str, int] = {}
    last = -1
    for event in events:
        if event["kind"] == "rewound":
            last = places.get(_name(event.get("to")), last) if event.get("to") else -1
            continue
        name = _name(event.get("source"))
        if name in places:
            kept[places[name]] = event
            continue
        kept.append(event)
        before.append(last)
        last = len(kept) - 1
        if name:
            places[name] = last
    path = []
    while last >= 0:
        path.append(kept[last])
        last = before[last]
    return [event for event in reversed(path) if event["kind"] in SPOKEN and not event.get("side")]


def _name(source: str | None) -> str:
    """A source without its revision."""
    return (source or "").partition("~")[0]
