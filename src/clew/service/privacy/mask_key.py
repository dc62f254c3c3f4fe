"""The key of the marks: created once in the store's home, readable only by its owner."""

import contextlib
import os
from pathlib import Path

from clew.model.errors import InvalidInput, Unavailable
from clew.store.durable_folders import make_private

KEY = "mask.key"
KEY_BYTES = 32


def mask_key(home: Path) -> bytes:
    """The key in a home, created on first use."""
    path = home / KEY
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise Unavailable(
            f"the key that secrets are masked with cannot be read from {path}: {error.strerror}"
        ) from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            f"{path} has {len(key)} bytes, and a key has {KEY_BYTES}; restore it, or delete it: a new one is made, and "
            "secrets masked from then on have other marks"
        )
    return key


def _make(path: Path) -> None:
    make_private(path.parent)
    draft = path.with_name(f"{KEY}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # When several processes start at once, the first to link its key wins, and all use that key.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
