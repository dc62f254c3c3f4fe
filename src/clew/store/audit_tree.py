"""The audit tree and its checkpoints as rows: one leaf for each session that got events, then one for the checkpoint.

A checkpoint is made of what the log holds up to a position, so it is read without any lock, and written in one short
transaction that fails if another process was first: the numbers of leaves are a primary key, and a tree cannot fork.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from clew.model import merkle
from clew.model.checkpoint import (
    Checkpoint,
    CheckpointLeaf,
    HeadLeaf,
    Note,
    Signature,
    leaf_from,
    note_from,
    statement,
)
from clew.model.errors import Conflict, Damaged, InvalidInput, NotFound
from clew.store.database.contract import Row, Transaction
from clew.store.log.rows import EVERYTHING, PAGE
from clew.store.store import Store


class Signed(msgspec.Struct, frozen=True):
    """A checkpoint as it is stored, in the order of its row: the note is what was signed."""

    number: int
    size: int
    note: str
    signer: str


class Signer(Protocol):
    """What makes a note of a text."""

    @property
    def origin(self) -> str: ...

    @property
    def key(self) -> str:
        """The public key."""
        ...

    def sign(self, text: str) -> str: ...


class LeafRow(NamedTuple):
    """A leaf as it is stored."""

    number: int
    session: str
    statement: str
    hashes: bytes


class Extent(NamedTuple):
    """How many leaves there are, and how many the newest checkpoint covers: numbers, or None without any.

    A damaged row may hold anything.
    """

    leaves: object
    size: object


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session stood, as a leaf of the tree, and the hashes that lead from it to the root."""

    number: int
    statement: str
    hashes: list[bytes]


def make(
    store: Store, signer: Callable[[Signed | None], Signer], *, even_if_nothing_is_new: bool = False
) -> Signed | None:
    """Make a checkpoint of what is new since the last one; None when nothing is. `signer` tells who may follow it."""
    while True:
        with store.unrestricted.database.read() as tx:
            last = newest_in(tx)
            reached = _leaf_of(tx, last).position if last else 0
            end = int(tx.run("end_position")[0][0])
            heads = tx.run("heads_between", after=reached, upto=end)
            if not heads and not even_if_nothing_is_new:
                return None
            edge = merkle.edge(last.size if last else 0, _nodes(tx))
            at = int(tx.run("now")[0][0])
        number = last.number + 1 if last else 1
        rows = [_leaf(edge, _head(row)) for row in heads]
        rows.append(_leaf(edge, CheckpointLeaf(number=number, position=end, at=at)))
        who = signer(last)
        made = Signed(number, edge.size, who.sign(str(Checkpoint(who.origin, edge.size, edge.root()))), who.key)
        try:
            with store.database.write() as tx:
                tx.many("leaf_add", rows)
                tx.run("checkpoint_add", **msgspec.structs.asdict(made))
            return made
        except Conflict:
            # Another process was first, and what it left out is tried again; if none was, the rows are not ours.
            with store.unrestricted.database.read() as tx:
                if newest_in(tx) == last:
                    raise Damaged(
                        f"the audit tree has leaves beyond its last checkpoint ({last.size if last else 0} leaves), "
                        "which clew never writes",
                        audit_tree=True,
                    ) from None


def _head(row: Row) -> HeadLeaf:
    session, project, opened_at, control, seq, digest = row
    return HeadLeaf(
        session=session, project=project, opened_at=opened_at, control=bool(control), seq=seq, digest=digest.hex()
    )


def _leaf(edge: merkle.Edge, leaf: HeadLeaf | CheckpointLeaf) -> dict[str, object]:
    number, text = edge.size, statement(leaf)
    return {
        "number": number,
        "session": leaf.session if isinstance(leaf, HeadLeaf) else "",
        "statement": text,
        "hashes": edge.add(merkle.leaf_hash(text.encode())),
    }


def add_signature(store: Store, number: int, line: Signature) -> None:
    """Add the signature of a witness under a checkpoint, in place of an older one of the same key."""
    with store.database.write() as tx:
        rows = tx.run("checkpoint_lock", number=number)
        if not rows:
            raise NotFound(f"no checkpoint {number} in this store", checkpoint=number, missing="checkpoint")
        note = note_from(rows[0][0])
        others = (other for other in note.signatures if (other.name, other.key) != (line.name, line.key))
        tx.run("checkpoint_sign", number=number, note=str(Note(note.text, (*others, line))))


# Reading --------------------------------------------------------------------------------------------------------------


def newest(store: Store) -> Signed | None:
    with store.unrestricted.database.read() as tx:
        return newest_in(tx)


def newest_in(tx: Transaction) -> Signed | None:
    rows = tx.run("checkpoint_newest")
    return Signed(*rows[0]) if rows else None


def checkpoint(store: Store, number: int) -> Signed:
    with store.unrestricted.database.read() as tx:
        rows = tx.run("checkpoint_read", number=number)
    if not rows:
        raise NotFound(f"no checkpoint {number} in this store", checkpoint=number, missing="checkpoint")
    return Signed(*rows[0])


def checkpoints(store: Store, *, before: int, limit: int) -> list[tuple[Signed, CheckpointLeaf]]:
    """Checkpoints, newest first, each with what its last leaf says."""
    with store.unrestricted.database.read() as tx:
        newest = [Signed(*row) for row in tx.run("checkpoints_before", before=before, limit=limit)]
        return [(signed, _leaf_of(tx, signed)) for signed in newest]


def extent(store: Store) -> Extent:
    """In one look, so that a checkpoint that is being made is there whole or not at all."""
    with store.unrestricted.database.read() as tx:
        [row] = tx.run("tree_extent")
    return Extent(*row)


def checkpoint_page(store: Store, *, after: int) -> list[Signed]:
    """The checkpoints after one, oldest first; at most a page of them."""
    with store.unrestricted.database.read() as tx:
        return [Signed(*row) for row in tx.run("checkpoints", after=after, limit=PAGE)]


def leaf_page(store: Store, *, after: int, size: int) -> list[LeafRow]:
    """The leaves of a tree of this size after one, in order; at most a page of them."""
    with store.unrestricted.database.read() as tx:
        return [LeafRow(*row) for row in tx.run("leaves", after=after, size=size, limit=PAGE)]


def all_checkpoints(store: Store) -> Iterator[Signed]:
    """Every checkpoint, oldest first."""
    after = -EVERYTHING  # A row that was put before the first is found, too.
    while page := checkpoint_page(store, after=after):
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].number


def leaf_pages(store: Store, *, size: int) -> Iterator[list[LeafRow]]:
    """The leaves of a tree in order, a page at a time."""
    after = -EVERYTHING  # A row that was put before the first is found, too.
    while page := leaf_page(store, after=after, size=size):
        yield page
        if len(page) < PAGE:
            return
        after = page[-1].number


def digests_of(store: Store, leaves: Iterable[HeadLeaf]) -> list[bytes | None]:
    """The digest of the event that each leaf is about, as the log has it; None when it has none."""
    with store.database.read() as tx:
        answers = tx.batch([("event_digest_of", {"session": leaf.session, "seq": leaf.seq}) for leaf in leaves])
    return [bytes(rows[0][0]) if rows else None for rows in answers]


def leaf_of(store: Store, checkpoint: Signed) -> CheckpointLeaf:
    """What the tree says about a checkpoint."""
    with store.unrestricted.database.read() as tx:
        return _leaf_of(tx, checkpoint)


def _leaf_of(tx: Transaction, checkpoint: Signed) -> CheckpointLeaf:
    """What the tree says about a checkpoint."""
    rows = tx.run("leaf_read", number=checkpoint.size - 1)
    try:
        leaf = leaf_from(rows[0][0]) if rows else None
    except InvalidInput:
        leaf = None
    if not isinstance(leaf, CheckpointLeaf):
        raise Damaged(f"checkpoint {checkpoint.number} has no leaf that says so", audit_tree=True)
    return leaf


def inclusion(store: Store, session: str, size: int) -> Proof | None:
    """The proof of where a session stood last in a tree of this size; None when it is not in it."""
    with store.unrestricted.database.read() as tx:
        rows = tx.run("leaf_of", session=session, size=size)
        if not rows:
            return None
        number, text = rows[0]
        return Proof(number=number, statement=text, hashes=merkle.inclusion(number, size, _nodes(tx)))


def consistency(store: Store, old: int, new: int) -> list[bytes]:
    """The proof that a tree of one size begins with that of another."""
    with store.unrestricted.database.read() as tx:
        return merkle.consistency(old, new, _nodes(tx))


def _nodes(tx: Transaction) -> merkle.Node:
    def node(level: int, index: int) -> bytes:
        number, start = merkle.place(level, index)
        rows = tx.run("leaf_read", number=number)
        hashes = bytes(rows[0][1])[start : start + merkle.HASH] if rows else b""
        if len(hashes) != merkle.HASH:
            raise Damaged(f"leaf {number} of the audit tree is missing or damaged", audit_tree=True)
        return hashes

    return node
