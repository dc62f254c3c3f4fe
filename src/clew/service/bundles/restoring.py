"""Restore what is in a bundle, as a pull does: sessions under their ids, events under their sources.

Before anything is stored, `plan` reads the bundle to its end and rules on each session. What is stored then is stored
in the order of the bundle: objects, the session that names them, its events, its native files. So an import that is
killed leaves sessions that are whole up to some event, and the same import again adds the rest.
"""

from collections.abc import Iterable
from typing import BinaryIO

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import PublicKey
from clew.model.errors import Conflict, Damaged, InvalidInput, NotFound, WrongState
from clew.model.events import Draft, Event
from clew.model.session import Session, State
from clew.service.bundles.reading import FoundEvents, FoundFile, FoundObject, FoundSession, Proved, read
from clew.service.bundles.values import BundledFile, BundledSession, BundleHeader
from clew.service.capture.find_project import ProjectFinder
from clew.service.kernel.call import permit
from clew.service.kernel.context import Context
from clew.service.privacy.mask_on_write import masked_if_required
from clew.service.replication.receiving import received
from clew.service.replication.sending import sent
from clew.store.cursors import move_cursor, read_cursor
from clew.store.log import receiving
from clew.store.log.opening import Forking, Opening
from clew.store.log.prepare import check_draft
from clew.store.log.receiving import ReceivedEvent
from clew.store.native_files import remote_copies
from clew.store.native_files.lookup import files_of, find_file
from clew.store.native_files.remote_copies import Copy, Stretch
from clew.store.objects import objects
from clew.store.objects.pack import Encoder
from clew.store.objects.together import Together
from clew.store.projects import current_name

# Objects up to this size are stored many at once.
SMALL_BYTES = 4 * 1024 * 1024
# So many events are received in one transaction.
BATCH = 500
# Native files are stored in stretches of so many bytes, one in memory at a time.
STRETCH_BYTES = 32 * 1024 * 1024
# The cursor of a session that was opened, and got no event yet.
OPENED = 1


class Imported(msgspec.Struct, kw_only=True):
    """What was in a bundle, and how much of it is new here."""

    sessions: int = 0
    new_sessions: int = 0
    events: int = 0
    new_events: int = 0
    objects: int = 0
    files: int = 0
    new_files: int = 0
    proved: int = 0
    """How many sessions a signed checkpoint proves."""
    signers: list[str] = []
    """The public keys that signed it; nothing here says whose they are, unless you gave them."""
    store: str = ""
    """The store that the bundle was made of."""
    made_at: int = 0
    version: str = ""
    ids: list[str] = []


def plan(context: Context, file: BinaryIO, keys: Iterable[PublicKey]) -> Imported:
    """Verify a whole bundle, and that all of it may be stored here; nothing is."""
    planned = Imported()
    signers = dict[str, None]()
    sources = dict[tuple[str, int], str]()
    events: _Events | None = None
    for found in read(file, keys=keys):
        match found:
            case BundleHeader():
                planned.store, planned.made_at, planned.version = found.store, found.made_at, found.version
            case FoundSession():
                _refuse(context, found.about, planned.store)
                events = _Events(context, found.about, planned.store, sources)
                planned.sessions += 1
                planned.ids.append(found.about.id)
            case FoundEvents():
                planned.events += len(found.events)
                if events is not None:
                    events.check(found.events)
            case FoundObject():
                planned.objects += 1
            case FoundFile():
                planned.files += 1
            case Proved():
                planned.proved += 1
                signers[found.signer] = None
    planned.signers = [*signers]
    return planned


def _refuse(context: Context, about: BundledSession, origin: str) -> None:
    """Refuse a session that may not be stored here."""
    permit(context, Right.APPEND, current_name(context.unrestricted, about.project))
    session = _here(context, about.id)
    if session is None:
        return
    permit(context, Right.APPEND, session)
    head = context.unrestricted.head(session)
    if head.state == State.ERASED:
        raise WrongState(f"session {about.id} was erased here and is not brought back", state="erased")
    if head.state == State.ARCHIVED and read_cursor(context.store, _cursor(origin, about.id)) < about.last:
        raise WrongState(f"session {about.id} is archived here and takes no more events", state="archived")


class _Events:
    """Checks the events of one session before anything is stored."""

    def __init__(
        self, context: Context, about: BundledSession, origin: str, sources: dict[tuple[str, int], str]
    ) -> None:
        """`sources` gets the source of each event that another session of the bundle was forked at."""
        self._context = context
        self._about = about
        self._origin = origin
        self._own = receiving.store_id(context.unrestricted)
        self._sources = sources
        self._source = sources.get((about.parent, about.upto), "")
        self._unproven = _here(context, about.id)
        """A session of this id that is here; an event that both have shows that it is the same one."""
        if self._unproven and self._source and self._has(self._unproven, self._source):
            self._unproven = None

    def _has(self, session: Session, source: str) -> bool:
        return receiving.find(self._context.unrestricted, session, source, self._own) is not None

    def check(self, events: list[Event]) -> None:
        """Refuse an event that no log takes, and a session that is another one under the same id."""
        for event in events:
            self._check(event)

    def _check(self, event: Event) -> None:
        for each in sent(event, self._origin):
            try:
                check_draft(Draft(body=received(each, each.body), source=each.source, said_at=each.said_at))
            except InvalidInput as error:
                raise Damaged(f"event {event.seq} of session {self._about.id} in the bundle: {error}") from error
            self._source = each.source
            session, self._unproven = self._unproven, None
            if session and not self._has(session, each.source):
                raise Conflict(
                    f"session {session.id} exists already and is another one: it has no event {event.seq} of the "
                    "bundle; nothing was changed",
                    session=session.id,
                )
        if event.seq in self._about.forked_at:
            self._sources[self._about.id, event.seq] = self._source


def _here(context: Context, id: str) -> Session | None:
    try:
        return context.unrestricted.session(id)
    except NotFound:
        return None


def _cursor(origin: str, id: str) -> str:
    """A pull has the same cursor: what a bundle brought from a server need not be pulled from it."""
    return f"pull:{origin}:{id}"


def restore(context: Context, file: BinaryIO, planned: Imported, keys: Iterable[PublicKey]) -> None:
    """Store what is in the bundle and not here yet; `planned` counts it."""
    restoring = _Restoring(context, planned)
    try:
        for found in read(file, keys=keys):
            match found:
                case FoundObject():
                    restoring.object(found)
                case FoundSession():
                    restoring.session(found.about)
                case FoundEvents():
                    restoring.events(found.events)
                case FoundFile():
                    restoring.file(found.about, found.content)
                case _:
                    pass
        restoring.finish()
    except BaseException:
        restoring.discard()
        raise


class _Restoring:
    def __init__(self, context: Context, planned: Imported) -> None:
        self._context = context
        self._store = context.store
        self._own = receiving.store_id(context.unrestricted)
        self._finder = ProjectFinder(context.unrestricted, context.machine)
        self._together: Together | None = None
        self._encoder = Encoder()
        self._planned = planned
        self._done = 0
        self._about: BundledSession | None = None
        self._session: Session | None = None
        self._after = 0
        self._source = ""
        self._sources: dict[tuple[str, int], str] = {}

    # Objects ----------------------------------------------------------------------------------------------------------

    def object(self, found: FoundObject) -> None:
        if found.size > SMALL_BYTES and found.data is None:
            objects.put(self._store, found.content, size=found.size)
            return
        together = self._together = self._together or Together(self._store)
        data = found.data if found.data is not None else b"".join(found.content)
        if found.names:
            together.add_manifest(data, found.names)
        elif together.unknown([found.digest]):
            together.add(self._encoder.encode(data, found.digest))
        if together.is_full:
            together.flush()

    def _store_objects(self) -> None:
        together, self._together = self._together, None
        if together is not None:
            together.finish()

    def discard(self) -> None:
        if self._together is not None:
            self._together.discard()

    # Sessions ---------------------------------------------------------------------------------------------------------

    def session(self, about: BundledSession) -> None:
        self._end_session()
        self._store_objects()
        self._about, self._source = about, ""
        cursor = _cursor(self._planned.store, about.id)
        self._session = _here(self._context, about.id)
        self._after = read_cursor(self._store, cursor) if self._session is not None else 0
        if self._session is None:
            # First, so that an import that is killed after the session was opened is known to be the one that did.
            move_cursor(self._store, cursor, OPENED)
            self._session = self._open(about)
            self._planned.new_sessions += 1
        self._after = self._after if self._after > OPENED else 0

    def _open(self, about: BundledSession) -> Session:
        if about.parent:
            parent = self._store.session(about.parent)
            source = self._sources.get((about.parent, about.upto), "")
            at = receiving.find(self._context.unrestricted, parent, source, self._own) if source else 1
            if at is None:
                raise Conflict(
                    f"session {about.parent} has not the event here at which {about.id} was forked",
                    session=about.parent,
                )
            child = Forking(
                parent=parent, id=about.id, at=at, title=about.title, metadata=about.metadata, private=about.private
            )
            return self._store.open(child, actor=about.owner)
        project = self._finder.of_copy(about.project, about.metadata)
        permit(self._context, Right.APPEND, project)
        opening = Opening(
            id=about.id, project=project, agent=about.agent, title=about.title, metadata=about.metadata,
            private=about.private,
        )  # fmt: skip
        return self._store.open(opening, actor=about.owner)

    def events(self, events: list[Event]) -> None:
        about, session = self._about, self._session
        if about is None or session is None:
            raise AssertionError("a reader gives the session before its events")
        for first in range(0, len(events), BATCH):
            batch: list[ReceivedEvent] = []
            for event in events[first : first + BATCH]:
                for each in sent(event, self._planned.store):
                    self._source = each.source
                    if event.seq > self._after:
                        draft = Draft(body=received(each, each.body))
                        [draft] = masked_if_required(self._context, session.project, [draft])
                        batch.append(
                            ReceivedEvent(
                                body=draft.body, source=each.source, actor=each.actor, said_at=each.said_at
                            )
                        )  # fmt: skip
                if event.seq in about.forked_at:
                    self._sources[about.id, event.seq] = self._source
            if batch:
                arrived = receiving.receive(self._store, session, batch, own=self._own)
                self._planned.new_events += arrived.stored
            self._report(len(events[first : first + BATCH]))

    def _report(self, count: int) -> None:
        self._done += count
        if self._context.on_progress is not None:
            self._context.on_progress(self._done, self._planned.events)

    def finish(self) -> None:
        self._end_session()
        self._store_objects()

    def _end_session(self) -> None:
        """Note how far the session came: the next bundle of it brings only what is newer."""
        about, self._about = self._about, None
        if about is not None and about.last > self._after:
            move_cursor(self._store, _cursor(self._planned.store, about.id), about.last)

    # Native files -----------------------------------------------------------------------------------------------------

    def file(self, about: BundledFile, content: Iterable[bytes]) -> None:
        session = self._session
        if session is None:
            raise AssertionError("a reader gives the session before its files")
        copy = Copy(
            runtime=about.runtime, format=about.format, path=about.path, native_id=about.native, machine=about.machine,
            translated=about.translated, opaque=about.opaque, quarantined=about.quarantined,
            generation=about.generation,
        )  # fmt: skip
        for file in files_of(self._store, session):
            same = (file.machine, file.runtime, file.native_id) == (about.machine, about.runtime, about.native)
            if same and not remote_copies.is_copy(file):
                return  # The file itself was captured here.
        known = remote_copies.progress_of(find_file(self._store, remote_copies.copy_id_of(session, copy)))
        if (known.generation, known.upto) == (about.generation, about.bytes) or known.generation > about.generation:
            return
        after, stretch = 0, bytearray()
        for piece in content:
            stretch += piece
            if len(stretch) >= STRETCH_BYTES:
                after = self._store_stretch(session, copy, bytes(stretch), after)
                stretch = bytearray()
        if stretch or not after:
            self._store_stretch(session, copy, bytes(stretch), after)
        self._planned.new_files += 1

    def _store_stretch(self, session: Session, copy: Copy, data: bytes, after: int) -> int:
        stretch = Stretch(data=data, upto=after + len(data), settled=True)
        remote_copies.store_copy(self._store, session, copy, [stretch], after=after)
        return stretch.upto
