"""The key that signs checkpoints: a file that only its owner can read, in the format of Go's note package.

    PRIVATE+KEY+NAME+ID+BASE64

A person with this file can sign another history. The public half (`clew audit key`) checks signatures and is no secret.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import mkstemp

from clew.model.checkpoint import ED25519, Note, PublicKey, Signature, is_key_name, key_parts, note_from
from clew.model.cosignature import cosigned_text, time_and_signature, timed
from clew.model.errors import Conflict, Damaged, InvalidInput, Unavailable

VARIABLE = "CLEW_AUDIT_KEY"
FILE = "audit.key"
_MARK = "PRIVATE+KEY+"


class SigningKey:
    """An Ed25519 key with a name. Its repr shows the public half."""

    def __init__(self, name: str, seed: bytes, kind: bytes = ED25519) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = PublicKey(name, self._key.public_key().public_bytes_raw(), kind)

    def __repr__(self) -> str:
        return f"<signing key {self.public}>"

    @property
    def origin(self) -> str:
        return self.public.name

    @property
    def key(self) -> str:
        return str(self.public)

    def sign(self, text: str) -> str:
        """The signed note of a text."""
        signature = Signature(self.public.name, self.public.id, self._key.sign(text.encode()))
        return str(Note(text, (signature,)))

    def cosign(self, text: str, *, seconds: int) -> Signature:
        """A witness' signature: that this text was seen at this time, and continues all that was seen before it."""
        return timed(self.public, seconds, self._key.sign(cosigned_text(text, seconds)))

    def written(self) -> str:
        """The private key as text: a secret."""
        from base64 import b64encode

        seed = self._key.private_bytes_raw()
        return f"{_MARK}{self.public.name}+{self.public.id.hex()}+{b64encode(self.public.kind + seed).decode()}"


def new_key(name: str, kind: bytes = ED25519) -> SigningKey:
    if not is_key_name(name):
        raise InvalidInput(f"{name[:80]!r} cannot name a key: it must not be empty nor hold blanks or a plus sign")
    return SigningKey(name, os.urandom(32), kind)


def key_from(text: str, kind: bytes = ED25519) -> SigningKey:
    """Parse the text of a private key."""
    text = text.strip()
    if not text.startswith(_MARK):
        raise InvalidInput("this is not a valid private key for checkpoints: it must begin with PRIVATE+KEY+")
    name, id, seed = key_parts(text.removeprefix(_MARK), "private key", kind)
    key = SigningKey(name, seed, kind)
    if key.public.id.hex() != id:
        raise InvalidInput(f"the private key of {name} is damaged: its id does not match it")
    return key


def key_file(home: str) -> Path:
    """The path of this store's key, which may not exist yet."""
    return Path(os.environ.get(VARIABLE) or Path(home or Path.home() / ".clew") / FILE).expanduser()


def read_key(path: Path, kind: bytes = ED25519) -> SigningKey | None:
    """The key in a file; None when there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            text = file.read(10_000)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"cannot read the key for checkpoints in {path}: {error}; check the file") from error
    if mode & 0o077:
        raise Unavailable(
            f"{path} holds a private key and other users can read it (mode {mode:o}); run `chmod 600 {path}`, and "
            "consider who may have read it"
        )
    try:
        return key_from(text, kind)
    except InvalidInput as error:
        other = ", or begin a new one: clew audit key --new" if kind == ED25519 else ""
        raise Damaged(f"{path}: {error}; restore it from a backup{other}") from error


def known_keys(path: Path) -> list[PublicKey]:
    """The public halves of the key in a file and of the keys that it replaced."""
    files = [path, *sorted(path.parent.glob(f"{path.name}.*"))]
    return [key.public for file in files if (key := read_key(file)) is not None]


def replace_key(path: Path, key: SigningKey) -> None:
    """Replace the key in a file; the old key stays in a file beside it, named after its id."""
    old = read_key(path)
    if old is not None:
        os.rename(path, path.with_name(f"{path.name}.{old.public.id.hex()}"))
    write_key(path, key)


def write_key(path: Path, key: SigningKey) -> None:
    """Write a key to a new file, atomically and durably; an existing file is never overwritten."""
    from clew.store.durable_folders import make_private, sync

    try:
        make_private(path.parent)
        descriptor, draft = mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(key.written() + "\n")
                file.flush()
                os.fsync(descriptor)
            os.link(draft, path)
        finally:
            os.unlink(draft)
        sync(path.parent)
    except FileExistsError:
        raise Conflict(f"{path} exists already and was not changed; try again") from None
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}; name another file with {VARIABLE}") from error


def check_cosignature(note: Note, key: PublicKey) -> int | None:
    """When this witness countersigned a note, in seconds since 1970; None when it did not. A wrong one is an error."""
    for signature in note.signatures:
        if (signature.name, signature.key) == (key.name, key.id):
            at, bare = time_and_signature(signature)
            if not is_good(key, cosigned_text(note.text, at), bare):
                raise InvalidInput(
                    f"the signature of the witness {key.name} is wrong: it was changed or is not its own"
                )
            return at
    return None


def check(written: str, keys: Iterable[PublicKey]) -> Note:
    """Parse a note that one of these keys signed. A wrong signature by any of them is an error."""
    note = note_from(written)
    trusted = {(key.name, key.id): key for key in keys}
    good = [
        is_good(trusted[signature.name, signature.key], note.text.encode(), signature.signature)
        for signature in note.signatures
        if (signature.name, signature.key) in trusted
    ]
    if not all(good):
        raise InvalidInput("its signature is wrong: the text was changed after it was signed")
    if not good:
        signers = ", ".join(f"{signature.name}+{signature.key.hex()}" for signature in note.signatures)
        raise InvalidInput(f"it is signed by {signers}, which is not one of the given keys")
    return note


def is_good(key: PublicKey, text: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key.data).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def need_cryptography() -> None:
    """Fail before any work is done when the package cryptography is missing."""
    import importlib.util

    if importlib.util.find_spec("cryptography") is None:
        raise InvalidInput("signatures need the package cryptography: install it with `pip install 'clew[server]'`")
