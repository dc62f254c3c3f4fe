"""The tree: it is the one of RFC 6962, and its proofs prove what they say and nothing else."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.model.merkle import EMPTY, HASH, Edge, consistency, edge, inclusion, is_consistent, leaf_hash, place, root_of

# The leaves and roots that implementations of RFC 6962 have shared as test vectors since the first of them.
LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]

sizes = st.integers(0, 70)


def statements(count: int) -> list[bytes]:
    return [f"leaf {number}".encode() for number in range(count)]


def naive_root(leaves: list[bytes]) -> bytes:
    """The definition, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha256(b"\1" + naive_root(leaves[:k]) + naive_root(leaves[k:])).digest()


def naive_path(index: int, leaves: list[bytes]) -> list[bytes]:
    if len(leaves) <= 1:
        return []
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    if index < k:
        return [*naive_path(index, leaves[:k]), naive_root(leaves[k:])]
    return [*naive_path(index - k, leaves[k:]), naive_root(leaves[:k])]


def naive_consistency(old: int, leaves: list[bytes], is_whole: bool = True) -> list[bytes]:
    if old == len(leaves):
        return [] if is_whole else [naive_root(leaves)]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    if old <= k:
        return [*naive_consistency(old, leaves[:k], is_whole), naive_root(leaves[k:])]
    return [*naive_consistency(old - k, leaves[k:], False), naive_root(leaves[:k])]


class Kept:
    """A tree whose leaves keep the hashes they complete, as the store does."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.edge = Edge()
        self.rows = [self.edge.add(leaf_hash(leaf)) for leaf in leaves]

    def node(self, level: int, index: int) -> bytes:
        row, start = place(level, index)
        found = self.rows[row][start : start + HASH]
        assert len(found) == HASH
        return found


@pytest.mark.parametrize("size", range(9))
def test_the_roots_are_those_of_the_shared_vectors(size: int) -> None:
    leaves = [bytes.fromhex(text) for text in LEAVES[:size]]
    assert Kept(leaves).edge.root().hex() == ROOTS[size]
    assert naive_root(leaves).hex() == ROOTS[size]


@given(sizes)
def test_a_tree_that_grew_is_the_tree_of_the_definition(size: int) -> None:
    kept = Kept(statements(size))
    assert kept.edge.root() == naive_root(statements(size))
    again = edge(size, kept.node)
    assert (again.size, again.root()) == (size, kept.edge.root())


@given(sizes, sizes)
def test_a_tree_goes_on_from_its_edge(size: int, more: int) -> None:
    kept = Kept(statements(size))
    grown = edge(size, kept.node)
    for leaf in statements(size + more)[size:]:
        grown.add(leaf_hash(leaf))
    assert grown.root() == naive_root(statements(size + more))


@given(st.data())
def test_every_leaf_is_proven_to_be_where_it_is(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 70))
    index = data.draw(st.integers(0, size - 1))
    leaves = statements(size)
    kept = Kept(leaves)
    proof = inclusion(index, size, kept.node)
    assert proof == naive_path(index, leaves)
    assert root_of(leaf_hash(leaves[index]), index, size, proof) == kept.edge.root()


@given(st.data())
def test_a_proof_proves_no_other_leaf_place_or_size(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 40))
    index, other = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True))
    kept = Kept(statements(size))
    root, proof, leaf = kept.edge.root(), inclusion(index, size, kept.node), leaf_hash(statements(size)[index])
    assert root_of(leaf_hash(b"another"), index, size, proof) != root
    assert root_of(leaf, other, size, proof) != root
    assert root_of(leaf, index, size, proof[:-1]) is None
    assert root_of(leaf, index, size, [*proof, EMPTY]) is None
    changed = data.draw(st.integers(0, len(proof) - 1))
    assert root_of(leaf, index, size, [*proof[:changed], EMPTY, *proof[changed + 1 :]]) != root


@given(st.data())
def test_a_tree_is_proven_to_begin_with_what_it_was(data: st.DataObject) -> None:
    new = data.draw(st.integers(1, 70))
    old = data.draw(st.integers(1, new))
    leaves = statements(new)
    kept = Kept(leaves)
    proof = consistency(old, new, kept.node)
    assert proof == naive_consistency(old, leaves)
    assert is_consistent(old, new, naive_root(leaves[:old]), naive_root(leaves), proof)


@given(st.data())
def test_a_tree_that_begins_with_another_is_not_proven(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, 40))
    old = data.draw(st.integers(1, new - 1))
    leaves = statements(new)
    kept = Kept(leaves)
    proof, was, now = consistency(old, new, kept.node), naive_root(leaves[:old]), kept.edge.root()
    changed = data.draw(st.integers(0, old - 1))
    forged = [*leaves[:changed], b"forged", *leaves[changed + 1 :]]
    assert not is_consistent(old, new, naive_root(forged[:old]), now, proof)
    assert not is_consistent(old, new, was, naive_root(forged), consistency(old, new, Kept(forged).node))
    assert not is_consistent(old, new, was, now, proof[:-1])
    assert not is_consistent(old, new, was, now, [*proof, EMPTY])
    assert not is_consistent(new, old, now, was, proof)


def test_nothing_is_the_beginning_of_everything_and_a_tree_of_itself() -> None:
    root = naive_root(statements(5))
    kept = Kept(statements(5))
    assert consistency(0, 5, kept.node) == consistency(5, 5, kept.node) == []
    assert is_consistent(0, 5, EMPTY, root, [])
    assert is_consistent(5, 5, root, root, [])
    assert not is_consistent(5, 5, EMPTY, root, [])
    assert not is_consistent(0, 5, root, root, [])


@pytest.mark.parametrize(("index", "size"), [(0, 0), (5, 5), (-1, 5)])
def test_there_is_no_proof_of_a_leaf_that_is_not_there(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="has none of index"):
        inclusion(index, size, Kept(statements(5)).node)
    assert root_of(EMPTY, index, size, []) is None
