"""The operation `pull`: copy a session from a server, with its history, blobs and native files, under the same id.

A fork is opened as a fork if its parent can be read, too; otherwise the shared history is copied into it. A second pull
copies what is new.
"""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import zstandard

from clew.model.access import Right
from clew.model.errors import Conflict, Damaged, Denied, NotFound, TooLarge, WrongState
from clew.model.events import Body, Opaque
from clew.model.ids import LENGTH, check_prefix
from clew.model.object_names import objects_of, with_objects
from clew.model.session import Session, State
from clew.service.capture.find_project import ProjectFinder
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.replication import remotes
from clew.service.replication.push import identify_server
from clew.service.replication.receiving import received
from clew.service.replication.remotes import Setting
from clew.service.replication.server import Server
from clew.service.replication.tree_pull import TreePull
from clew.service.replication.trees import BASES, git_of, tree_of, with_tree
from clew.service.replication.values import PAGE_BYTES, NativeFile, Parcel, Piece, Sent
from clew.store.cursors import move_cursor, read_cursor
from clew.store.log import receiving
from clew.store.log.opening import Forking, Opening
from clew.store.log.receiving import ReceivedEvent
from clew.store.native_files import remote_copies
from clew.store.native_files.lookup import files_of, find_file
from clew.store.native_files.remote_copies import Copy, Stretch
from clew.store.objects import claims, objects
from clew.store.objects.objects import digest_of
from clew.store.objects.pack import address

# A seq beyond every event: the answer has the session and no events.
ONLY_ABOUT = 2**62
MARKED = b"[REDACTED:"
TOO_LARGE = b"[a file that stays on the server: it is too large to be pulled]\n"
HELD_BACK = b"[a file that stays on the server: it is no text, and holds a secret]\n"


class Pulled(msgspec.Struct, kw_only=True):
    """The result of a pull."""

    session: str
    title: str = ""
    remote: str = ""
    head: int = 0
    events: int = 0
    blobs: int = 0
    files: int = 0
    masked: int = 0
    """Native files in which the server masked secrets: they differ from the captured bytes."""
    left_out: int = 0
    """Files of snapshots that the server held back, because they hold a secret."""
    is_new: bool = False
    flat: bool = False
    """Whether the history of its ancestors was copied into the session, because the ancestors cannot be read."""


@operation(right=Right.APPEND, filters_by_reach=True, audited=True)
def pull(
    context: Context,
    session: Annotated[str, msgspec.Meta(description="Its id, or a beginning of it that no other has there.")],
    *,
    remote: Annotated[
        str, msgspec.Meta(description="Which remote. [default: the only one]", extra={"flag": "from"})
    ] = "",
) -> Pulled:
    """Bring a session from the server, with its history, its blobs and its native files."""
    home = Path(context.home)
    setting = remotes.named(home, remote)
    with closing(remotes.open_server(context, setting)) as server:
        return pull_from(context, home, setting, server, session)


def pull_from(context: Context, home: Path, setting: Setting, server: Server, id: str) -> Pulled:
    """Copy a session, or what is new of it, from an open server."""
    cursors = identify_server(context, home, setting, server)
    return _Pull(context, setting, server, cursors).run(id)


class _Pull:
    def __init__(self, context: Context, setting: Setting, server: Server, cursors: str) -> None:
        self._context = context
        self._store = context.store
        self._server = server
        self._setting = setting
        self._cursors = cursors
        self._own = receiving.store_id(context.unrestricted)
        self._blobs = 0
        self._masked = 0
        self._left_out = 0
        self._has_trees = False

    def run(self, id: str) -> Pulled:
        self._blobs = self._masked = self._left_out = 0
        parcel = self._about(id)
        if parcel.state == State.ERASED:
            raise WrongState(f"session {parcel.id} was erased on {self._setting.name}; nothing of it is left there")
        finder = ProjectFinder(self._context.unrestricted, self._context.machine)
        parcel = msgspec.structs.replace(parcel, project=finder.of_copy(parcel.project, parcel.metadata))
        permit(self._context, Right.APPEND, parcel.project)
        session = self._session_here(parcel.id)
        if session is not None and not self._was_shared_with_server(session):
            raise Conflict(
                f"session {session.id} exists already and was never shared with {self._setting.name}; "
                "it was not changed"
            )
        done = Pulled(session=parcel.id, title=parcel.title, remote=self._setting.name, is_new=session is None)
        is_new = session is None
        if session is None:
            session = self._open_local(parcel)
        done.flat = bool(parcel.parent) and session.parent is None
        done.events = self._events(session, parcel, flat=done.flat, is_new=is_new)
        done.files = sum(self._file(session, file) for file in self._server.call("originals", session=parcel.id))
        done.blobs, done.masked, done.left_out = self._blobs, self._masked, self._left_out
        done.head = self._store.head(session).head
        return done

    def _about(self, id: str) -> Parcel:
        try:
            parcel: Parcel = self._server.call("sync_send", session=id, after=ONLY_ABOUT)
        except NotFound as error:
            if error.code != NotFound.code:
                raise
            name = self._setting.name
            raise NotFound(
                f"{name} has no session {id!r} that you may read; was it pushed?", session=id, missing="remote session"
            ) from None
        if len(parcel.id) != LENGTH or not parcel.id.startswith(check_prefix(id)):
            raise Damaged(f"{self._setting.name} answered with another session than {id!r}")
        return parcel

    def _was_shared_with_server(self, session: Session) -> bool:
        """Whether this session was ever pulled from the server or pushed to it; otherwise an equal id is a conflict."""
        server, _, times = self._cursors.rpartition(".")
        names = [f"pull:{server}:{session.id}"]
        names += [f"push:{server}.{time}:{session.id}" for time in range(int(times) + 1)]
        return any(read_cursor(self._store, name) for name in names)

    def _session_here(self, id: str) -> Session | None:
        try:
            session = self._store.session(id)
        except NotFound:
            return None
        return session if len(id) == LENGTH else None

    def _open_local(self, parcel: Parcel) -> Session:
        owner = parcel.owner or self._context.principal
        if parcel.parent:
            try:
                _Pull(self._context, self._setting, self._server, self._cursors).run(parcel.parent)
                parent = self._store.session(parcel.parent)
                source = parcel.parent_source
                fork_seq = receiving.find(self._store, parent, source, self._own) if source else 1
                if fork_seq is not None:
                    child = Forking(
                        parent=parent, id=parcel.id, at=fork_seq, title=parcel.title, metadata=parcel.metadata,
                        private=parcel.private,
                    )  # fmt: skip
                    return self._store.open(child, actor=owner)
            except (NotFound, Denied, Conflict):
                pass  # The parent cannot be read there or written here: copy the shared history into this session.
        opening = Opening(
            id=parcel.id, project=parcel.project, agent=parcel.agent, title=parcel.title, metadata=parcel.metadata,
            private=parcel.private,
        )  # fmt: skip
        return self._store.open(opening, actor=owner)

    def _events(self, session: Session, parcel: Parcel, *, flat: bool, is_new: bool) -> int:
        name = f"pull:{self._setting.server}:{session.id}"
        after = 0 if is_new else read_cursor(self._store, name)
        # A cursor beyond the server's head means that the server was restored from an older backup.
        after = after if after <= parcel.head else 0
        stored = 0
        head = self._store.head(session).head
        # While nobody else appends, the pushed cursor follows, so pulled events are not pushed back.
        pushed = f"push:{self._cursors}:{session.id}"
        is_level = is_new or read_cursor(self._store, pushed) == head
        while True:
            page: Parcel = self._server.call("sync_send", session=session.id, after=after, flat=flat)
            received = [self._received_event(session, event) for event in page.events]
            arrived = receiving.receive(self._store, session, received, own=self._own)
            if self._has_trees:
                claims.drop(self._store, self._context.principal, session.id)
                self._has_trees = False
            is_level = is_level and arrived.head == head + arrived.stored
            head, stored = arrived.head, stored + arrived.stored
            if is_level:
                move_cursor(self._store, pushed, head)
            move_cursor(self._store, name, page.next or page.head)
            if page.next is None:
                break
            after = self._beyond(after, page.next)
        return stored

    def _received_event(self, session: Session, event: Sent) -> ReceivedEvent:
        body = received(event, event.body)
        if tree := tree_of(body):
            changed_body = with_tree(body, *self._tree(session, event, tree, git_of(body)))
            return ReceivedEvent(
                body=_body(changed_body), source=event.source, actor=event.actor, said_at=event.said_at
            )
        names = {name: self._fetch(session, name, at=event.seq) for name in objects_of(body)}
        changed: Any = with_objects(body, {name: objects.save(self._store, data) for name, data in names.items()})
        return ReceivedEvent(body=_body(changed), source=event.source, actor=event.actor, said_at=event.said_at)

    def _tree(self, session: Session, event: Sent, name: str, git_name: str) -> tuple[str, str]:
        """Bring the files of a snapshot and what is staged; returns their names here, empty for what is lost there."""
        bases = [id for id in self._setting.with_files.get(session.project, ()) if id != session.id]
        tree_pull = TreePull(
            self._context,
            session,
            lambda wanted: self._server.call("sync_read", session=session.id, at=event.seq, wanted=wanted),
            bases=bases,
        )
        try:
            root = tree_pull.run(digest_of(name))
            git = tree_pull.run_git(digest_of(git_name)) if git_name else b""
        except NotFound as error:
            if error.code != NotFound.code:
                raise
            return "", ""
        self._blobs += tree_pull.objects
        self._left_out += tree_pull.left_out
        self._has_trees = True
        if self._setting.with_files.get(session.project, [])[:1] != [session.id]:
            with remotes.changing(Path(self._context.home), self._setting.name) as setting:
                setting.with_files[session.project] = [session.id, *bases][:BASES]
                self._setting.with_files = setting.with_files
        return root.hex(), git.hex()

    def _fetch(self, session: Session, digest: str, *, at: int = 0) -> bytes:
        """The bytes of a blob. They must match its digest unless the server masked something in them."""
        pieces, start = list[bytes](), 0
        self._blobs += 1
        try:
            while True:
                piece: Piece = self._server.call("blob", session=session.id, digest=digest, at=at, start=start)
                pieces.append(unpacked_piece(piece))
                if piece.next is None:
                    break
                start = self._beyond(start, piece.next)
        except Conflict:
            return HELD_BACK
        except TooLarge:
            return TOO_LARGE
        data = b"".join(pieces)
        if not piece.masked and address(data).hex() != digest:
            raise Damaged(f"blob {digest} from {self._setting.name} does not match its digest")
        return data

    def _beyond(self, after: int, next: int) -> int:
        if next <= after:
            raise Damaged(f"{self._setting.name} sent the same page twice; it has another version, or is broken")
        return next

    def _file(self, session: Session, file: NativeFile) -> bool:
        """Store a copy of a native file, unless the file itself was captured on this machine."""
        copy = Copy(
            runtime=file.runtime, format=file.format, path=file.path, native_id=file.native, machine=file.machine,
            translated=file.told, opaque=file.opaque, quarantined=file.quarantined, generation=file.generation,
        )  # fmt: skip
        for original in files_of(self._store, session):
            is_same = (original.machine, original.runtime, original.native_id) == (
                file.machine,
                file.runtime,
                file.native,
            )
            if is_same and not remote_copies.is_copy(original):
                return False
        copied = find_file(self._store, remote_copies.copy_id_of(session, copy))
        if copied is not None and remote_copies.progress_of(copied).generation == file.generation:
            return False
        data = [self._fetch(session, digest) for digest in file.segments]
        self._masked += any(MARKED in piece or piece == HELD_BACK for piece in data)
        upto = 0
        stretches = []
        for piece in data:
            upto += len(piece)
            stretches.append(Stretch(data=piece, upto=upto))
        remote_copies.store_copy(self._store, session, copy, stretches, after=0)
        return True


def unpacked_piece(piece: Piece) -> bytes:
    """Decompress a piece, up to the largest size that a piece may have."""
    with zstandard.ZstdDecompressor().stream_reader(bytes.fromhex(piece.packed)) as reader:
        return reader.read(PAGE_BYTES + 1)


def _body(body: Any) -> Body | Opaque:
    if isinstance(body, Body | Opaque):
        return body
    raise AssertionError("what was received is a body")
