"""Objects: bytes named by their digest, saved, loaded and collected. Events name them and are counted as they do."""

from typing import TYPE_CHECKING

from clew.model.errors import NotFound
from clew.store.database.contract import Blobs, Transaction
from clew.store.objects import blobs

if TYPE_CHECKING:
    from clew.store.store import Store

# A new object is kept this long without an event that names it.
GRACE_US = 3_600_000_000


def save(store: "Store", data: bytes) -> str:
    """Store bytes once and return their digest. They are collected unless an event names them within the grace."""
    digest, packed = blobs.address(data), blobs.pack(data)
    store.blobs.make_durable(digest, packed)
    with store.database.write() as tx:
        tx.run("blob_add", digest=digest, size=len(data), refs=0, data=store.blobs.row_data(packed))
        store.blobs.rewrite_if_collected(digest, packed)
    return digest.hex()


def load(store: "Store", digest: str) -> bytes:
    """Load the bytes with this digest and check them."""
    with store.database.read() as tx:
        return load_in(tx, store.blobs, digest_of(digest))


def load_in(tx: Transaction, place: Blobs, digest: bytes) -> bytes:
    """Load the bytes with this digest inside a transaction and check them."""
    rows = tx.run("blob_read", digest=digest)
    if not rows:
        raise NotFound(f"no blob {digest.hex()} in this store")
    return blobs.unpack(digest, place.fetch(digest, rows[0]))


def collect(store: "Store", *, grace_us: int = GRACE_US) -> tuple[int, int]:
    """Delete the objects that nothing names, once they are older than the grace; return how many and their bytes."""
    with store.database.write() as tx:
        rows = tx.run("blob_collect", grace=grace_us)
        store.blobs.remove(bytes(digest) for digest, _ in rows)
        named = {bytes(digest) for (digest,) in tx.run("blob_digests")}
        swept = store.blobs.sweep(named, grace_us)
    return len(rows) + swept, sum(size for _, size in rows)


def digest_of(name: str) -> bytes:
    """The digest in the name of an object, as bytes."""
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise NotFound(f"{name[:80]!r} is not a blob digest of 64 hexadecimal digits")
    return digest
