"""Read a bundle, and refuse it when anything in it is not as it should be: nothing of it is trusted.

`read` gives what is in the bundle in its order. Each object has the digest of its name, each tree of files names only
what came before it, each event follows from the one before it by its digest, and each proof leads to a signature.
Who only wants to know whether a bundle is good reads it to its end.
"""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec
from blake3 import blake3

from clew.model import chain, codec, merkle
from clew.model.chain_check import ChainCheck, ChainedEvent
from clew.model.checkpoint import HeadLeaf, PublicKey, checkpoint_from, leaf_from, note_from, public_key
from clew.model.errors import ClewError, Damaged, InvalidInput
from clew.model.events import Event, Removed, SessionForked, SessionOpened, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import FOLDER, LARGE, PIECES, TREE, decode_pieces, decode_tree
from clew.model.ids import LENGTH, check_name, check_prefix
from clew.model.object_names import objects_of
from clew.service.bundles.container import Content, members_of
from clew.service.bundles.values import (
    EVENTS_BYTES,
    FORMAT,
    HEADER,
    JSON_BYTES,
    NAMES_BYTES,
    OBJECT,
    OF_SESSION,
    BundledEvent,
    BundledFile,
    BundledProof,
    BundledSession,
    BundleHeader,
)
from clew.store.log.prepare import OWN_MARK
from clew.store.objects.objects import LOADED_BYTES

T = TypeVar("T")


class FoundObject(NamedTuple):
    """An object; `data` is its bytes when it names others, and otherwise they are read from `content`."""

    digest: bytes
    names: tuple[bytes, ...]
    data: bytes | None
    size: int
    content: Iterable[bytes]


class FoundSession(NamedTuple):
    about: BundledSession


class FoundEvents(NamedTuple):
    """Events of the last found session, in order."""

    events: list[Event]


class FoundFile(NamedTuple):
    about: BundledFile
    content: Iterable[bytes]


class Proved(NamedTuple):
    """A session whose events a signed checkpoint proves, up to one of them."""

    session: str
    seq: int
    signer: str


Found = BundleHeader | FoundObject | FoundSession | FoundEvents | FoundFile | Proved


def read(file: BinaryIO, *, keys: Iterable[PublicKey] = ()) -> Iterator[Found]:
    """What is in a bundle, in its order, each checked; with `keys` each session has to be signed by one of them."""
    return _Reading(file, list(keys)).run()


class _Reading:
    def __init__(self, file: BinaryIO, keys: list[PublicKey]) -> None:
        self._file = file
        self._keys = keys
        self._objects: set[bytes] = set()
        self._trees: set[bytes] = set()
        self._large: set[bytes] = set()
        self._names: tuple[bytes, tuple[bytes, ...]] | None = None
        self._sessions: set[str] = set()
        self._forks: dict[tuple[str, int], bytes | None] = {}
        self._session: _Session | None = None
        self._about_file: tuple[str, BundledFile] | None = None

    def run(self) -> Iterator[Found]:
        members = members_of(self._file)
        content = next(members, None)
        if content is None or content.name != HEADER:
            raise Damaged(f"this is no bundle of clew: it does not begin with {HEADER}")
        header = _parsed(content, BundleHeader)
        if header.clew_bundle != FORMAT:
            raise InvalidInput(
                f"this bundle has format {header.clew_bundle}, made by clew {header.version}, and this clew reads "
                f"{FORMAT}; upgrade clew"
            )
        yield header
        for content in members:
            yield from self._member(content)
        self._close()
        if len(self._sessions) != header.sessions:
            raise Damaged(f"the bundle has {len(self._sessions)} sessions, and says that it has {header.sessions}")

    def _member(self, content: Content) -> Iterator[Found]:
        if found := OBJECT.fullmatch(content.name):
            digest = bytes.fromhex(found[1])
            if found[2]:
                self._read_names(digest, content)
            else:
                yield from self._object(digest, content)
            return
        within = OF_SESSION.fullmatch(content.name)
        if within is None or self._names is not None:
            raise Damaged(f"{content.name[:200]!r} does not belong into a bundle, or not there")
        id, name = within[1], within[2]
        if name == "session.json":
            yield self._begin(id, _parsed(content, BundledSession))
            return
        session = self._session
        if session is None or session.about.id != id:
            raise Damaged(f"{content.name} is not behind its session.json")
        if name == "proof.json":
            yield session.prove(_parsed(content, BundledProof))
        elif name.startswith("events-"):
            yield FoundEvents(list(session.events(content, self._objects, self._trees)))
        else:
            yield from self._file_of(session, name, content)

    # Objects ----------------------------------------------------------------------------------------------------------

    def _read_names(self, digest: bytes, content: Content) -> None:
        lines = content.whole(NAMES_BYTES).split(b"\n")
        try:
            names = tuple(bytes.fromhex(line.decode()) for line in lines[:-1])
        except ValueError as error:
            raise Damaged(f"{content.name} is no list of digests") from error
        if self._names is not None or not names or lines[-1] or any(len(name) != 32 for name in names):
            raise Damaged(f"{content.name} is no list of digests, or not before its object")
        if missing := {*names} - self._objects:
            raise Damaged(f"{content.name} names an object that does not come before it: {min(missing).hex()}")
        self._names = (digest, names)

    def _object(self, digest: bytes, content: Content) -> Iterator[Found]:
        if digest in self._objects:
            raise Damaged(f"{content.name} is in the bundle twice")
        before, self._names = self._names, None
        names: tuple[bytes, ...] = ()
        if before is not None:
            if before[0] != digest:
                raise Damaged(f"{content.name} is not the object whose names come before it")
            names = before[1]
        pieces = _checked(content, digest)
        beginning = next(pieces, b"")
        data = None
        if names or beginning.startswith((TREE, PIECES)):
            if content.size > LOADED_BYTES:
                raise Damaged(f"{content.name} of {content.size:,} bytes is too large to name others")
            data = b"".join([beginning, *pieces])
            self._check_names(digest, content.name, data, names)
        yield FoundObject(digest, names, data, content.size, [data] if data is not None else _joined(beginning, pieces))
        for _ in pieces:
            pass  # Whoever only verifies reads no content; it is checked all the same.
        self._objects.add(digest)

    def _check_names(self, digest: bytes, member: str, data: bytes, names: tuple[bytes, ...]) -> None:
        """Refuse a tree of files that does not name what is in it: no tree reaches what did not come with it."""
        if not data.startswith((TREE, PIECES)):
            return
        try:
            inside, is_closed = self._inside(data)
        except Damaged as error:
            if not names:
                return  # The content of some file only begins like a tree.
            raise Damaged(f"{member}: {error}") from error
        if not names and inside:
            return  # The content of some file; nothing may use it as a tree.
        if inside != {*names} or not is_closed:
            raise Damaged(f"{member} is a tree of files that does not name what is in it")
        (self._trees if data.startswith(TREE) else self._large).add(digest)

    def _inside(self, data: bytes) -> tuple[set[bytes], bool]:
        """What a tree, or the pieces of a large file, name; and whether folders are trees, and large files pieces."""
        if data.startswith(PIECES):
            return {digest for digest, _ in decode_pieces(data)}, True
        entries = decode_tree(data)
        kinds = {FOLDER: self._trees, LARGE: self._large}
        is_closed = all(entry.digest in kinds[entry.kind] for entry in entries if entry.kind in kinds)
        return {entry.digest for entry in entries if entry.digest}, is_closed

    # Sessions ---------------------------------------------------------------------------------------------------------

    def _begin(self, id: str, about: BundledSession) -> FoundSession:
        self._close()
        if about.id != id or id in self._sessions or len(check_prefix(id)) != LENGTH:
            raise Damaged(f"session {id} is in the bundle twice, or under another id")
        for text, what in ((about.project, "the project"), (about.agent, "the agent"), (about.owner, "the owner"),
                           (about.title, "the title")):  # fmt: skip
            check_name(text, what)
        previous: bytes | None = chain.GENESIS
        if about.parent:
            previous = self._forks.get((about.parent, about.upto))
            if previous is None:
                raise Damaged(f"session {id} was forked from {about.parent} at {about.upto}, which is not before it")
        elif about.upto:
            raise Damaged(f"session {id} shares {about.upto} events with no parent")
        if not about.upto < about.last <= about.head or not all(
            about.upto < at <= about.last for at in about.forked_at
        ):
            raise Damaged(f"session {id} has the events {about.upto + 1} to {about.last}, which cannot be")
        self._sessions.add(id)
        self._session = _Session(about, previous, self._keys)
        return FoundSession(about)

    def _close(self) -> None:
        session, self._session = self._session, None
        if self._about_file is not None:
            raise Damaged(f"{self._about_file[0]} is not followed by its bytes")
        if session is not None:
            session.finish()
            self._forks |= {(session.about.id, seq): session.digests[seq] for seq in session.about.forked_at}

    def _file_of(self, session: "_Session", name: str, content: Content) -> Iterator[Found]:
        before, self._about_file = self._about_file, None
        if name.endswith(".json"):
            if before is not None:
                raise Damaged(f"{before[0]} is not followed by its bytes")
            self._about_file = (content.name, _parsed(content, BundledFile))
            return
        if before is None or before[0] != content.name.removesuffix(".data") + ".json":
            raise Damaged(f"{content.name} is not behind its description")
        about = before[1]
        for text in (about.path, about.native, about.machine, about.runtime, about.format):
            check_name(text, "a native file", longest=4000)
        if content.size != about.bytes:
            raise Damaged(f"{content.name} has {content.size:,} bytes and should have {about.bytes:,}")
        session.refuse_unfinished()
        pieces = _checked(content, _digest(about.digest))
        yield FoundFile(about, pieces)
        for _ in pieces:
            pass


class _Session:
    """One session while its events are read."""

    def __init__(self, about: BundledSession, previous: bytes | None, keys: list[PublicKey]) -> None:
        self.about = about
        self.digests: dict[int, bytes] = dict.fromkeys(about.forked_at, b"")
        self._keys = keys
        self._leaf: HeadLeaf | None = None
        self._chain = ChainCheck(about.id, upto=about.upto, previous=previous, report=self._report)

    def events(self, content: Content, objects: set[bytes], trees: set[bytes]) -> Iterator[Event]:
        lines = content.whole(EVENTS_BYTES).split(b"\n")
        if lines.pop():
            raise Damaged(f"{content.name} does not end with a whole line")
        decode = msgspec.json.Decoder(BundledEvent).decode
        for number, line in enumerate(lines, 1):
            try:
                event = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise Damaged(f"line {number} of {content.name} cannot be read: {error}") from error
            yield self._event(event, objects, trees)

    def _event(self, line: BundledEvent, objects: set[bytes], trees: set[bytes]) -> Event:
        digest = _digest(line.digest)
        self._chain.add(
            ChainedEvent(
                line.seq, line.kind, line.version, line.at, line.said_at, line.actor, line.source, digest,
                body=line.body, seal=_hex(line.seal),
            )
        )  # fmt: skip
        if line.seq > self.about.last:
            self._report(line.seq, f"the bundle should have the events up to {self.about.last}")
        if line.seq in self.digests:
            self.digests[line.seq] = digest
        if self._leaf is not None and line.seq == self._leaf.seq and line.digest != self._leaf.digest:
            self._report(line.seq, "its digest is not the one that was signed")
        source = None if line.source is None or line.source.startswith(OWN_MARK) else line.source
        body: Any = Removed(kind=line.kind, how="pruned", version=line.version)
        if line.body is not None:
            try:
                body = codec.decode(line.kind, line.version, line.body)
            except (msgspec.DecodeError, UnicodeError, RecursionError, ClewError) as error:
                self._report(line.seq, f"its body cannot be read: {error}")
        check_name(line.actor, "an actor")
        if line.seq == self.about.upto + 1:
            self._check_first(body, line.actor)
        self._check_objects(line.seq, body, objects, trees)
        return Event(
            self.about.id, line.seq, 0, line.at, line.said_at, line.actor, source, digest, body
        )  # fmt: skip

    def _check_first(self, body: Any, actor: str) -> None:
        """What is said about a session has to be what its first event says."""
        about = self.about
        match body:
            case SessionOpened() if not about.parent:
                said = (body.agent, actor)
            case SessionForked() if about.parent and body.upto == about.upto:
                said = (about.agent, actor)
            case _:
                self._report(about.upto + 1, "it is not the event that opens this session")
        for what, claimed, fact in zip(("agent", "owner"), (about.agent, about.owner), said, strict=True):
            if claimed != fact:
                self._report(about.upto + 1, f"its {what} is {fact!r}, and session.json claims {claimed!r}")

    def _check_objects(self, seq: int, body: Any, objects: set[bytes], trees: set[bytes]) -> None:
        for name in objects_of(body):
            if _digest(name) not in objects:
                self._report(seq, f"it names the object {name[:80]}, which is not before it in the bundle")
        is_snapshot = isinstance(body, WorkspaceSnapshotted | WorkspaceRestored) and body.blob
        if is_snapshot and _digest(body.blob) not in trees:
            self._report(seq, f"its snapshot {body.blob} is no tree of files")

    def prove(self, proof: BundledProof) -> Proved:
        """Check that a signed checkpoint holds the session; that its events are those follows when they are read."""
        from clew.service.audit import signing

        signing.need_cryptography()
        try:
            signing.check(proof.checkpoint, self._keys or [public_key(proof.signer)])
            signed = checkpoint_from(note_from(proof.checkpoint).text)
            leaf = leaf_from(proof.statement)
            hashes = [_digest(hash) for hash in proof.hashes]
            root = merkle.root_of(
                merkle.leaf_hash(proof.statement.encode()), proof.index, proof.size, hashes
            )  # fmt: skip
        except (ClewError, ValueError, IndexError) as error:
            raise Damaged(f"the proof of session {self.about.id} does not hold: {error}") from error
        is_about_it = isinstance(leaf, HeadLeaf) and leaf.session == self.about.id
        if root != signed.root or proof.size != signed.size or not is_about_it or not isinstance(leaf, HeadLeaf):
            raise Damaged(f"the proof of session {self.about.id} does not lead to the root that was signed")
        if not self.about.upto < leaf.seq <= self.about.last or self._chain.events or self._leaf is not None:
            raise Damaged(f"the proof of session {self.about.id} is about event {leaf.seq}, or not before the events")
        self._leaf = leaf
        return Proved(self.about.id, leaf.seq, proof.signer)

    def refuse_unfinished(self) -> None:
        if self._chain.seq != self.about.last:
            self._report(self._chain.seq, f"the events up to {self.about.last} are missing")

    def finish(self) -> None:
        self.refuse_unfinished()
        if self.about.last == self.about.head:
            self._chain.finish()
        if self._keys and self._leaf is None:
            raise InvalidInput(
                f"session {self.about.id} has no signed proof, and a key was given that must have signed"
            )

    def _report(self, seq: int, what: str) -> Any:
        raise Damaged(f"event {seq} of session {self.about.id} in the bundle: {what}", session=self.about.id, seq=seq)


def _parsed(content: Content, type: type[T]) -> T:
    try:
        return msgspec.json.decode(content.whole(JSON_BYTES), type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"{content.name} in the bundle cannot be read: {error}") from error


def _checked(content: Content, digest: bytes) -> Iterator[bytes]:
    """The pieces of a member; the last one only after the digest of all of them was compared."""
    summed, held = blake3(), b""
    for piece in content.pieces():
        summed.update(piece)
        if held:
            yield held
        held = piece
    if summed.digest() != digest:
        raise Damaged(f"{content.name} in the bundle has other bytes than its digest says")
    yield held


def _joined(beginning: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield beginning
    yield from pieces


def _digest(text: str) -> bytes:
    digest = _hex(text)
    if len(digest) != 32:
        raise Damaged(f"{text[:80]!r} in the bundle is no digest of 64 hexadecimal digits")
    return digest


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
