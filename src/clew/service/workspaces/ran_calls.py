"""The calls that ran in a folder between two of its snapshots: when each ran, what it says it writes, and its words."""

import os
from functools import cached_property
from typing import Any

import msgspec

from clew.model.access import Right
from clew.model.events import CallMade, CallReturned, Event, RuntimeAttached
from clew.model.session import Session
from clew.model.steps import end_step
from clew.model.working_set import only_looks, touches
from clew.runtimes.calls import inputs_of
from clew.runtimes.changes import PATHS
from clew.service.kernel.call import target_of
from clew.service.kernel.context import Context
from clew.store.log.feed import own_of_kind
from clew.store.log.rows import EVERYTHING
from clew.store.projects import keys_by_name
from clew.views.contract import storable
from clew.views.points import FolderPoint
from clew.views.sessions import SessionRow, session_row

# So many sessions that worked in a folder are looked at, the newest.
MOST_SESSIONS = 5_000
# Parts of an input that say what is replaced, where, or why.
_ASIDE = (*PATHS, "description", "explanation", "cwd", "workdir")


class RanCall:
    """A call that ran, and the session that made it."""

    def __init__(self, row: SessionRow, session: Session, event: Event, made: CallMade, *, is_hidden: bool) -> None:
        self.row, self.session, self.made, self.is_hidden = row, session, made, is_hidden
        self.seq, self.position = event.seq, event.position
        self.is_timed = event.said_at is not None
        self.began_at = event.at if event.said_at is None else event.said_at
        self.ended_at = EVERYTHING
        self.runtime = row.runtime
        self.touched = [*touches(made)]

    def ran(self, since: int, newer: FolderPoint) -> bool:
        """Whether it ran between a time and a point. Without a time of its own it ran when it was recorded."""
        began = self.began_at <= newer.at and (self.is_timed or self.position < newer.position)
        return began and self.ended_at >= since

    @property
    def changes_nothing(self) -> bool:
        """Whether it changes no file for sure."""
        return only_looks(self.made, self.touched)

    @property
    def is_edit(self) -> bool:
        """Whether its tool edits the files that it names, and no others."""
        return any(touch.how == "written" and touch.type == "file" for touch in touches(self.made))

    def writes(self, path: str, root: str, below: str) -> bool:
        """Whether it says that it writes this file: by its absolute path, below a root."""
        end = f"/{os.path.basename(root)}/{below}"
        for touch in self.touched:
            if touch.how != "written" or touch.type != "file":
                continue
            whole = os.path.normpath(os.path.join(self.row.folder or root, touch.what))
            # The program may know the folder by a link.
            if whole == path or whole.endswith(end):
                return True
        return False

    def mentions(self, name: str) -> bool:
        """Whether a word is anywhere in its input."""
        return any(name in text for text in self._words.texts)

    @cached_property
    def _words(self) -> "_Words":
        return _Words(inputs_of(self.made))

    def has_line(self, line: bytes) -> bool:
        """Whether its input has a line, as a whole or as the part of it that was replaced."""
        return self._words.has(line)

    def adds_line(self, line: bytes) -> bool:
        """Whether its input has a line that was not there before, as it says itself."""
        return self._words.adds(line)

    def quotes(self, line: bytes) -> bool:
        """Whether a line is somewhere in its input, such as in a shell command."""
        text = line.strip().decode("utf-8", "replace")
        return len(text) > 3 and any(text in said for said in self._words.texts)


class _Words:
    """What the input of a call writes: whole lines, and the fragments at the beginning and the end of texts."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.texts: list[str] = []
        self._old: list[str] = []
        self._gather(values)
        self._added: set[bytes] = set()
        self._lines: set[bytes] = set()
        self._whole: set[bytes] = set()
        self._begins: set[bytes] = set()
        self._ends: set[bytes] = set()
        for text in self.texts:
            lines = [line.rstrip("\r").encode("utf-8", "surrogatepass") for line in text.split("\n")]
            added = {line[1:] for line in lines if line.startswith(b"+")}
            self._added |= added
            self._lines.update(lines, added)
            if self._old:  # Without an old text it may have written lines that were there.
                self._added.update(lines)
            if len(lines) == 1:
                self._whole.add(lines[0])
            else:
                self._ends.add(lines[0])
                self._begins.add(lines[-1])

    def _gather(self, value: Any, name: str = "") -> None:
        if name.startswith("old") and isinstance(value, str):
            self._old.append(value)
            return
        if name in _ASIDE:
            return
        if isinstance(value, str):
            self.texts.append(value)
        elif isinstance(value, dict):
            for key, inner in value.items():
                self._gather(inner, str(key))
        elif isinstance(value, list):
            for inner in value:
                self._gather(inner, name)

    def adds(self, line: bytes) -> bool:
        line = line.rstrip(b"\r\n")
        return line in self._added and not any(line in old.encode("utf-8", "surrogatepass") for old in self._old)

    def has(self, line: bytes) -> bool:
        line = line.rstrip(b"\r\n")
        if line in self._lines:
            return True
        return (
            any(len(part.strip()) > 1 and part in line for part in self._whole)
            or any(part.strip() and line.endswith(part) for part in self._ends)
            or any(part.strip() and line.startswith(part) for part in self._begins)
        )


class RanCalls:
    """The calls of the sessions that worked in folders, each session read once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._of: dict[int, list[RanCall]] = {}
        self._workers_of: dict[tuple[str, str, str], list[SessionRow]] = {}

    def between(
        self, since: int, newer: FolderPoint, folder: str, project: str, *, of: frozenset[int] | None = None
    ) -> list[RanCall]:
        """The calls that can have changed files in a folder between a time and a point, oldest first.

        With `of` only those of these sessions.
        """
        found = []
        for row in self._workers(newer.machine, folder, project):
            if (
                (of is None or row.session in of)
                and row.began_at <= newer.at
                and since <= max(row.last_at, row.kept_at)
            ):
                found += [call for call in self._calls(row) if call.ran(since, newer)]
        return sorted((call for call in found if not call.changes_nothing), key=lambda call: (call.began_at, call.seq))

    def _workers(self, machine: str, folder: str, project: str) -> list[SessionRow]:
        """The sessions that worked there. Those of other projects count only for who sees everything."""
        key = (machine, folder, project)
        if key in self._workers_of:
            return self._workers_of[key]
        path = storable(folder.rstrip("/") or "/")
        only: dict[str, Any] = {}
        if self._context.reach(Right.READ):
            keys = keys_by_name(self._context.unrestricted).get(project, [])
            only["projects"] = msgspec.json.encode(keys).decode()
        with self._context.views.read() as tx:
            rows = tx.run(
                "points_workers", machine=storable(machine), folder=path, below=path.rstrip("/") + "/",
                beyond=path.rstrip("/") + "0", limit=MOST_SESSIONS, **only,
            )  # fmt: skip
        self._workers_of[key] = [session_row(row) for row in rows]
        return self._workers_of[key]

    def _calls(self, row: SessionRow) -> list[RanCall]:
        """The calls of a session itself; of one that the caller may not read, nothing of it is ever shown."""
        known = self._of.get(row.session)
        if known is not None:
            return known
        end_step()
        store = self._context.unrestricted
        session = store.sessions(keys=[row.session])[0].session
        is_hidden = not self._context.caller.rule(Right.READ, target_of(session)).allowed
        calls: list[RanCall] = []
        for event in own_of_kind(store, session, CallMade.kind):
            if isinstance(event.body, CallMade):
                calls.append(RanCall(row, session, event, event.body, is_hidden=is_hidden))
        self._end(calls, row, own_of_kind(store, session, CallReturned.kind))
        attached = [
            (event.seq, event.body.runtime)
            for event in own_of_kind(store, session, RuntimeAttached.kind)
            if isinstance(event.body, RuntimeAttached)
        ]
        for call in calls:
            call.runtime = next((name for seq, name in reversed(attached) if seq < call.seq), row.runtime)
        self._of[row.session] = calls
        return calls

    def _end(self, calls: list[RanCall], row: SessionRow, events: Any) -> None:
        """Say when each call ended: with its return, or else when the session went on without it."""
        open_calls: dict[str, list[RanCall]] = {}
        for call in calls:
            open_calls.setdefault(call.made.call, []).append(call)
        for event in events:
            body = event.body
            if not isinstance(body, CallReturned):
                continue
            for call in [call for call in open_calls.pop(body.call, []) if call.seq < event.seq][-1:]:
                call.ended_at = max(call.began_at, event.at if event.said_at is None else event.said_at)
                call.touched += body.touched
        for number, call in enumerate(calls):
            if call.ended_at == EVERYTHING and number + 1 < len(calls):
                call.ended_at = max(call.began_at, calls[number + 1].began_at)
            elif call.ended_at == EVERYTHING and row.last_at > call.began_at:
                call.ended_at = row.last_at
