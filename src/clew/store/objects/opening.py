"""Open the pack store that a setting names: a folder, or a bucket of S3-compatible storage.

Stores may share it: each has a folder or a prefix there, named by the store's id, so that no collector takes the packs
of another store for abandoned ones.
"""

from pathlib import Path

from clew.model.errors import InvalidInput
from clew.store.objects.folder import Folder
from clew.store.objects.pack_store import PackStore


def open_pack_store(url: str, store_id: str) -> PackStore:
    """The part of a pack store that belongs to this store."""
    if url.startswith("s3://"):
        try:
            from clew.store.objects.s3 import Bucket
        except ModuleNotFoundError as error:
            raise InvalidInput("objects in S3 need obstore: install it with `pip install 'clew[s3]'`") from error
        return Bucket(url, store_id)
    path = Path(url.removeprefix("file://")).expanduser()
    if not path.is_absolute():
        # Not repeated: anything in it could be a password.
        raise InvalidInput("the setting for objects is not valid; use s3://bucket/prefix or the whole path of a folder")
    return Folder(path / store_id, name=f"file://{path}")
