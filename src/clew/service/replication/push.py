"""The operation `push`: send a server the events of the shared projects that it does not have yet.

The log is the outbox. A cursor per session stores the last event that the server acknowledged; a cursor per project
stores the last position that was checked. A cursor moves only after the server's answer, so after a crash some events
are sent again, and the server recognises them. Cursors are named after the server's store: another store at the same
address starts from zero, and so does a store that was restored from an older backup.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.errors import (
    Busy,
    ClewError,
    DiskFull,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from clew.model.events import Event
from clew.model.session import Session, State
from clew.service.capture.packed_files import files_to_export
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.replication import remotes
from clew.service.replication.outgoing import Outgoing
from clew.service.replication.remotes import Refused, Setting
from clew.service.replication.server import Server
from clew.service.replication.tree_push import TreePush
from clew.service.replication.trees import BASES, git_of, packed, tree_of
from clew.service.replication.values import Sent, SentStretch
from clew.store.cursors import move_cursor, read_cursor
from clew.store.native_files import remote_copies
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.remote_copies import Copy, CopyProgress, Stretch
from clew.store.objects.objects import digest_of
from clew.store.projects import current_name

# The size of one request; a server that answers "too large" lowers it.
ROOM_BYTES = 2 * 1024 * 1024
PAGE = 500
TRIES = 3
# Errors that stop a push, because they affect every session.
STOPPING = (Unavailable, Busy, DiskFull, TooManyRequests, Unauthenticated)
ERASED = "erased where it came from"


class Pushed(msgspec.Struct, kw_only=True):
    """The result of a push."""

    remote: str
    sessions: int = 0
    events: int = 0
    blobs: int = 0
    files: int = 0
    erased: int = 0
    left_out: int = 0
    """Files of snapshots that were not sent: they hold a secret, or are lost here."""
    masked: dict[str, int] = {}
    refused: dict[str, str] = {}


@operation(right=Right.EXPORT, filters_by_reach=True, audited=True)
def push(
    context: Context,
    sessions: Annotated[list[str], msgspec.Meta(description="Push these from now on, shared or not.")] | None = None,
    *,
    remote: Annotated[
        str, msgspec.Meta(description="Which remote. [default: all that anything is shared with]", extra={"flag": "to"})
    ] = "",
    again: Annotated[
        bool, msgspec.Meta(description="Send everything again; the server stores each event once.")
    ] = False,
) -> list[Pushed]:
    """Send what is new of the shared projects to the server, its secrets masked.

    With sessions, send these from now on, shared or not; a private one stays private there.
    """
    home = Path(context.home)
    chosen = [remotes.named(home, remote)] if remote or sessions else remotes.all_of(home) or [remotes.named(home)]
    ids = [context.store.session(id, context.reach(None)).id for id in sessions or ()]
    for id in ids:
        permit(context, Right.EXPORT, context.store.session(id))
    if ids:
        with remotes.changing(home, chosen[0].name) as setting:
            setting.sessions = sorted({*setting.sessions, *ids})
        chosen = [setting]
    results = []
    for setting in chosen:
        for project in setting.projects:
            permit(context, Right.EXPORT, current_name(context.store, project))
        if not setting.projects and not setting.sessions:
            continue
        with closing(remotes.open_server(context, setting)) as server:
            one_push = Push(context, home, setting, server, context.on_progress)
            results.append(one_push.only(ids) if ids else one_push.run(again=again))
    return results


class Push:
    """One push to one server."""

    def __init__(
        self, context: Context, home: Path, setting: Setting, server: Server,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:  # fmt: skip
        """`on_progress` is called with the position reached in the log and the last position."""
        self._context = context
        self._store = context.store
        self._home = home
        self._setting = setting
        self._server = server
        self._on_progress = on_progress or (lambda done, total: None)
        self._outgoing = Outgoing(context)
        self._room = ROOM_BYTES
        self._refused = dict(setting.refused)
        self._other_servers: list[str] = []
        self._cursors = ""
        self.done = Pushed(remote=setting.name)

    def run(self, *, again: bool = False) -> Pushed:
        """Send the new events of everything that is shared; with `again`, send everything."""
        self._identify(again=again)
        try:
            for id in [*self._setting.refused, *self._setting.sessions]:
                self._try(id)
            for project in self._setting.projects:
                self._project(project)
        finally:
            self._keep_refused()
        move_cursor(self._store, f"pushed:{self._setting.server}", self._store.now())
        return self._report(self._refused)

    def only(self, ids: list[str]) -> Pushed:
        """Send these sessions, even of projects that are not shared."""
        self._identify()
        try:
            for id in ids:
                self._try(id)
        finally:
            self._keep_refused()
        return self._report({id: self._refused[id] for id in ids if id in self._refused})

    def _report(self, refused: dict[str, Refused]) -> Pushed:
        if self.done.events or self.done.erased:
            # Store the length of the server's log: a shorter log later means that an older backup was restored.
            status = self._server.call("sync_standing")
            move_cursor(self._store, f"seen:{status.store}", status.position)
        self.done.masked = dict(self._outgoing.masked)
        self.done.refused = {id: refusal.why for id, refusal in refused.items()}
        return self.done

    def _identify(self, *, again: bool = False) -> None:
        """Identify the server's store, and whether it still has what it acknowledged."""
        cursors = identify_server(self._context, self._home, self._setting, self._server, again=again)
        self._cursors = f"push:{cursors}"
        servers = [setting.server for setting in remotes.all_of(self._home)]
        self._other_servers = [server for server in servers if server != self._setting.server]

    def _keep_refused(self) -> None:
        if self._refused != self._setting.refused:
            with remotes.changing(self._home, self._setting.name) as setting:
                setting.refused = self._refused

    # Which sessions ---------------------------------------------------------------------------------------------------

    def _project(self, project: str) -> None:
        name = f"{self._cursors}:project:{project}"
        cursor, end = read_cursor(self._store, name), self._store.last_position()
        while page := list(self._store.tail(after=cursor, project=project, limit=PAGE)):
            newest: dict[str, int] = {}
            for event in page:
                newest[event.session] = event.seq
            for id, seq in newest.items():
                if self._sent(id) < seq:
                    self._try(id)
                self._on_progress(page[0].position, end)
            cursor = page[-1].position
            move_cursor(self._store, name, cursor)
            self._on_progress(cursor, end)

    def _sent(self, id: str) -> int:
        return read_cursor(self._store, f"{self._cursors}:{id}")

    def _acknowledged(self, id: str, seq: int) -> None:
        move_cursor(self._store, f"{self._cursors}:{id}", seq)

    def _try(self, id: str) -> None:
        """Send a session; a refusal is stored in the setting, and the next push retries."""
        try:
            session = self._store.session(id)
            if self._is_shared(session):
                self._session(session)
            self._refused.pop(id, None)
        except STOPPING:
            raise
        except ClewError as error:
            self._refused[id] = Refused(why=str(error), code=error.code)

    def _is_shared(self, session: Session) -> bool:
        if session.id in self._setting.sessions:
            return True
        # A project that became part of another after it was shared: only what was opened in it is shared.
        if not {session.project, session.opened_in} & {*self._setting.projects}:
            return False
        if self._store.head(session).state == State.ERASED:
            return True  # If it was never sent, `_session` sends nothing.
        return not session.private and not self._is_from_other_server(session)

    def _is_from_other_server(self, session: Session) -> bool:
        """Whether the session or an ancestor was pulled from another server; such a session is not forwarded."""
        line = [part.id for part in self._store.lineage(session)] if self._other_servers else []
        return any(read_cursor(self._store, f"pull:{server}:{id}") for id in line for server in self._other_servers)

    # One session ------------------------------------------------------------------------------------------------------

    def _session(self, session: Session) -> None:
        head = self._store.head(session)
        before = self._sent(session.id)
        if head.state == State.ERASED:
            if before < head.head and (before or self._is_on_server(session)):
                self._erase(session, head.head)
            return
        try:
            self._send(session, before or self._open(session))
        except NotFound:
            # The server no longer has the session: send all of it again.
            self._send(session, self._open(session))
        for original in files_to_export(files_of(self._store, session), exact=False):
            if not original.erased and not remote_copies.is_copy(original):
                self._file(session, original)
        self.done.sessions += self._sent(session.id) > before

    def _is_on_server(self, session: Session) -> bool:
        """Whether a server restored from a backup has an erased session again; the id of a private one is not sent."""
        if self._cursors.endswith(".0") or session.private:
            return False
        return session.id in self._server.call("sync_standing", sessions=[session.id]).sessions

    def _erase(self, session: Session, head: int) -> None:
        with suppress(NotFound):
            self._server.call("erase", session=session.id, reason=ERASED)
        self._acknowledged(session.id, head)
        self.done.erased += 1

    def _open(self, session: Session) -> int:
        """Open the session on the server; returns the last seq that need not be sent, because a fork shares it."""
        about = self._outgoing.about(session)
        opening = {
            "session": about.id, "project": about.project, "agent": about.agent, "title": about.title,
            "metadata": about.metadata, "private": about.private,
        }  # fmt: skip
        if about.parent:
            try:
                opened = self._server.call(
                    "sync_open", parent=about.parent, parent_source=about.parent_source, **opening
                )
                return session.upto if opened.parent else 0
            except NotFound:
                pass  # The parent is private or not on the server: send the shared history with the session.
        self._server.call("sync_open", **opening)
        return 0

    def _send(self, session: Session, after: int) -> None:
        batch = Batch()
        for event in self._store.read(session, after=after):
            if tree_of(event):
                if batch.upto:
                    self._flush(session, batch)
                self._snapshot(session, event)
                batch = Batch()
                continue
            sent_events, blobs = self._outgoing.event(event)
            more = Batch(events=sent_events, blobs=blobs, upto=event.seq)
            if batch.size and batch.size + more.size > self._room:
                self._flush(session, batch)
                batch = Batch()
            batch.add(more)
        if batch.upto:
            self._flush(session, batch)
        else:
            self._acknowledged(session.id, self._store.head(session).head)

    # Snapshots --------------------------------------------------------------------------------------------------------

    def _snapshot(self, session: Session, event: Event) -> None:
        """Send the files of a snapshot, then its event."""
        bases = [id for id in self._setting.with_files.get(session.project, ()) if id != session.id]

        def known(digests: list[bytes]) -> set[bytes]:
            names = [digest.hex() for digest in digests]
            answer = self._server.call("sync_known", session=session.id, digests=names, bases=bases)
            return {bytes.fromhex(name) for name in answer}

        tree_push = TreePush(
            self._store, self._outgoing.masker, known, lambda items: self._send_objects(session, packed(items))
        )  # fmt: skip
        root = tree_push.run(digest_of(tree_of(event)))
        git = tree_push.run_git(digest_of(name)) if (name := git_of(event)) else b""
        self._flush(session, Batch(events=self._outgoing.snapshot(event, root.hex(), git.hex()), upto=event.seq))
        self.done.blobs += tree_push.objects
        self.done.left_out += tree_push.left_out
        self._outgoing.masked += tree_push.masked
        if root and self._setting.with_files.get(session.project, [])[:1] != [session.id]:
            with remotes.changing(self._home, self._setting.name) as setting:
                setting.with_files[session.project] = [session.id, *bases][:BASES]
                self._setting.with_files = setting.with_files

    def _send_objects(self, session: Session, data: bytes) -> None:
        for number in range(TRIES):
            try:
                if len(data) <= self._room // 2:
                    self._server.call("sync_objects", session=session.id, data=data)
                else:
                    self._server.call("sync_objects", session=session.id, parts=self._parts(session, data))
                return
            except TooLarge as error:
                self._narrow(error)
            except NotFound as error:
                if "part" not in error.details or number == TRIES - 1:
                    raise
        raise TooLarge(f"a file of session {session.id} is larger than the server's limit for a request")

    def _flush(self, session: Session, batch: "Batch") -> None:
        """Send a batch, and move the cursor after the acknowledgement."""
        for number in range(TRIES):
            try:
                arrived = self._server.call("sync_append", session=session.id, **self._packed(session, batch))
                break
            except TooLarge as error:
                self._narrow(error)
            except NotFound as error:
                if "part" not in error.details or number == TRIES - 1:
                    raise
        else:
            raise TooLarge(
                f"event {batch.upto} of session {session.id} is larger than the server's limit for a request"
            )
        self.done.events += arrived.stored
        self.done.blobs += len(batch.blobs)
        self._acknowledged(session.id, batch.upto)

    def _narrow(self, error: TooLarge) -> None:
        limit = int(error.details.get("limit", self._room))
        self._room = max(1, min(self._room, limit) // 4)

    def _packed(self, session: Session, batch: "Batch") -> "dict[str, object]":
        """The arguments for a batch; what is too large for one request is sent first, in parts."""
        large = {name: data for name, data in batch.blobs.items() if len(data) > self._room // 2}
        return {
            "events": [self._packed_event(session, event) for event in batch.events],
            "blobs": {name: data for name, data in batch.blobs.items() if name not in large} or None,
            "large": {name: self._parts(session, data) for name, data in large.items()} or None,
        }

    def _packed_event(self, session: Session, event: Sent) -> Sent:
        # The server sets the actor and the seq.
        event = msgspec.structs.replace(event, actor="", seq=0)
        if len(event.body) <= self._room:
            return event
        return msgspec.structs.replace(event, body="", parts=self._parts(session, event.body.encode()))

    def _parts(self, session: Session, data: bytes) -> list[str]:
        step = max(1, self._room // 2)
        return [
            self._server.call("sync_part", session=session.id, data=data[start : start + step]).part
            for start in range(0, len(data), step)
        ]

    # Native files -----------------------------------------------------------------------------------------------------

    def _file(self, session: Session, original: NativeFile) -> None:
        copy = self._outgoing.file(original)
        progress: CopyProgress = self._server.call("sync_original", session=session.id, file=copy)
        after, stretches = self._outgoing.stretches(original, progress)
        any_sent = False
        for portion in _portions(stretches, self._room):
            after = self._stretches(session, copy, portion, after)
            any_sent = True
        self.done.files += any_sent

    def _stretches(self, session: Session, copy: Copy, portion: list[Stretch], after: int) -> int:
        """Send stretches of a file; returns the number of settled bytes."""
        for number in range(TRIES):
            ready = [
                SentStretch(upto=stretch.upto, settled=stretch.settled, data=stretch.data)
                if len(stretch.data) <= self._room // 2
                else SentStretch(upto=stretch.upto, settled=stretch.settled, parts=self._parts(session, stretch.data))
                for stretch in portion
            ]
            try:
                progress = self._server.call(
                    "sync_original", session=session.id, file=copy, stretches=ready, after=after
                )  # fmt: skip
                return int(progress.settled)
            except TooLarge as error:
                self._narrow(error)
            except NotFound as error:
                if "part" not in error.details or number == TRIES - 1:
                    raise
        raise TooLarge(f"a part of {copy.path} is larger than the server's limit for a request")


class Batch:
    """Events for one request, with the blobs they name."""

    def __init__(self, events: list[Sent] | None = None, blobs: dict[str, bytes] | None = None, upto: int = 0) -> None:
        self.events = events or []
        self.blobs = blobs or {}
        self.upto = upto
        self.size = sum(len(event.body) + 200 for event in self.events) + sum(map(len, self.blobs.values()))

    def add(self, more: "Batch") -> None:
        self.events += more.events
        self.blobs |= more.blobs
        self.upto = more.upto
        self.size += more.size


def _portions(stretches: Iterator[Stretch], room: int) -> Iterator[list[Stretch]]:
    portion, size = list[Stretch](), 0
    for stretch in stretches:
        if portion and size + len(stretch.data) > room // 2:
            yield portion
            portion, size = [], 0
        portion.append(stretch)
        size += len(stretch.data)
    if portion:
        yield portion


def identify_server(context: Context, home: Path, setting: Setting, server: Server, *, again: bool = False) -> str:
    """The prefix of a server's cursor names: the id of its store, and how often sending restarted from zero."""
    status = server.call("sync_standing")
    if status.store != setting.server:
        with remotes.changing(home, setting.name) as changed:
            changed.server = setting.server = status.store
    store = context.store
    last_position, restarts = f"seen:{status.store}", f"anew:{status.store}"
    if again or status.position < read_cursor(store, last_position):
        # The server was restored from an older backup and lost what it acknowledged since.
        move_cursor(store, restarts, read_cursor(store, restarts) + 1)
        move_cursor(store, last_position, status.position)
    return f"{status.store}.{read_cursor(store, restarts)}"


def has_news(context: Context, setting: Setting) -> bool:
    """Whether a shared project or session has events that were not pushed."""
    store = context.store
    cursors = f"push:{setting.server}.{read_cursor(store, f'anew:{setting.server}')}"
    return pending_events(context, setting, most=1) > 0 or any(
        store.head(store.session(id)).head > read_cursor(store, f"{cursors}:{id}") for id in setting.sessions
    )


def pending_events(context: Context, setting: Setting, *, most: int = 1000) -> int:
    """How many events of the shared projects were not checked yet, counted up to `most`."""
    store = context.store
    cursors = f"push:{setting.server}.{read_cursor(store, f'anew:{setting.server}')}"
    pending = 0
    for project in setting.projects:
        after = read_cursor(store, f"{cursors}:project:{project}")
        pending += sum(1 for _ in store.tail(after=after, project=project, limit=most - pending))
    return pending
