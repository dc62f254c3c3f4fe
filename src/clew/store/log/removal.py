"""Removing the bodies of stored events, so that the chain still verifies.

A removed body leaves its row and a seal: the two hashes that the event's digest was made of (model/chain.py).
"""

from clew.model import chain
from clew.model.errors import Damaged, NotFound
from clew.model.events import blobs_of
from clew.model.session import Session
from clew.store.database.contract import Row, Transaction
from clew.store.log.log import EVERYTHING, Store


def rows_of(tx: Transaction, session: Session) -> list[Row]:
    """Every event that a session itself wrote."""
    return tx.run(
        "events", project=session.project_key, session=session.key, first=1, last=EVERYTHING, limit=EVERYTHING
    )


def remove_bodies(store: Store, tx: Transaction, session: Session, rows: list[Row], statement: str) -> int:
    """Replace the bodies by seals and drop the references to their blobs; returns how many blobs were named."""
    references: dict[bytes, int] = {}
    statements = []
    for row in rows:
        seal = row[11]
        if seal is None:
            seal = _seal(store, tx, session, row)
            for digest in _blobs(store, tx, session, row):
                references[digest] = references.get(digest, 0) + 1
        statements.append(
            (statement, {"project": session.project_key, "session": session.key, "seq": row[0], "seal": bytes(seal)})
        )
    tx.batch(statements)
    for digest in sorted(references):
        tx.run("blob_ref", digest=digest, refs=-references[digest])
    return len(references)


def _seal(store: Store, tx: Transaction, session: Session, row: Row) -> bytes:
    seq, _, at, said_at, actor, source, _, kind, version, body, digest, _ = row
    try:
        text = body.encode() if body is not None else store.blob_in(tx, bytes(digest))
        hashed = chain.body_hash(text)
    except (NotFound, Damaged):
        hashed = bytes(32)  # The bytes are lost already; that must not keep the rest from being forgotten.
    return chain.header_hash(session.id, seq, kind, version, at, said_at, actor, source) + hashed


def _blobs(store: Store, tx: Transaction, session: Session, row: Row) -> list[bytes]:
    own = [bytes(row[10])] if row[10] is not None else []
    try:
        [event] = store.events_in(tx, session.project_key, session.key, session.id, [row])
    except Damaged:
        return own
    return own + [bytes.fromhex(name) for name in blobs_of(event.body)]
