"""API keys as text: `clew_<kind>_<id>_<secret>_<checksum>`.

A double click selects all of it, secret scanners find it, and its checksum shows a typo without a look into the store.
"""

import hashlib
import hmac
import secrets
import zlib
from typing import NamedTuple

from clew.model.errors import Unauthenticated

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 12
# 43 of 62 characters are a little more than 32 bytes.
SECRET_LENGTH = 43
KINDS = ("person", "agent", "service", "link", "browser")


class Token(NamedTuple):
    """A key in parts. Its text is shown once, and never goes into a log, an error or a list."""

    kind: str
    id: str
    secret: str

    @property
    def text(self) -> str:
        body = f"clew_{self.kind}_{self.id}_{self.secret}"
        return f"{body}_{_checksum(body)}"

    @property
    def hash(self) -> bytes:
        """What the store holds of it. The secret is long and random, so a plain hash cannot be reversed."""
        return hashlib.sha256(self.secret.encode()).digest()

    def matches(self, hash: bytes) -> bool:
        return hmac.compare_digest(self.hash, hash)

    def __repr__(self) -> str:
        return f"<token {self.kind} {self.id}>"


def new_token(kind: str) -> Token:
    return Token(kind, _random(ID_LENGTH), _random(SECRET_LENGTH))


def parse_token(text: str) -> Token:
    """The token in a text. The error does not say what is wrong with it."""
    parts = text.split("_")
    if len(parts) == 5 and parts[0] == "clew" and parts[1] in KINDS and text.isascii():
        _, kind, id, secret, checksum = parts
        well_formed = len(id) == ID_LENGTH and len(secret) == SECRET_LENGTH
        if well_formed and hmac.compare_digest(checksum, _checksum(text.rpartition("_")[0])):
            return Token(kind, id, secret)
    raise Unauthenticated("this is not a valid API key of clew; copy it again, or ask for a new one")


def token_id(text: str) -> str:
    """The id for another program's token, which has none of ours; it reveals nothing of the token."""
    return f"token-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
