"""Prepare what a push sends: events, titles, blobs and native files, with their secrets masked.

A masked blob has another digest, and the sent events name that digest. Binary data cannot be masked; when it contains a
secret, a placeholder text is sent in its place.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from clew.model.errors import ClewError, TooLarge
from clew.model.events import Event
from clew.model.object_names import objects_of, with_objects
from clew.model.session import Session
from clew.model.title import uncut
from clew.runtimes import runtime
from clew.secrets.blobs import without_secrets
from clew.service.kernel.context import Context
from clew.service.privacy.masking import mask_events, masker_of
from clew.service.replication.sending import parcel, sent
from clew.service.replication.trees import with_tree
from clew.service.replication.values import Parcel, Sent
from clew.store.log import receiving
from clew.store.native_files.native_file import NativeFile
from clew.store.native_files.remote_copies import Copy, CopyProgress, Stretch
from clew.store.native_files.stored_bytes import load_bytes
from clew.store.objects import objects
from clew.store.objects.pack import address

# The smallest stretch of a line-based file after which the server may record the copy as settled.
STRETCH_BYTES = 256 * 1024


class Outgoing:
    """Masks what is sent, and counts the secrets it masked."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.masker = masker_of(context)
        self._own = receiving.store_id(context.unrestricted)
        self.masked = Counter[str]()

    def about(self, session: Session) -> Parcel:
        """A session without its events, masked."""
        outgoing = parcel(self._context, session)
        return msgspec.structs.replace(
            outgoing,
            agent=self.text(outgoing.agent),
            title=self.text(uncut(outgoing.title)),
            metadata=self.text(outgoing.metadata),
            parent_source=self.text(outgoing.parent_source),
        )

    def event(self, event: Event) -> tuple[list[Sent], dict[str, bytes]]:
        """An event as it is sent, and the blobs it names; nothing for the first event of a session."""
        [masked], counts = mask_events(self.masker, [event])
        self.masked += counts
        blobs = {name: self._blob(name) for name in objects_of(masked.body)}
        names = {name: address(data).hex() for name, data in blobs.items()}
        sent_events = self._sent(msgspec.structs.replace(masked, body=with_objects(masked.body, names)))
        return sent_events, {names[name]: data for name, data in blobs.items()} if sent_events else {}

    def snapshot(self, event: Event, root: str, git: str) -> list[Sent]:
        """The event of a snapshot whose files were sent as this tree, and what is staged as this record of git."""
        [masked], counts = mask_events(self.masker, [event])
        self.masked += counts
        return self._sent(msgspec.structs.replace(masked, body=with_tree(masked.body, root, git)))

    def _sent(self, outgoing: Event) -> list[Sent]:
        return [
            msgspec.structs.replace(sent_event, source=self.text(sent_event.source))
            for sent_event in sent(outgoing, self._own)
        ]

    def text(self, text: str) -> str:
        masked, counts = self.masker.mask(text)
        self.masked += counts
        return masked

    def _blob(self, name: str) -> bytes:
        try:
            return self._bytes(objects.load(self._context.store, name))
        except TooLarge:
            return b"[a file that stays in the store it was put into: it is too large to be sent]\n"
        except ClewError:
            return b"[a file that is lost in the store it was captured into]\n"

    def _bytes(self, data: bytes) -> bytes:
        masked, counts = without_secrets(self.masker, data)
        self.masked += counts
        return masked

    # Native files -----------------------------------------------------------------------------------------------------

    def file(self, original: NativeFile) -> Copy:
        return Copy(
            runtime=original.runtime,
            format=original.format,
            path=self.text(original.path),
            native_id=self.text(original.native_id),
            machine=self.text(original.machine),
            translated=original.translated,
            opaque=original.opaque,
            quarantined=original.quarantined,
            generation=original.generation,
        )

    def stretches(self, original: NativeFile, progress: CopyProgress) -> tuple[int, Iterator[Stretch]]:
        """The part of a native file that the server does not have, and the byte at which it begins."""
        is_same = progress.generation == original.generation
        if not _is_lines(original):
            return 0, iter(() if is_same and progress.upto == original.stored_bytes else self._whole(original))
        start = progress.settled if is_same else 0
        data = load_bytes(self._context.store, original, first=start)
        data = data[: _whole_lines(data)]
        if is_same and progress.upto == start + len(data):
            return start, iter(())
        return start, self._lines(data, start)

    def _whole(self, original: NativeFile) -> Iterator[Stretch]:
        yield Stretch(data=self._bytes(load_bytes(self._context.store, original)), upto=original.stored_bytes)

    def _lines(self, data: bytes, start: int) -> Iterator[Stretch]:
        begin = 0
        while begin < len(data):
            end = data.find(b"\n", begin + STRETCH_BYTES - 1) + 1
            settled = bool(end)
            end = end or len(data)
            yield Stretch(data=self._bytes(data[begin:end]), upto=start + end, settled=settled)
            begin = end


def _is_lines(original: NativeFile) -> bool:
    """Whether the format of a file is line-based, so that it only grows."""
    try:
        formats = runtime(original.runtime).formats
    except ClewError:
        return False  # The adapter is no longer installed.
    return any(format.name == original.format and format.split is None and format.rows is None for format in formats)


def _whole_lines(data: bytes) -> int:
    """The length of the complete lines; a last line without its end counts when it is valid JSON."""
    end = data.rfind(b"\n") + 1
    try:
        msgspec.json.decode(data[end:], type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return end
    return len(data)
