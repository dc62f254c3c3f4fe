"""Checkpoints: what the tree commits to, and the text that is signed, in the forms of C2SP.

A leaf of the tree is a statement that never changes: a session's head, or that a checkpoint was made. The last leaf of
a checkpoint states the checkpoint itself, so the tree also commits to the list of checkpoints and to the position that
each covers. The text of a checkpoint is a signed note (c2sp.org/signed-note) whose body is the head of the tree
(c2sp.org/tlog-checkpoint), so other programs can read it:

    clew/7b6ehrc1vd0z9k2m4x8q      the origin: which log
    412                            how many leaves
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

    — clew/7b6ehrc1vd0z9k2m4x8q Az3grl...

Signing and verifying need a library and live in service/audit/signing.py.
"""

from base64 import b64decode, b64encode
from binascii import Error
from hashlib import sha256

import msgspec

from clew.model.errors import InvalidInput

# The kinds of keys: of one that signs notes, and of a witness that countersigns them.
ED25519, COSIGNATURE = b"\1", b"\4"
LONGEST = 64 * 1024
_DASH = "— "
_encode = msgspec.json.Encoder().encode


# Leaves ---------------------------------------------------------------------------------------------------------------


class HeadLeaf(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="head", forbid_unknown_fields=True):
    """A session's head had this seq and this digest. The leaf also states what never changes about a session."""

    session: str
    project: str
    opened_at: int
    control: bool
    seq: int
    digest: str


class CheckpointLeaf(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="checkpoint", forbid_unknown_fields=True
):
    """A checkpoint was made, the number-th, and every event up to this position is in the tree."""

    number: int
    position: int
    at: int


Leaf = HeadLeaf | CheckpointLeaf
_leaf: msgspec.json.Decoder[Leaf] = msgspec.json.Decoder(Leaf)


def statement(leaf: Leaf) -> str:
    """The text of a leaf, which is what its hash is made of."""
    return _encode(leaf).decode()


def leaf_from(text: str) -> Leaf:
    try:
        return _leaf.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"this is not a valid leaf of an audit tree: {error}") from error


# Notes ----------------------------------------------------------------------------------------------------------------


class Signature(msgspec.Struct, frozen=True):
    """A signature of a note: the name and the short id of the key, and the signature itself."""

    name: str
    key: bytes
    signature: bytes


class Note(msgspec.Struct, frozen=True):
    """A text and its signatures. Verify a signature before you trust any of it."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        lines = (f"{_DASH}{by.name} {b64encode(by.key + by.signature).decode()}\n" for by in self.signatures)
        return f"{self.text}\n{''.join(lines)}"


def note_from(written: str) -> Note:
    """Parse a note, or refuse it: each note has exactly one valid form."""
    if len(written) > LONGEST:
        raise InvalidInput(f"a signed note of {len(written):,} characters is too long; the limit is {LONGEST:,}")
    if any(char < " " and char != "\n" for char in written):
        raise InvalidInput("a signed note has no control characters but line feeds")
    text, gap, lines = written.rpartition("\n\n")
    if not text or not gap or not lines.endswith("\n"):
        raise InvalidInput("a signed note is a text, an empty line and lines of signatures, each ended by a line feed")
    return Note(text + "\n", tuple(_signature(line) for line in lines[:-1].split("\n")))


def _signature(line: str) -> Signature:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not is_key_name(name):
        raise InvalidInput(f"{line[:80]!r} is not a valid signature line; expected '— NAME BASE64'")
    data = _decoded(encoded, "a signature")
    if len(data) < 5:
        raise InvalidInput("a signature is four bytes that name the key and then the signature itself")
    return Signature(name, data[:4], data[4:])


# Checkpoints ----------------------------------------------------------------------------------------------------------


class Checkpoint(msgspec.Struct, frozen=True):
    """The head of a tree: which log, how many leaves, and the root."""

    origin: str
    size: int
    root: bytes

    def __str__(self) -> str:
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"


def checkpoint_from(text: str) -> Checkpoint:
    """Parse the head of a tree from the text of a note; later lines, which others may add, are ignored."""
    lines = text.split("\n")
    if len(lines) < 4 or lines.pop() or not all(lines):
        raise InvalidInput("a checkpoint has at least three lines, none of them empty: origin, size and root")
    origin, size, root, *_ = lines
    if not (size.isascii() and size.isdigit()) or len(size) > 18 or str(int(size)) != size:
        raise InvalidInput(f"{size[:40]!r} is not a valid tree size; expected a number without leading zeros")
    data = _decoded(root, "the root")
    if len(data) != 32:
        raise InvalidInput(f"the root of a checkpoint has 32 bytes, and this has {len(data)}")
    return Checkpoint(origin, int(size), data)


# Keys -----------------------------------------------------------------------------------------------------------------


class PublicKey(msgspec.Struct, frozen=True):
    """An Ed25519 key that signs notes: its name and its 32 bytes. As text it is what C2SP calls a vkey."""

    name: str
    data: bytes
    kind: bytes = ED25519

    @property
    def id(self) -> bytes:
        """The four bytes that name this key in a signature."""
        return sha256(self.name.encode() + b"\n" + self.kind + self.data).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{b64encode(self.kind + self.data).decode()}"


def public_key(text: str, kind: bytes = ED25519) -> PublicKey:
    """Parse a public key in C2SP's vkey form: NAME+ID+BASE64."""
    name, id, data = key_parts(text.strip(), "public key", kind)
    key = PublicKey(name, data, kind)
    if key.id.hex() != id:
        raise InvalidInput(f"the public key of {name} is damaged: its id should be {key.id.hex()} and is {id[:20]!r}")
    return key


def key_parts(text: str, what: str, kind: bytes) -> tuple[str, str, bytes]:
    """The name, the id and the bytes of a key. Errors do not repeat the text: it may be a secret."""
    name, _, rest = text.partition("+")
    id, _, encoded = rest.partition("+")
    try:
        data = b64decode(encoded, validate=True)
    except (Error, ValueError):
        data = b""
    if not is_key_name(name) or data[:1] not in (ED25519, COSIGNATURE) or len(data) != 33:
        raise InvalidInput(f"this is not a valid {what} of Ed25519; expected NAME+ID+BASE64")
    if data[:1] != kind:
        raise InvalidInput(f"this is the {what} of {_SIGNER[data[:1]]}; expected that of {_SIGNER[kind]}")
    return name, id, data[1:]


_SIGNER = {ED25519: "a log, which signs checkpoints", COSIGNATURE: "a witness, which countersigns checkpoints"}


def is_key_name(text: str) -> bool:
    return bool(text) and "+" not in text and not any(char.isspace() or char < " " for char in text)


def _decoded(text: str, what: str) -> bytes:
    """Decode base64; only the canonical form is valid."""
    try:
        data = b64decode(text, validate=True)
    except (Error, ValueError) as error:
        raise InvalidInput(f"{what} is not base64: {error}") from error
    if b64encode(data).decode() != text:
        raise InvalidInput(f"{what} is base64 with stray bits at its end")
    return data
