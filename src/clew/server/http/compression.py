"""Answers packed with zstd or gzip, when that is worth it and the client can unpack it."""

import gzip

import zstandard

from clew.server.http.problems import Headers

WORTH_BYTES = 1024


def packed(body: bytes, accepted: bytes) -> tuple[bytes, Headers]:
    """The body as it goes out, with the headers that say how."""
    if len(body) < WORTH_BYTES:
        return body, []
    wanted = _wanted(accepted)
    if "zstd" in wanted:
        return zstandard.ZstdCompressor(level=3).compress(body), _headers(b"zstd")
    if "gzip" in wanted or "*" in wanted:
        return gzip.compress(body, compresslevel=5, mtime=0), _headers(b"gzip")
    return body, [(b"vary", b"accept-encoding")]


def _headers(name: bytes) -> Headers:
    return [(b"content-encoding", name), (b"vary", b"accept-encoding")]


def _wanted(accepted: bytes) -> set[str]:
    """The names that are not ruled out by a weight of zero."""
    found = set()
    for one in accepted.decode("latin-1").lower().split(","):
        name, _, weight = one.partition(";")
        if weight.replace(" ", "").removeprefix("q=").strip("0.") or "q=" not in weight:
            found.add(name.strip())
    return found
