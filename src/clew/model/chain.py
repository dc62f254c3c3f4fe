"""The digest chain of a session: each event commits to all before it.

    digest = SHA-256("clew event 1" ‖ previous digest ‖ header hash ‖ body hash)

The body enters as its hash, so a pruned or erased body leaves a chain that still verifies: the two hashes are then kept
in place of what they stand for (the *seal*). A fork continues its parent's chain, so the first previous digest of a
child is the digest of the event it was forked at.
"""

from hashlib import sha256

import msgspec

GENESIS = bytes(32)
_DOMAIN = b"clew event 1"
_encode = msgspec.json.Encoder().encode


def body_hash(text: bytes) -> bytes:
    return sha256(text).digest()


def header_hash(
    session: str, seq: int, kind: str, version: int, at: int, said_at: int | None, actor: str, source: str | None
) -> bytes:
    """The hash of everything about an event that is not its body, as one unambiguous JSON array."""
    return sha256(_encode((session, seq, kind, version, at, said_at, actor, source))).digest()


def link(previous: bytes, header: bytes, body: bytes) -> bytes:
    """The digest of an event from the one before it."""
    return sha256(_DOMAIN + previous + header + body).digest()
