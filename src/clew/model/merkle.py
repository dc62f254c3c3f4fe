"""The Merkle tree of RFC 6962 over a list that only grows: its root, and proofs of what it holds and how it grew.

    leaf = SHA-256(0x00 ‖ statement)        node = SHA-256(0x01 ‖ left ‖ right)

Leaf n completes every subtree that ends with it: one of 1 leaf, and one of 2, 4, 8 ... as often as n + 1 can be halved,
two on average. A store that keeps those hashes with the leaf has every node of the tree. A root or a proof reads a few
of them, however large the tree is.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256

HASH = 32
EMPTY = sha256().digest()

Node = Callable[[int, int], bytes]
"""The hash of a whole subtree: of 2**level leaves, the index-th of that size."""


def leaf_hash(statement: bytes) -> bytes:
    return sha256(b"\0" + statement).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


class Edge:
    """The right edge of a growing tree: the roots of its whole subtrees, the largest first."""

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        self.size = size
        self._peaks = list(peaks)

    def add(self, leaf: bytes) -> bytes:
        """Add a leaf by its hash; returns the hashes of the subtrees that it completes, the smallest first."""
        completed = [leaf]
        size = self.size
        while size & 1:
            completed.append(node_hash(self._peaks.pop(), completed[-1]))
            size >>= 1
        self._peaks.append(completed[-1])
        self.size += 1
        return b"".join(completed)

    def root(self) -> bytes:
        return _joined(self._peaks) if self._peaks else EMPTY


def edge(size: int, node: Node) -> Edge:
    """The right edge of a tree of this size."""
    return Edge(size, [node(level, index) for level, index in _whole(0, size)])


def place(level: int, index: int) -> tuple[int, int]:
    """The leaf that completes a subtree, and the offset of the subtree's hash among that leaf's hashes."""
    return (index + 1 << level) - 1, level * HASH


# Proofs ---------------------------------------------------------------------------------------------------------------


def inclusion(index: int, size: int, node: Node) -> list[bytes]:
    """The proof that a tree of this size holds the leaf of this index: the siblings on the way from it to the root."""
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has none of index {index}")
    return [_hash(first, end, node) for first, end in reversed(_siblings(index, size))]


def consistency(old: int, new: int, node: Node) -> list[bytes]:
    """The proof that the tree of the new size begins with that of the old size."""
    if not 0 <= old <= new:
        raise ValueError(f"a tree of {new} leaves does not begin with {old}")
    if old in (0, new):
        return []
    proof: list[tuple[int, int]] = []
    first, end, is_whole = 0, new, True
    while old != end:
        half = first + _half(end - first)
        if old <= half:
            proof.append((half, end))
            end = half
        else:
            proof.append((first, half))
            first, is_whole = half, False
    if not is_whole:
        proof.append((first, end))
    return [_hash(first, end, node) for first, end in reversed(proof)]


def root_of(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes | None:
    """The root that an inclusion proof leads to; None when its length does not fit the index and the size."""
    if not 0 <= index < size:
        return None
    root = leaf
    sides = _sides(index, size - 1, len(proof))
    if sides is None:
        return None
    for sibling, is_left in zip(proof, sides, strict=True):
        root = node_hash(sibling, root) if is_left else node_hash(root, sibling)
    return root


def is_consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the tree with the new root begins with the one that has the old root."""
    if not 0 <= old <= new:
        return False
    if old in (0, new):
        return not proof and (old_root == EMPTY if old == 0 else old_root == new_root)
    index, last = old - 1, new - 1
    while index & 1:
        index, last = index >> 1, last >> 1
    # A tree of 2, 4, 8 ... leaves is a node of the larger one: its root is left out of the proof.
    path = list(proof) if index else [old_root, *proof]
    if not path:
        return False
    root_of_old = root_of_new = path[0]
    sides = _sides(index, last, len(path) - 1)
    if sides is None:
        return False
    for sibling, is_left in zip(path[1:], sides, strict=True):
        if is_left:
            root_of_old = node_hash(sibling, root_of_old)
        root_of_new = node_hash(sibling, root_of_new) if is_left else node_hash(root_of_new, sibling)
    return root_of_old == old_root and root_of_new == new_root


def _sides(index: int, last: int, length: int) -> list[bool] | None:
    """For each hash of a proof, whether it stands to the left of the node that it is joined with.

    `index` is the node that the proof begins at, `last` the last node of its level. None when a proof of this length
    does not end at the root.
    """
    sides = []
    for _ in range(length):
        if last == 0:
            return None
        is_left = bool(index & 1) or index == last
        sides.append(is_left)
        # A last node without a sibling moves up as it is.
        while is_left and not index & 1 and index:
            index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    return sides if last == 0 else None


# Parts ----------------------------------------------------------------------------------------------------------------


def _half(size: int) -> int:
    """How many of two or more leaves are in the left part: the largest power of two that leaves some for the right."""
    return 1 << (size - 1).bit_length() - 1


def _siblings(index: int, size: int) -> list[tuple[int, int]]:
    """The siblings on the path from the root to a leaf, as ranges of leaves."""
    first, end, nodes = 0, size, []
    while end - first > 1:
        half = first + _half(end - first)
        if index < half:
            nodes.append((half, end))
            end = half
        else:
            nodes.append((first, half))
            first = half
    return nodes


def _whole(first: int, end: int) -> list[tuple[int, int]]:
    """A range of leaves that starts where a subtree does, as whole subtrees (level, index), the largest first."""
    nodes = []
    while first < end:
        level = (end - first).bit_length() - 1
        nodes.append((level, first >> level))
        first += 1 << level
    return nodes


def _hash(first: int, end: int, node: Node) -> bytes:
    return _joined([node(level, index) for level, index in _whole(first, end)])


def _joined(peaks: Sequence[bytes]) -> bytes:
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak, root)
    return root
