"""Responses compressed with zstd or gzip, when that saves something and the client accepts it.

Starlette's middleware knows gzip alone.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import zstandard

from clew.server.http.answer_text import AnswerText, NeedsNoMasking, unmasked
from clew.server.http.problems import Headers

SMALLEST_BYTES = 1024
# Makes zlib write the header and the trailer of a gzip file.
GZIP = 31


def compressed(body: AnswerText, accepted: bytes) -> tuple[AnswerText, Headers]:
    """The body, compressed if the client accepts it, and the headers that say how."""
    if len(body) < SMALLEST_BYTES:
        return body, []
    encodings = _encodings(accepted)
    if "zstd" in encodings:
        packed = zstandard.ZstdCompressor(level=3).compress(body)
        return unmasked(packed, NeedsNoMasking.MASKED_BEFORE), _headers(b"zstd")
    if "gzip" in encodings or "*" in encodings:
        packed = gzip.compress(body, compresslevel=5, mtime=0)
        return unmasked(packed, NeedsNoMasking.MASKED_BEFORE), _headers(b"gzip")
    return body, [(b"vary", b"accept-encoding")]


def compressed_pieces(pieces: Iterable[AnswerText], accepted: bytes) -> tuple[Iterator[AnswerText], Headers]:
    """The pieces of a body that is not known as a whole, and the headers."""
    encodings = _encodings(accepted)
    if "zstd" in encodings:
        return _packed(pieces, zstandard.ZstdCompressor(level=3).compressobj()), _headers(b"zstd")
    if "gzip" in encodings or "*" in encodings:
        return _packed(pieces, zlib.compressobj(5, zlib.DEFLATED, GZIP)), _headers(b"gzip")
    return iter(pieces), [(b"vary", b"accept-encoding")]


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


def _packed(pieces: Iterable[AnswerText], packer: _Packer) -> Iterator[AnswerText]:
    for piece in pieces:
        if packed := packer.compress(piece):
            yield unmasked(packed, NeedsNoMasking.MASKED_BEFORE)
    yield unmasked(packer.flush(), NeedsNoMasking.MASKED_BEFORE)


def _headers(name: bytes) -> Headers:
    return [(b"content-encoding", name), (b"vary", b"accept-encoding")]


def _encodings(accepted: bytes) -> set[str]:
    """The encodings in an `Accept-Encoding` header whose weight is not zero."""
    encodings = set()
    for item in accepted.decode("latin-1").lower().split(","):
        name, _, weight = item.partition(";")
        if weight.replace(" ", "").removeprefix("q=").strip("0.") or "q=" not in weight:
            encodings.add(name.strip())
    return encodings
