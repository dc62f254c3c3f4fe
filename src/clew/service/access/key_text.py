"""API keys as text: `clew_<kind>_<id>_<secret>_<checksum>`. One double click selects it, scanners find it, a typo is
seen without asking anybody."""

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
KINDS = ("person", "agent", "service", "link")


class Token(NamedTuple):
    """A key as it was shown once. Its text never goes into a log, an error or a list."""

    kind: str
    id: str
    secret: str

    @property
    def text(self) -> str:
        body = f"clew_{self.kind}_{self.id}_{self.secret}"
        return f"{body}_{_checksum(body)}"

    @property
    def hash(self) -> bytes:
        """What is kept of it. The secret is random and long, so a plain hash cannot be turned back."""
        return hashlib.sha256(self.secret.encode()).digest()

    def fits(self, hash: bytes) -> bool:
        return hmac.compare_digest(self.hash, hash)

    def __repr__(self) -> str:
        return f"<token {self.kind} {self.id}>"


def new_token(kind: str) -> Token:
    return Token(kind, _random(ID_LENGTH), _random(SECRET_LENGTH))


def parse_token(text: str) -> Token:
    """The token of a text; refused without saying more than that when it is none."""
    parts = text.split("_")
    if len(parts) == 5 and parts[0] == "clew" and parts[1] in KINDS and text.isascii():
        _, kind, id, secret, checksum = parts
        well_formed = len(id) == ID_LENGTH and len(secret) == SECRET_LENGTH
        if well_formed and hmac.compare_digest(checksum, _checksum(text.rpartition("_")[0])):
            return Token(kind, id, secret)
    raise Unauthenticated("that is no API key of clew, or one with a typo; copy it again, or ask for a new one")


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
