"""Bodies of requests: read whole, within a size and a time, packed or not."""

import asyncio
import zlib
from collections.abc import Mapping

import zstandard
from starlette.types import Receive

from clew.model.errors import InvalidInput, TooLarge
from clew.server.http.problems import Refused

CLOSE = [(b"connection", b"close")]
# What a packed body may make the unpacker hold in memory.
LARGEST_WINDOW = 2**27


class Gone(Exception):
    """The client went away while it was talking."""


async def read(receive: Receive, headers: Mapping[bytes, bytes], *, most: int, seconds: float) -> bytes:
    """The body as it was before it was packed."""
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > most:
        raise _too_large(most)
    try:
        body, is_all = await _chunk(receive)  # Mostly all of it; a connection that sends none is closed elsewhere.
        if not is_all:
            async with asyncio.timeout(seconds):
                body = await _received(receive, body, most)
    except TimeoutError:
        raise Refused(408, "invalid_input", f"the body did not arrive within {seconds:g} s", CLOSE) from None
    if len(body) > most:
        raise _too_large(most)
    packing = headers.get(b"content-encoding", b"").strip().lower()
    return unpacked(body, packing, most=most) if packing not in (b"", b"identity") else body


async def _chunk(receive: Receive) -> tuple[bytes, bool]:
    """The next piece of a body, and whether it is the last."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    return message.get("body", b""), not message.get("more_body", False)


async def _received(receive: Receive, first: bytes, most: int) -> bytes:
    chunks = [first]
    size, is_all = len(first), False
    while not is_all:
        chunk, is_all = await _chunk(receive)
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
    return b"".join(chunks)


def unpacked(body: bytes, packing: bytes, *, most: int) -> bytes:
    """What was packed, never more than the limit of it."""
    try:
        if packing == b"gzip":
            unpacker = zlib.decompressobj(wbits=31)
            found = unpacker.decompress(body, most + 1)
            if len(found) <= most and not unpacker.eof:
                raise InvalidInput("the body ends in the middle of what was packed with gzip")
        elif packing == b"zstd":
            with zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).stream_reader(body) as reader:
                found = reader.read(most + 1)
        else:
            name = packing[:40].decode("latin-1")
            raise Refused(415, "invalid_input", f"a body may be packed with gzip or zstd, not {name!r}")
    except (zlib.error, zstandard.ZstdError):
        raise InvalidInput(f"the body cannot be unpacked; it is not {packing.decode()}") from None
    if len(found) > most:
        raise _too_large(most)
    return found


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body is larger than {most:,} bytes; send it in parts", limit=most)
