"""Write a bundle as a stream: each session with its new objects before it, then its events and its native files.

One piece is in memory at a time, and 32 bytes for each object that was written before. Unless the caller wants secrets
in it, the bundle ends at the first one: nothing can be masked in what a chain of digests proves.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from blake3 import blake3

from clew import __version__
from clew.model.checkpoint import HeadLeaf, leaf_from
from clew.model.errors import Conflict, Damaged, NotFound
from clew.model.object_names import kinds_naming_objects, objects_of
from clew.model.steps import end_step
from clew.service.bundles.container import Member, packed
from clew.service.bundles.content import Chosen
from clew.service.bundles.values import (
    FORMAT,
    HEADER,
    BundledEvent,
    BundledFile,
    BundledProof,
    BundledSession,
    BundleHeader,
)
from clew.service.capture.packed_files import files_to_export
from clew.service.kernel.context import Context
from clew.service.privacy.masking import masker_of
from clew.store import audit_tree
from clew.store.log import receiving
from clew.store.log.rows import EventRow
from clew.store.log.stored_rows import body_of, stored_rows
from clew.store.native_files import remote_copies
from clew.store.native_files.lookup import files_of
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.stored_bytes import is_complete, iterate_bytes, segment_digests
from clew.store.objects import objects
from clew.store.objects.together import load_many
from clew.store.objects.walking import Walked, walk

# Objects up to this size are read many at once.
SMALL_BYTES = 256 * 1024
TOGETHER, TOGETHER_BYTES = 500, 8 * 1024 * 1024
# Lines of events are written in members of about so many bytes.
PORTION_BYTES = 4 * 1024 * 1024

_encode = msgspec.json.Encoder().encode


class Written(msgspec.Struct, kw_only=True):
    """What went into a bundle so far."""

    sessions: int = 0
    events: int = 0
    objects: int = 0
    files: int = 0
    proofs: int = 0


def bundle_pieces(context: Context, chosen: list[Chosen], written: Written, *, secrets: bool) -> Iterator[bytes]:
    """The bytes of a bundle, piece by piece; `written` counts what is in it."""
    made_at = context.store.now()
    return packed(_Writing(context, chosen, written, made_at, secrets=secrets).members(), made_at=made_at)


class _Writing:
    def __init__(
        self, context: Context, chosen: list[Chosen], written: Written, made_at: int, *, secrets: bool
    ) -> None:  # fmt: skip
        self._context = context
        self._store = context.unrestricted
        self._chosen = chosen
        self._written = written
        self._made_at = made_at
        self._refuse = (lambda data, where: None) if secrets else _refuser(context)
        self._seen: set[bytes] = set()
        self._checkpoint = audit_tree.newest(self._store)

    def members(self) -> Iterator[Member]:
        header = BundleHeader(
            clew_bundle=FORMAT, version=__version__, store=receiving.store_id(self._store), made_at=self._made_at,
            sessions=len(self._chosen),
        )  # fmt: skip
        yield _json(HEADER, header)
        done, total = 0, sum(max(1, member.last - member.session.upto) for member in self._chosen)
        for member in self._chosen:
            yield from self._objects(member)
            yield from self._session(member)
            yield from self._files(member)
            self._written.sessions += 1
            done += max(1, member.last - member.session.upto)
            if self._context.on_progress is not None:
                self._context.on_progress(done, total)

    # Events -----------------------------------------------------------------------------------------------------------

    def _session(self, member: Chosen) -> Iterator[Member]:
        session = member.session
        about = BundledSession(
            id=session.id, project=session.project, agent=session.agent, title=session.title,
            metadata=session.metadata or "{}", owner=session.owner, private=session.private,
            parent=session.parent or "", upto=session.upto, last=member.last, head=member.head,
            forked_at=sorted(member.forked_at),
        )  # fmt: skip
        self._refuse(f"{session.title}\n{session.metadata}".encode(), f"session {session.id}")
        folder = f"sessions/{session.id}"
        yield _json(f"{folder}/session.json", about)
        if proof := self._proof(member):
            yield _json(f"{folder}/proof.json", proof)
            self._written.proofs += 1
        lines, size, number = list[bytes](), 0, 0
        for row in stored_rows(self._store, session, upto=member.last):
            line = _encode(self._event(session.id, row)) + b"\n"
            lines.append(line)
            size += len(line)
            self._written.events += 1
            if size >= PORTION_BYTES:
                number += 1
                yield Member(f"{folder}/events-{number:06}.jsonl", size, lines)
                lines, size = [], 0
        if lines:
            yield Member(f"{folder}/events-{number + 1:06}.jsonl", size, lines)

    def _event(self, session: str, row: EventRow) -> BundledEvent:
        try:
            body = body_of(self._store, row)
        except (NotFound, Damaged, UnicodeDecodeError) as error:
            raise Damaged(
                f"event {row.seq} of session {session} cannot be read ({error}); no bundle was made", session=session
            ) from error
        if body is not None:
            self._refuse(f"{body}\n{row.source or ''}".encode(), f"event {row.seq} of session {session}")
        return BundledEvent(
            seq=row.seq, kind=row.kind, version=row.version, at=row.at, said_at=row.said_at, actor=row.actor,
            source=row.source, digest=bytes(row.digest).hex(), body=body,
            seal="" if body is not None else bytes(row.seal or b"").hex(),
        )  # fmt: skip

    def _proof(self, member: Chosen) -> BundledProof | None:
        """That the newest checkpoint holds the session; None if it does not, or holds more than is in the bundle."""
        newest = self._checkpoint
        included = None if newest is None else audit_tree.inclusion(self._store, member.session.id, newest.size)
        if newest is None or included is None:
            return None
        leaf = leaf_from(included.statement)
        if not isinstance(leaf, HeadLeaf) or not member.session.upto < leaf.seq <= member.last:
            return None
        return BundledProof(
            checkpoint=newest.note, signer=newest.signer, size=newest.size, index=included.number,
            statement=included.statement, hashes=[hash.hex() for hash in included.hashes],
        )  # fmt: skip

    # Objects ----------------------------------------------------------------------------------------------------------

    def _objects(self, member: Chosen) -> Iterator[Member]:
        session = member.session
        events = self._store.read(session, after=session.upto, upto=member.last, kinds=kinds_naming_objects())
        roots = dict.fromkeys(bytes.fromhex(name) for event in events for name in objects_of(event.body))
        small, size = list[Walked](), 0
        try:
            for found in walk(self._store, roots, seen=self._seen):
                if found.size <= SMALL_BYTES and not found.names:
                    small.append(found)
                    size += found.size
                    if len(small) < TOGETHER and size < TOGETHER_BYTES:
                        continue
                yield from self._small(small)
                small, size = [], 0
                if found.size > SMALL_BYTES or found.names:
                    yield from self._object(found)
            yield from self._small(small)
        except NotFound as error:
            raise NotFound(
                f"session {session.id} names an object that is not there ({error}); no bundle was made", **error.details
            ) from error

    def _small(self, small: list[Walked]) -> Iterator[Member]:
        for digest, data in load_many(self._store, [found.digest for found in small]) if small else ():
            self._refuse(data, f"object {digest.hex()}")
            self._written.objects += 1
            yield Member(f"objects/{digest.hex()}", len(data), [data])

    def _object(self, found: Walked) -> Iterator[Member]:
        name = f"objects/{found.digest.hex()}"
        if found.names:
            lines = [b"%b\n" % digest.hex().encode() for digest in sorted(found.names)]
            yield Member(f"{name}.names", sum(map(len, lines)), lines)
        pieces = objects.pieces(self._store, found.digest.hex())
        self._written.objects += 1
        yield Member(name, found.size, self._without_secrets(pieces, f"object {found.digest.hex()}"))

    # Native files -----------------------------------------------------------------------------------------------------

    def _files(self, member: Chosen) -> Iterator[Member]:
        if member.last < member.head:
            return  # Of an ancestor only the beginning is in the bundle.
        number = 0
        for file in files_to_export(files_of(self._store, member.session), exact=False):
            if file.erased or not is_complete(self._store, file):
                continue  # A retention policy removed the bytes.
            number += 1
            self._written.files += 1
            name = f"sessions/{member.session.id}/native/{number}"
            about = self._about(file)
            self._refuse(_encode(about), f"the file {file.path}")
            yield _json(f"{name}.json", about)
            pieces = self._without_secrets(iterate_bytes(self._store, file), file.path)
            yield Member(f"{name}.data", about.bytes, pieces)

    def _about(self, file: NativeFile) -> BundledFile:
        summed = blake3()
        for piece in iterate_bytes(self._store, file):
            end_step()
            summed.update(piece)
        return BundledFile(
            runtime=file.runtime, format=file.format, path=file.path, native=file.native_id,
            machine=remote_copies.machine_of(file), translated=file.translated, opaque=file.opaque,
            quarantined=file.quarantined, generation=file.generation,
            bytes=sum(length for _, length, _ in segment_digests(self._store, file)), digest=summed.hexdigest(),
        )  # fmt: skip

    # Secrets ----------------------------------------------------------------------------------------------------------

    def _without_secrets(self, pieces: Iterator[bytes], where: str) -> Iterator[bytes]:
        """The pieces, each looked through with the end of the one before it."""
        from clew.secrets.stream import OVERLAP

        before = b""
        for piece in pieces:
            self._refuse(before + piece, where)
            before = (before + piece)[-OVERLAP:]
            yield piece


def _refuser(context: Context) -> Callable[[bytes, str], None]:
    """Refuses bytes that hold a secret."""
    mask = masker_of(context)

    def refuse(data: bytes, where: str) -> None:
        # Programs write texts of two bytes a character, too.
        counts = mask.mask(data)[1] or (mask.mask(data.replace(b"\0", b""))[1] if b"\0" in data else None)
        if counts:
            raise Conflict(
                f"{where} holds secrets ({', '.join(sorted(counts))}), and in a bundle none can be masked, because its "
                "digests prove every byte; take them along on purpose, or leave this session out",
                rules=sorted(counts), secrets=True,
            )  # fmt: skip

    return refuse


def _json(name: str, value: Any) -> Member:
    data = msgspec.json.format(_encode(value), indent=1) + b"\n"
    return Member(name, len(data), [data])
