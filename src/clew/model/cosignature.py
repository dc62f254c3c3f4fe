"""The signature of a witness under a checkpoint, in the form of c2sp.org/tlog-cosignature.

A witness signs the time together with the text, so its signature is the time (eight bytes) and then the signature:

    cosignature/v1
    time 1794847938
    clew/7b6ehrc1vd0z9k2m4x8q      from here on the text of the checkpoint
    412
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
"""

import struct

from clew.model.checkpoint import PublicKey, Signature
from clew.model.errors import InvalidInput

_TIMED = struct.Struct(">Q64s")
# Until the year 9999.
_LATEST = 253_402_300_799


def cosigned_text(text: str, seconds: int) -> bytes:
    """What a witness signs: that it saw this checkpoint at this time."""
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def timed(key: PublicKey, seconds: int, signature: bytes) -> Signature:
    """The line of a witness under a checkpoint."""
    return Signature(key.name, key.id, _TIMED.pack(seconds, signature))


def time_and_signature(line: Signature) -> tuple[int, bytes]:
    """When a witness signed, and what it signed with."""
    if len(line.signature) != _TIMED.size:
        raise InvalidInput(f"the signature of the witness {line.name} has {len(line.signature)} bytes; expected 72")
    seconds, signature = _TIMED.unpack(line.signature)
    if seconds > _LATEST:
        raise InvalidInput(f"the signature of the witness {line.name} has a time that no clock shows")
    return seconds, signature
