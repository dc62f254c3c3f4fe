"""A cache of masked texts by the digest of the text: what is read again is not masked again. It holds no secret."""

from collections import OrderedDict
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from clew.secrets.masking import Mark

# A shorter text is masked faster than found.
SHORTEST = 256
MOST_BYTES = 16 * 1024 * 1024
# What an entry takes beside its text.
ENTRY_BYTES = 200


class Masked(NamedTuple):
    """A masked text; None if it had no secret."""

    text: bytes | None
    marks: "tuple[Mark, ...]"


class MaskCache:
    """The texts that one masker masked last. Its rules and its key never change, so neither do the entries."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._entries = OrderedDict[bytes, Masked]()
        self._lock = Lock()

    def find(self, digest: bytes) -> Masked | None:
        with self._lock:
            entry = self._entries.get(digest)
            if entry is not None:
                self._entries.move_to_end(digest)
            return entry

    def keep(self, digest: bytes, masked: Masked) -> None:
        size = _size(masked)
        if size > self._most // 8:
            return
        with self._lock:
            if digest in self._entries:
                return
            self._entries[digest] = masked
            self._bytes += size
            while self._bytes > self._most:
                self._bytes -= _size(self._entries.popitem(last=False)[1])


def digest_of(text: bytes) -> bytes:
    return blake2b(text, digest_size=20).digest()


def _size(masked: Masked) -> int:
    return ENTRY_BYTES * (1 + len(masked.marks)) + len(masked.text or b"")
