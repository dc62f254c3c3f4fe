"""Claims: objects whose bytes somebody has sent for a session, before an event names them.

A digest alone gives no access, so whoever names an object has to have sent it, or to read it already. A claim is an
object that names what was sent; it keeps that for an hour after the last arrival. Only the rows say what it names, so
nobody makes a claim by writing its bytes. Many small claims are used, so that none is long to add or to remove.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from clew.store.objects import objects
from clew.store.objects.collection import forget
from clew.store.objects.pack import address, compress

if TYPE_CHECKING:
    from clew.store.store import Store

SHARDS = 64


def add(store: "Store", who: str, session: str, digests: Iterable[bytes]) -> None:
    """Claim objects that the store has; `NotFound` if a collector was faster."""
    for shard, group in _by_shard(digests).items():
        text = _text(who, session, shard)
        claim = address(text)
        with store.database.write() as tx:
            for digest in sorted({claim, *group}):
                tx.run("object_lock", digest=digest)
            tx.run(
                "object_add", digest=claim, size=len(text), refs=0, waits=1, data=compress(text), pack=None, start=None,
                length=None,
            )  # fmt: skip
            for digest in group:
                if tx.run("manifest_add", digest=claim, names=digest):
                    objects.name_in(tx, digest, 1)


def claimed(store: "Store", who: str, session: str, digests: Iterable[bytes]) -> set[bytes]:
    """Those of these objects that are claimed."""
    known: set[bytes] = set()
    with store.unrestricted.database.read() as tx:
        for shard, group in _by_shard(digests).items():
            names = msgspec.json.encode([digest.hex() for digest in group]).decode()
            rows = tx.run("manifest_has", digest=address(_text(who, session, shard)), names=names)
            known |= {bytes(digest) for (digest,) in rows}
    return known


def drop(store: "Store", who: str, session: str) -> None:
    """Remove the claims of somebody on what was sent for a session: an event names it by now."""
    claims = [address(_text(who, session, shard)) for shard in range(SHARDS)]
    asked = msgspec.json.encode([claim.hex() for claim in claims]).decode()
    with store.unrestricted.database.read() as tx:
        found = [bytes(digest) for (digest,) in tx.run("objects_known", names=asked)]
    for claim in found:
        forget(store, [claim], grace_us=0)


def _by_shard(digests: Iterable[bytes]) -> dict[int, list[bytes]]:
    shards: dict[int, list[bytes]] = {}
    for digest in sorted({*digests}):
        shards.setdefault(digest[0] % SHARDS, []).append(digest)
    return shards


def _text(who: str, session: str, shard: int) -> bytes:
    return b"\n".join([b"clew claim", who.encode(), session.encode(), str(shard).encode()])
