"""The body of a request: read whole and decompressed, within limits of size and time."""

import asyncio
import zlib
from collections.abc import Mapping

import zstandard
from starlette.types import Receive

from clew.model.errors import InvalidInput, TooLarge
from clew.server.http.problems import Refused

CLOSE = [(b"connection", b"close")]
# The memory that decompressing a body may take.
LARGEST_WINDOW = 2**27


class Gone(Exception):
    """The client disconnected before it had sent the whole body."""


async def read(receive: Receive, headers: Mapping[bytes, bytes], *, most: int, seconds: float) -> bytes:
    """The body, decompressed."""
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > most:
        raise _too_large(most)
    try:
        # Mostly the first chunk is all of it. The server closes a connection that sends no body at all.
        body, is_all = await next_chunk(receive)
        if not is_all:
            async with asyncio.timeout(seconds):
                body = await _received(receive, body, most)
    except TimeoutError:
        raise Refused(408, "invalid_input", f"the body did not arrive within {seconds:g} s", CLOSE) from None
    if len(body) > most:
        raise _too_large(most)
    encoding = headers.get(b"content-encoding", b"").strip().lower()
    return decompressed(body, encoding, most=most) if encoding not in (b"", b"identity") else body


async def next_chunk(receive: Receive) -> tuple[bytes, bool]:
    """The next piece of a body, and whether it is the last."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    return message.get("body", b""), not message.get("more_body", False)


async def _received(receive: Receive, first: bytes, most: int) -> bytes:
    chunks = [first]
    size, is_all = len(first), False
    while not is_all:
        chunk, is_all = await next_chunk(receive)
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
    return b"".join(chunks)


def decompressed(body: bytes, encoding: bytes, *, most: int) -> bytes:
    """The body that was compressed; decompressing stops where it grows beyond `most` bytes."""
    try:
        if encoding == b"gzip":
            decompressor = zlib.decompressobj(wbits=31)
            content = decompressor.decompress(body, most + 1)
            if len(content) <= most and not decompressor.eof:
                raise InvalidInput("the body ends before its gzip stream does")
        elif encoding == b"zstd":
            with zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).stream_reader(body) as reader:
                content = reader.read(most + 1)
        else:
            name = encoding[:40].decode("latin-1")
            raise Refused(415, "invalid_input", f"a body may be compressed with gzip or zstd, not {name!r}")
    except (zlib.error, zstandard.ZstdError):
        raise InvalidInput(f"the body cannot be decompressed; it is not {encoding.decode()}") from None
    if len(content) > most:
        raise _too_large(most)
    return content


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body is larger than {most:,} bytes; send it in parts", limit=most)
