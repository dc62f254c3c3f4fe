"""Folders that survive a power loss, and that only their user can read.

A name is durable once the folder that contains it was synced.
"""

import os
from pathlib import Path


def make_private(path: Path) -> None:
    """Make the folder and its missing parents, for this user only, each durable in its parent."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        sync(folder.parent)


def create_private(path: str, flags: int) -> int:
    """An `opener` for `open`: only this user may read the file that it makes, for any umask."""
    return os.open(path, flags, 0o600)


def sync(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
