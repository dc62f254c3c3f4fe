"""Requests as bytes, so that one can also be wrong, and whatever comes back for them."""

import base64
import json
import re
import socket
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlencode

import zstandard

from attack.world import Headers

SECONDS = 20.0
_CHUNK = re.compile(rb"\r\n[0-9a-f]{1,8}\r\n")
_PACKED = re.compile(rb'"packed":"([0-9a-f]+)"')
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{40,}={0,2}")


class Answer(NamedTuple):
    status: int
    text: bytes
    """All that came over the connection."""

    @property
    def is_done(self) -> bool:
        return 200 <= self.status < 300

    def words(self) -> bytes:
        """What came, and what it holds in other forms: unescaped, unpacked, decoded."""
        plain = _CHUNK.sub(b"", self.text)
        decoded = b"".join(_decoded(run) for run in _BASE64.findall(plain))
        unpacked = b"".join(zstandard.decompress(bytes.fromhex(run.decode())) for run in _PACKED.findall(plain))
        return plain + b"\n" + plain.replace(b"\\", b"") + b"\n" + decoded + b"\n" + unpacked.replace(b"\0", b"")


def _decoded(run: bytes) -> bytes:
    try:
        return base64.b64decode(run + b"=" * (-len(run) % 4)).replace(b"\0", b"")
    except ValueError:
        return b""


def request(
    method: str,
    target: str,
    headers: Headers = (),
    body: bytes = b"",
    *,
    host: str = "{host}",
    media_type: str = "application/json",
    stays: bool = False,
) -> bytes:
    """A request; `{host}` is filled in when it is sent."""
    lines = [f"{method} {target} HTTP/1.1"]
    if host:
        lines.append(f"Host: {host}")
    lines += [f"{name}: {value}" for name, value in headers]
    if body:
        lines += [f"Content-Type: {media_type}", f"Content-Length: {len(body)}"]
    if not stays:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def json_body(value: object) -> bytes:
    return json.dumps(value).encode()  # The only one of the two that also encodes what is not Unicode.


def query(target: str, arguments: Iterable[tuple[str, object]]) -> str:
    pairs = [(name, value if isinstance(value, str) else json.dumps(value))
             for name, value in arguments]  # fmt: skip
    return f"{target}?{urlencode(pairs, errors='surrogatepass')}" if pairs else target


def send(port: int, raw: bytes, *, until: bytes = b"", seconds: float = SECONDS) -> Answer:
    """Send bytes, and read until the server closes the connection or says `until`."""
    raw = raw.replace(b"{host}", f"127.0.0.1:{port}".encode())
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            connection.sendall(raw)
            while chunk := connection.recv(1 << 16):
                found += chunk
                if until and until in found:
                    break
        except (ConnectionError, TimeoutError):
            pass  # What came until then is the answer.
    return Answer(status_of(found), found)


def status_of(text: bytes) -> int:
    words = text[:40].split(b" ", 2)
    return int(words[1]) if len(words) == 3 and words[1].isdigit() else 0
