"""Removing the bodies of stored events, so that the chain still verifies.

A removed body leaves its row and a seal: the two hashes that the event's digest was made of (model/chain.py).
"""

from clew.model import chain
from clew.model.errors import Damaged, NotFound
from clew.model.object_names import objects_of
from clew.model.session import Session
from clew.store.database.contract import Transaction
from clew.store.log.decoding import decoder_of
from clew.store.log.rows import EVERYTHING, EventRow
from clew.store.objects import objects
from clew.store.store import Store


def rows_of(tx: Transaction, session: Session) -> list[EventRow]:
    """Every event that a session itself wrote."""
    rows = tx.run(
        "events", project=session.project_key, session=session.key, first=1, last=EVERYTHING, limit=EVERYTHING
    )
    return [EventRow(*row) for row in rows]


def remove_bodies(store: Store, tx: Transaction, session: Session, rows: list[EventRow], statement: str) -> int:
    """Replace the bodies by seals and drop the references to their blobs; returns how many blobs were named."""
    references: dict[bytes, int] = {}
    statements = []
    for row in rows:
        seal = row.seal
        if seal is None:
            seal = _seal(store, tx, session, row)
            for digest in _blobs(store, session, row):
                references[digest] = references.get(digest, 0) + 1
        statements.append(
            (statement, {"project": session.project_key, "session": session.key, "seq": row.seq, "seal": bytes(seal)})
        )
    tx.batch(statements)
    for digest in sorted(references):
        tx.run("object_ref", digest=digest, refs=-references[digest])
    return len(references)


def _seal(store: Store, tx: Transaction, session: Session, row: EventRow) -> bytes:
    try:
        inline = row.body.encode() if row.body is not None else None
        hashed = chain.body_hash(inline or objects.load_in(tx, store.pack_stores, bytes(row.blob or b"")))
    except (NotFound, Damaged):
        hashed = bytes(32)  # The bytes are lost already; that must not keep the rest from being forgotten.
    header = chain.header_hash(session.id, row.seq, row.kind, row.version, row.at, row.said_at, row.actor, row.source)
    return header + hashed


def _blobs(store: Store, session: Session, row: EventRow) -> list[bytes]:
    own = [bytes(row.blob)] if row.blob is not None else []
    try:
        event = decoder_of(store, project=session.project_key, key=session.key, session=session.id).event(row)
    except Damaged:
        return own
    return own + [bytes.fromhex(name) for name in objects_of(event.body)]
